"""The files beside the ONNX graphs that Transformers.js reads: tokenizer and configurations, from a GGUF."""

import json

import gguf


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_configs(source, folder):
    if source.meta("tokenizer.ggml.model") != "gpt2" or source.meta("tokenizer.ggml.pre") != "smollm":
        raise SystemExit(f"The tokenizer ({source.meta('tokenizer.ggml.pre')}) is not handled.")
    tokens = source.meta("tokenizer.ggml.tokens")
    special = special_tokens(source, tokens)
    write_json(folder / "tokenizer.json", tokenizer(source, tokens, special))
    write_json(folder / "tokenizer_config.json", tokenizer_config(source, tokens, special))
    write_json(folder / "config.json", config(source))
    write_json(folder / "generation_config.json", end_tokens(source))


def token_id(source, name):
    return source.meta(f"tokenizer.ggml.{name}_token_id")


def end_tokens(source):
    names = {"bos": "bos", "eos": "eos", "pad": "padding"}
    return {f"{name}_token_id": token_id(source, key) for name, key in names.items()}


def special_tokens(source, tokens):
    types = source.meta("tokenizer.ggml.token_type")
    kinds = (gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED)
    return [
        {
            "id": i,
            "content": tokens[i],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": types[i] == gguf.TokenType.CONTROL,
        }
        for i, kind in enumerate(types)
        if kind in kinds
    ]


def tokenizer(source, tokens, special):
    """The published file has {"type": "Digits"}, which Transformers.js takes for ASCII digits only; the
    split at \\p{N} is the same in the Rust tokenizers."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    digits = {"type": "Split", "pattern": {"Regex": r"\p{N}"}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": list(source.meta("tokenizer.ggml.merges")),
        },
    }


def tokenizer_config(source, tokens, special):
    text = {name: tokens[token_id(source, name)] for name in ("bos", "eos", "unknown", "padding")}
    return {
        "add_prefix_space": False,
        "added_tokens_decoder": {str(row["id"]): {k: v for k, v in row.items() if k != "id"} for row in special},
        "additional_special_tokens": [text["bos"], text["eos"]],
        "bos_token": text["bos"],
        "eos_token": text["eos"],
        "pad_token": text["padding"],
        "unk_token": text["unknown"],
        "chat_template": source.meta("tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "model_max_length": source.context,
        "tokenizer_class": "GPT2Tokenizer",
        "vocab_size": source.vocab,
    }


def config(source):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        **end_tokens(source),
        "hidden_act": "silu",
        "hidden_size": source.hidden,
        "intermediate_size": source.ffn,
        "num_hidden_layers": source.layers,
        "num_attention_heads": source.heads,
        "num_key_value_heads": source.kv_heads,
        "head_dim": source.head_dim,
        "max_position_embeddings": source.context,
        "rms_norm_eps": float(f"{source.eps:.6g}"),
        "rope_theta": source.theta,
        "rope_scaling": None,
        "tie_word_embeddings": source.tied,
        "torch_dtype": "float32",
        "use_cache": True,
        "vocab_size": source.vocab,
    }
