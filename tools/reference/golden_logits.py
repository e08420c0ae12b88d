"""Writes tests/data/golden_logits_exact.json: the Gemma cases of golden_logits.json once more, without
llama.cpp's half-precision GELU table.

golden_logits.json was made with the table, which moves single logits of Gemma 3 270M by up to 0.07:
more than the bound for f32 activations. Here the same prompts and continued ids are evaluated by a
llama.cpp built by exact_gelu.sh, on the weights dequantized to F32. Run as README.md says for
expected_logits.py, from the root of the repository:
  python tools/reference/golden_logits.py --gemma3 .deps/models/gemma-3-270m.gguf
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from llama_reference import Model, write_f32_copy

SOURCE = Path("tests/data/golden_logits.json")
OUTPUT = Path("tests/data/golden_logits_exact.json")
TOP_COUNT = 8


def rounded(values) -> list[float]:
    return [float(f"{v:.6g}") for v in values]


def describe(row: np.ndarray) -> dict:
    row = row.astype(np.float64)
    logprobs = row - (np.log(np.exp(row - row.max()).sum()) + row.max())
    best = np.argsort(-row, kind="stable")[:TOP_COUNT]
    return {
        "top_ids": best.tolist(),
        "top_logprobs": rounded(logprobs[best]),
        "top_logits": rounded(row[best]),
    }


def exact_case(model: Model, case: dict) -> dict:
    prompt, greedy = case["prompt_ids"], case["greedy_ids"]
    ids = prompt + greedy[:-1]
    logits = model.logits(ids, len(ids) + 32, len(ids))
    rows = logits[len(prompt) - 1 :]
    return {**case, "steps": [describe(row) for row in rows]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gemma3", required=True, type=Path, help="Gemma 3 270M, Q4_K_M")
    options = parser.parse_args()
    golden = json.loads(SOURCE.read_text(encoding="utf-8"))["gemma3"]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "f32.gguf"
        write_f32_copy(options.gemma3, copy)
        model = Model(copy)
        cases = [exact_case(model, case) for case in golden["cases"]]
        model.close()
    moved = max(
        abs(dict(zip(e["top_ids"], e["top_logits"])).get(i, value) - value)
        for exact, case in zip(cases, golden["cases"])
        for e, s in zip(exact["steps"], case["steps"])
        for i, value in zip(s["top_ids"], s["top_logits"])
    )
    print(f"The table moves a logit by up to {moved:.4f}.")
    content = {"gemma3": {"file": golden["file"], "cases": cases}}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    OUTPUT.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
