"""Writes the tiny random checkpoints of tests/data/tiny: one per architecture row and per tensor type.

They are ordinary GGUF files: llama.cpp loads and runs each of them. Seeded, so that a second run
writes the same bytes. Weights are scaled so that attention is far from uniform and logits spread
over several units; the shapes are odd where the tensor type allows it.
"""

import argparse
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

from ggml_types import COMPUTED_TYPES, block_size, quantize
from vocabularies import add_bpe, add_sentencepiece

VOCAB_SIZE = 291
LOGIT_SPREAD = 3.5
BPE_MERGES, SENTENCEPIECE_MERGES = 24, 14


@dataclass(frozen=True)
class TinyModel:
    """One checkpoint: hyper-parameters by their GGUF meaning, and how tensors are stored."""

    name: str
    architecture: str = "llama"
    embedding: int = 96
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 16
    feed_forward: int = 160
    layers: int = 2
    tied: bool = True
    tensor_type: str | Callable[[str], str] = "Q8_0"
    rope_base: float = 10000.0
    pre: str | None = "smollm"  # None: SentencePiece
    space_prefix: bool = True
    qkv_bias: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    fused: bool = False  # phi3: one QKV and one gate+up matrix
    rope_freqs: tuple[float, ...] = ()
    rope_long: tuple[float, ...] = ()
    rope_short: tuple[float, ...] = ()
    rotary_dim: int | None = None
    alignment: int | None = None
    context: int = 512
    seed_name: str = ""  # empty: the name
    extra: Callable[[GGUFWriter], None] = field(default=lambda writer: None)


def llama3_factors(
    head_dim: int, base: float, factor: float, low: float, high: float, old_context: int
) -> tuple[float, ...]:
    """Llama 3's frequency divisors, by the formula of the Llama 3.1 release (transformers' `llama3` rope type)."""
    factors = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * math.pi * base ** (i / head_dim)
        if wavelength < old_context / high:
            factors.append(1.0)
        elif wavelength > old_context / low:
            factors.append(factor)
        else:
            smooth = (old_context / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return tuple(factors)


def like_q4_k_m(name: str) -> str:
    """Types mixed within a layer as llama.cpp's Q4_K_M does."""
    if name in ("token_embd.weight", "output.weight") or "attn_v" in name or "ffn_down" in name:
        return "Q6_K"
    return "Q5_K" if name == "blk.0.attn_k.weight" else "Q4_K"


def like_small_mix(name: str) -> str:
    """The mixture of the 270M Gemma file, whose rows are no multiple of 256."""
    if name == "token_embd.weight":
        return "Q8_0"
    return {
        "attn_v": "Q8_0",
        "attn_k": "Q5_0",
        "attn_output": "Q4_1",
        "ffn_down": "Q5_1",
        "ffn_up": "Q4_0",
    }.get(name.split(".")[2], "Q5_0")


def gemma3_keys(writer: GGUFWriter) -> None:
    writer.add_sliding_window(16)
    writer.add_float32("gemma3.rope.freq_base_swa", 10000.0)


def gemma3_linear_keys(writer: GGUFWriter) -> None:
    """As the 4B and larger models: global layers stretched by a linear factor; an explicit pattern."""
    writer.add_sliding_window(16)
    writer.add_float32("gemma3.rope.freq_base_swa", 10000.0)
    writer.add_array("gemma3.attention.sliding_window_pattern", [True, False, True, False])
    writer.add_string("gemma3.rope.scaling.type", "linear")
    writer.add_float32("gemma3.rope.scaling.factor", 8.0)


def gemma2_keys(writer: GGUFWriter) -> None:
    writer.add_sliding_window(16)
    writer.add_attn_logit_softcapping(5.0)
    writer.add_final_logit_softcapping(9.0)


def linear_keys(writer: GGUFWriter) -> None:
    writer.add_string("llama.rope.scaling.type", "linear")
    writer.add_float32("llama.rope.scaling.factor", 4.0)


def yarn_keys(writer: GGUFWriter) -> None:
    writer.add_string("qwen2.rope.scaling.type", "yarn")
    writer.add_float32("qwen2.rope.scaling.factor", 4.0)
    writer.add_uint32("qwen2.rope.scaling.original_context_length", 64)


def phi3_keys(writer: GGUFWriter) -> None:
    writer.add_uint32("phi3.rope.scaling.original_context_length", 512)
    writer.add_sliding_window(0)


def phi3_long_keys(writer: GGUFWriter) -> None:
    writer.add_uint32("phi3.rope.scaling.original_context_length", 256)
    writer.add_float32("phi3.rope.scaling.attn_factor", math.sqrt(1 + math.log(16) / math.log(256)))
    writer.add_sliding_window(0)


def catalogue() -> list[TinyModel]:
    gemma = dict(
        embedding=64,
        heads=4,
        kv_heads=1,
        head_dim=32,
        feed_forward=96,
        pre=None,
        space_prefix=False,
        tensor_type="Q5_0",
        post_norms=True,
    )
    phi3 = dict(
        architecture="phi3",
        fused=True,
        pre=None,
        tied=False,
        heads=3,
        kv_heads=1,
        head_dim=32,
        feed_forward=128,
    )
    llama3 = llama3_factors(32, 500000.0, 8.0, 1.0, 4.0, 64)
    models = [
        TinyModel("llama_tied"),
        TinyModel(
            "llama_untied",
            embedding=160,
            heads=5,
            kv_heads=1,
            head_dim=32,
            feed_forward=96,
            tied=False,
            tensor_type="Q4_0",
            pre="gpt-2",
            alignment=64,
        ),
        TinyModel(
            "llama3_rope",
            heads=3,
            kv_heads=1,
            head_dim=32,
            rope_base=500000.0,
            rope_freqs=llama3,
            pre="llama-bpe",
        ),
        TinyModel(
            "llama_linear_rope",
            heads=3,
            kv_heads=3,
            head_dim=32,
            extra=linear_keys,
            tensor_type="Q5_1",
        ),
        TinyModel(
            "mistral",
            heads=4,
            kv_heads=2,
            head_dim=32,
            rope_base=1000000.0,
            pre=None,
            tied=False,
            tensor_type="Q5_0",
        ),
        TinyModel("qwen2", architecture="qwen2", qkv_bias=True, rope_base=1000000.0, pre="qwen2"),
        TinyModel(
            "qwen2_yarn",
            architecture="qwen2",
            qkv_bias=True,
            tied=False,
            pre="qwen2",
            tensor_type="Q4_1",
            extra=yarn_keys,
        ),
        TinyModel(
            "qwen3",
            architecture="qwen3",
            heads=4,
            kv_heads=2,
            head_dim=40,
            qk_norm=True,
            rope_base=1000000.0,
            pre="qwen2",
            feed_forward=128,
        ),
        TinyModel(
            "gemma3",
            architecture="gemma3",
            layers=8,
            qk_norm=True,
            rope_base=1000000.0,
            extra=gemma3_keys,
            **gemma,
        ),
        TinyModel(
            "gemma3_linear",
            architecture="gemma3",
            layers=4,
            qk_norm=True,
            rope_base=1000000.0,
            extra=gemma3_linear_keys,
            **gemma,
        ),
        TinyModel("gemma2", architecture="gemma2", layers=4, extra=gemma2_keys, **gemma),
        TinyModel(
            "gemma2_27b",
            architecture="gemma2",
            layers=46,
            extra=gemma2_keys,
            **(
                gemma | dict(embedding=32, heads=2, head_dim=8, feed_forward=32, tensor_type="Q4_0")
            ),
        ),
        TinyModel("phi3", extra=phi3_keys, **phi3),
        TinyModel(
            "phi3_longrope",
            extra=phi3_long_keys,
            rotary_dim=24,
            context=4096,
            **(phi3 | dict(tied=True, pre="gpt-2")),
            rope_long=tuple(1.0 + 0.9 * i for i in range(12)),
            rope_short=tuple(1.0 + 0.05 * i for i in range(12)),
        ),
    ]
    wide = dict(embedding=256, heads=8, kv_heads=2, head_dim=32, feed_forward=256, layers=1)
    small = dict(layers=1)
    for name in COMPUTED_TYPES:
        shape = (
            wide
            if name.endswith("_K")
            else (small | dict(embedding=64, heads=4, feed_forward=96) if name == "F32" else small)
        )
        models.append(TinyModel(f"type_{name.lower()}", tensor_type=name, **shape))
    models.append(TinyModel("type_mix_k", tensor_type=like_q4_k_m, **wide))
    models.append(TinyModel("type_mix_small", tensor_type=like_small_mix))
    return models


def make_tensors(model: TinyModel) -> dict[str, np.ndarray]:
    """Float32 weights by GGUF name, in storage order (rows, columns); a row is one output."""
    rng = np.random.default_rng(zlib.crc32((model.seed_name or model.name).encode()))
    q_dim, kv_dim = model.heads * model.head_dim, model.kv_heads * model.head_dim

    def matrix(rows: int, cols: int, gain: float) -> np.ndarray:
        return rng.standard_normal((rows, cols), dtype=np.float32) * np.float32(
            gain / math.sqrt(cols)
        )

    def norm(size: int, center: float) -> np.ndarray:
        return (center * (1 + 0.25 * rng.standard_normal(size))).astype(np.float32)

    # Small embeddings in a tied model, or the residual alone would predict the input token again.
    root = 1.0 if model.architecture.startswith("gemma") else math.sqrt(model.embedding)
    gain = root * (0.3 if model.tied else 1.0)
    tensors = {"token_embd.weight": matrix(VOCAB_SIZE, model.embedding, gain)}
    tensors["output_norm.weight"] = norm(
        model.embedding, LOGIT_SPREAD / gain if model.tied else LOGIT_SPREAD
    )
    if not model.tied:
        tensors["output.weight"] = matrix(VOCAB_SIZE, model.embedding, 1.0)
    for key, values in (
        ("rope_freqs", model.rope_freqs),
        ("rope_factors_long", model.rope_long),
        ("rope_factors_short", model.rope_short),
    ):
        if values:
            tensors[f"{key}.weight"] = np.array(values, dtype=np.float32)
    for i in range(model.layers):
        tensors |= {
            f"blk.{i}.{k}": v
            for k, v in make_layer(model, matrix, norm, rng, q_dim, kv_dim).items()
        }
    return tensors


def make_layer(
    model: TinyModel, matrix, norm, rng, q_dim: int, kv_dim: int
) -> dict[str, np.ndarray]:
    layer = {"attn_norm.weight": norm(model.embedding, 1.0)}
    q, k, v = (
        matrix(q_dim, model.embedding, 1.5),
        matrix(kv_dim, model.embedding, 1.5),
        matrix(kv_dim, model.embedding, 1.2),
    )
    if model.fused:
        layer["attn_qkv.weight"] = np.concatenate([q, k, v])
    else:
        layer |= {"attn_q.weight": q, "attn_k.weight": k, "attn_v.weight": v}
    if model.qkv_bias:
        for part, size in (("q", q_dim), ("k", kv_dim), ("v", kv_dim)):
            layer[f"attn_{part}.bias"] = (0.7 * rng.standard_normal(size)).astype(np.float32)
    if model.qk_norm:
        layer["attn_q_norm.weight"], layer["attn_k_norm.weight"] = norm(model.head_dim, 1.5), norm(
            model.head_dim, 1.5
        )
    layer["attn_output.weight"] = matrix(model.embedding, q_dim, 1.5)
    if model.post_norms:
        layer["post_attention_norm.weight"] = norm(model.embedding, 0.8)
    layer["ffn_norm.weight"] = norm(model.embedding, 1.0)
    gate, up = matrix(model.feed_forward, model.embedding, 1.3), matrix(
        model.feed_forward, model.embedding, 1.3
    )
    if model.fused:
        layer["ffn_up.weight"] = np.concatenate([gate, up])
    else:
        layer |= {"ffn_gate.weight": gate, "ffn_up.weight": up}
    layer["ffn_down.weight"] = matrix(model.embedding, model.feed_forward, 1.2)
    if model.post_norms:
        layer["post_ffw_norm.weight"] = norm(model.embedding, 0.8)
    return layer


def add_metadata(writer: GGUFWriter, model: TinyModel) -> None:
    # "phi3" within a name makes llama.cpp look for Phi-3's own special tokens.
    writer.add_name(f"Nonstop tiny {model.name.replace('phi3', 'phi 3')}")
    writer.add_context_length(model.context)
    writer.add_embedding_length(model.embedding)
    writer.add_block_count(model.layers)
    writer.add_feed_forward_length(model.feed_forward)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.kv_heads)
    writer.add_layer_norm_rms_eps(1e-6 if model.architecture != "llama" else 1e-5)
    writer.add_rope_freq_base(model.rope_base)
    if model.architecture in ("llama", "phi3"):
        writer.add_rope_dimension_count(model.rotary_dim or model.head_dim)
    if model.head_dim * model.heads != model.embedding or model.architecture.startswith("gemma"):
        writer.add_key_length(model.head_dim)
        writer.add_value_length(model.head_dim)
    model.extra(writer)
    if model.pre is None:
        add_sentencepiece(writer, SENTENCEPIECE_MERGES, VOCAB_SIZE)
        writer.add_add_space_prefix(model.space_prefix)
    else:
        add_bpe(writer, model.pre, BPE_MERGES, VOCAB_SIZE)
    writer.add_vocab_size(VOCAB_SIZE)


def stored_type(model: TinyModel, name: str, shape: tuple[int, ...]) -> str:
    """Vectors stay F32; a row that is no whole number of blocks falls back to F16."""
    if len(shape) == 1:
        return "F32"
    wanted = model.tensor_type if isinstance(model.tensor_type, str) else model.tensor_type(name)
    return wanted if shape[1] % block_size(wanted)[0] == 0 else "F16"


def write_model(model: TinyModel, folder: Path, split_tensors: int = 0) -> None:
    path = folder / f"{model.name}.gguf"
    writer = GGUFWriter(path, model.architecture, split_max_tensors=split_tensors)
    if model.alignment:
        writer.add_custom_alignment(model.alignment)
    add_metadata(writer, model)
    for name, values in make_tensors(model).items():
        kind = stored_type(model, name, values.shape)
        if kind == "F32":
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, quantize(values, kind), raw_dtype=GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_version_2(source: Path, target: Path) -> None:
    """GGUF v2 and v3 have the same little-endian layout: only the version number differs."""
    content = bytearray(source.read_bytes())
    assert content[:8] == b"GGUF\x03\x00\x00\x00"
    content[4] = 2
    target.write_bytes(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="comma-separated model names")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    only = set(filter(None, options.only.split(",")))
    for model in catalogue():
        if not only or model.name in only:
            write_model(model, options.folder)
            print(f"{model.name}: {(options.folder / (model.name + '.gguf')).stat().st_size} bytes")
    if not only:
        source = next(m for m in catalogue() if m.name == "type_q4_0")
        write_model(
            replace(source, name="split", seed_name=source.name), options.folder, split_tensors=4
        )
        write_version_2(options.folder / "type_q4_0.gguf", options.folder / "version2.gguf")


if __name__ == "__main__":
    main()
