"""Writes strings.json, the synthetic vocabularies and, per vocabulary, llama.cpp's ids and pieces.

`ids` are plain (no BOS or EOS, special tokens are text), `ids_special` have both as the model asks.
`facts`: special ids, whether BOS and EOS are added, and the ids that end a generation.
`pieces` rows are [id, piece, piece with special tokens rendered], bytes as hex.
"""

import argparse
import json
import random
from pathlib import Path

from gguf import GGUFWriter

from llama_reference import Model
from strings import make_strings
from vocabularies import add_bpe, add_sentencepiece

PRE_TOKENIZERS = ["gpt-2", "smollm", "llama-bpe", "qwen2", "deepseek-llm", "tekken"]
PHI3_CONTROLS = ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")


def write_bpe(path: Path, pre: str) -> None:
    writer = GGUFWriter(path, "llama")
    writer.add_name(f"Nonstop vocabulary {pre}")
    add_bpe(writer, pre, None, whole_words=True)
    if pre in ("smollm", "deepseek-llm"):
        writer.add_add_bos_token(pre == "deepseek-llm")
    if pre == "qwen2":
        writer.add_add_bos_token(False)
        writer.add_add_eos_token(True)
    finish(writer)


def write_sentencepiece(
    path: Path, name: str, space_prefix: bool | None, controls: tuple[str, ...] = ()
) -> None:
    writer = GGUFWriter(path, "llama")
    writer.add_name(name)
    add_sentencepiece(writer, None, extra_controls=controls)
    if space_prefix is not None:
        writer.add_add_space_prefix(space_prefix)
    if space_prefix is False:
        writer.add_add_bos_token(True)
        writer.add_add_eos_token(True)
    finish(writer)


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def sample_ids(vocab_size: int) -> list[int]:
    """The first and last ids, where special tokens and bytes are, and a few hundred others."""
    rng = random.Random(vocab_size)
    ids = (
        set(range(20))
        | set(range(vocab_size - 20, vocab_size))
        | {rng.randrange(vocab_size) for _ in range(200)}
    )
    return sorted(ids | {i for i in range(20, min(vocab_size, 300), 7)})


def write_tokens(vocabulary: Path, output: Path, strings: list[str]) -> None:
    model = Model(vocabulary, vocab_only=True)
    plain = [model.tokenize(s, False) for s in strings]
    special = [model.tokenize(s, True) for s in strings]
    pieces = [
        [i, model.piece(i, False).hex(), model.piece(i, True).hex()]
        for i in sample_ids(model.vocab_size)
    ]
    facts = model.token_facts()
    model.close()
    parts = [
        f'"vocabulary":{json.dumps(vocabulary.name)}',
        '"facts":' + json.dumps(facts, separators=(",", ":")),
        '"ids":' + rows(plain),
        '"ids_special":' + rows(special),
        '"pieces":' + rows(pieces),
    ]
    output.write_text("{" + ",\n".join(parts) + "}\n")
    print(
        f"{output.name}: {sum(map(len, plain))} ids, {len({i for ids in plain for i in ids})} distinct, {output.stat().st_size} bytes"
    )


def rows(values: list) -> str:
    return "[" + ",\n".join(json.dumps(v, separators=(",", ":")) for v in values) + "]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--smollm2", type=Path, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--gemma3", type=Path, help="gemma-3-270m-q4_k_m.gguf")
    options = parser.parse_args()
    strings = make_strings()
    vocabularies = options.folder / "vocab"
    vocabularies.mkdir(parents=True, exist_ok=True)
    (options.folder / "strings.json").write_text(rows(strings) + "\n")
    for pre in PRE_TOKENIZERS:
        write_bpe(vocabularies / f"bpe_{pre}.gguf", pre)
    write_sentencepiece(vocabularies / "spm_prefix.gguf", "Nonstop vocabulary", None)
    write_sentencepiece(vocabularies / "spm_noprefix.gguf", "Nonstop vocabulary", False)
    write_sentencepiece(vocabularies / "spm_phi3.gguf", "Phi-3 vocabulary", True, PHI3_CONTROLS)
    for path in sorted(vocabularies.glob("*.gguf")):
        write_tokens(path, options.folder / f"tokens_{path.stem}.json", strings)
    for name, path in (("smollm2", options.smollm2), ("gemma3", options.gemma3)):
        if path:
            write_tokens(path, options.folder / f"tokens_{name}.json", strings)


if __name__ == "__main__":
    main()
