"""Writes NAME.json beside each tiny model: llama.cpp's teacher-forced logits for fixed prompts.

Each model is dequantized to F32 first (see llama_reference.py). The prompt is fed at once and again
token by token; the two must agree. Floats have 6 significant digits.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from llama_reference import Model, write_f32_copy

PROMPT_LENGTHS = {
    1: [0],
    7: [0, 3, 6],
    33: [14, 15, 16, 17, 32],
    80: [15, 16, 17, 31, 32, 33, 47, 63, 78, 79],
}
FULL_LENGTHS = (33, 80)
TOP_COUNT = 8
# Other forms of type_q4_0.gguf, judged by its values: name prefix -> file to open.
SAME_AS_Q4_0 = {"split-": "split-00001-of-00003.gguf", "version2": "version2.gguf"}


def rounded(values) -> list[float]:
    return [float(f"{v:.6g}") for v in values]


def describe(logits: np.ndarray, position: int) -> dict:
    row = logits[position].astype(np.float64)
    logprobs = row - (np.log(np.exp(row - row.max()).sum()) + row.max())
    best = np.argsort(-row, kind="stable")[:TOP_COUNT]
    return {
        "pos": position,
        "ids": best.tolist(),
        "logits": rounded(row[best]),
        "logprobs": rounded(logprobs[best]),
    }


def make_case(model: Model, length: int, context: int) -> tuple[dict, float, np.ndarray]:
    ids = np.random.default_rng(1000 + length).integers(0, model.vocab_size, length).tolist()
    logits = model.logits(ids, context, length)
    single = model.logits(ids, context, 1)
    assert np.isfinite(logits).all()
    case = {
        "n_ctx": context,
        "ids": ids,
        "steps": [describe(logits, p) for p in PROMPT_LENGTHS[length]],
    }
    if length in FULL_LENGTHS:
        case["full"] = {"pos": length - 1, "logits": rounded(logits[-1])}
    return case, float(np.abs(logits - single).max()), logits


def make_expected(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "f32.gguf"
        write_f32_copy(path, copy)
        model = Model(copy)
        contexts = (256, 512) if "longrope" in path.name else (256,)
        results = [make_case(model, n, c) for c in contexts for n in PROMPT_LENGTHS]
        model.close()
    worst = max(r[1] for r in results)
    last = results[-1][2]
    top = np.sort(last, axis=1)
    print(
        f"{path.stem}: std {last.std():.2f}, median margin {np.median(top[:, -1] - top[:, -2]):.2f}, chunked against single {worst:.1e}"
    )
    assert worst < 2e-3, worst
    content = {"model": path.name, "cases": [r[0] for r in results]}
    path.with_suffix(".json").write_text(json.dumps(content, separators=(",", ":")) + "\n")


def check_same_model(folder: Path) -> None:
    """llama.cpp loads the split and the version 2 file and computes the very same logits with them."""
    results = []
    for name in ("type_q4_0.gguf", *SAME_AS_Q4_0.values()):
        model = Model(folder / name)
        results.append(model.logits(list(range(20)), 256, 20))
        model.close()
    assert all((r == results[0]).all() for r in results[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="+", help="models, or folders of models")
    for path in parser.parse_args().paths:
        for model in sorted(path.glob("*.gguf")) if path.is_dir() else [path]:
            if not model.name.startswith(tuple(SAME_AS_Q4_0)):
                make_expected(model)
        if path.is_dir():
            check_same_model(path)


if __name__ == "__main__":
    main()
