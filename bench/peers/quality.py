"""How far each subject of the benchmark is from the model that its file holds: writes quality.json.

  .deps/peers/python/bin/python bench/peers/quality.py        (after ./run bench cpu --peers has set up)

Mean Kullback-Leibler divergence in nats, over the positions of SmolLM2's cases in
tests/data/golden_logits.json (made from exactly these weights in f32), teacher-forced. As in
tests/golden/compare.mjs it is taken over the 8 listed ids and one bucket for the rest. It holds what is
lost by other weights and by rounding activations: llama.cpp's and ours are rounded to 8 bits.
wllama is llama.cpp, so its files are read by llama.cpp here; Transformers.js's by ONNX Runtime.
"""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import llama_cpp.llama_cpp as llama
import numpy as np
import onnxruntime

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / ".deps/peers/models"
NAME = "smollm2-135m-instruct"
SAME_FILE = "same file"
FLOOR = 1e-7
TOP_COUNT = 256
SILENCE = llama.llama_log_callback(lambda level, text, data: None)


class LlamaCpp:
    def __init__(self, path, context):
        self.model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
        options = llama.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = context
        self.context = llama.llama_init_from_model(self.model, options)
        self.vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))

    def logits(self, ids, kept):
        """Of the last `kept` positions."""
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)
        batch = llama.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, i, 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i >= len(ids) - kept
        assert llama.llama_decode(self.context, batch) == 0
        rows = []
        for i in range(len(ids) - kept, len(ids)):
            pointer = llama.llama_get_logits_ith(self.context, i)
            rows.append(np.ctypeslib.as_array(pointer, shape=(self.vocabulary,)).copy())
        llama.llama_batch_free(batch)
        return np.stack(rows)


class Onnx:
    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def logits(self, ids, kept):
        feeds = {
            "input_ids": np.array([ids], np.int64),
            "attention_mask": np.ones((1, len(ids)), np.int64),
            "num_logits_to_keep": np.array(kept, np.int64),
        }
        for value in self.session.get_inputs():
            if value.name.startswith("past_key_values"):
                _, heads, _, width = value.shape
                feeds[value.name] = np.zeros((1, heads, 0, width), np.float32)
        return self.session.run(["logits"], feeds)[0][0]


def log_softmax(rows):
    rows = rows.astype(np.float64)
    rows -= rows.max(-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(-1, keepdims=True))


def divergence(step, logprob_of):
    kl, wanted_rest, got_rest = 0.0, 1.0, 1.0
    for token, wanted in zip(step["top_ids"], step["top_logprobs"]):
        got = logprob_of(token)
        kl += np.exp(wanted) * (wanted - got)
        wanted_rest -= np.exp(wanted)
        got_rest -= np.exp(got)
    rest = max(wanted_rest, FLOOR)
    return kl + rest * np.log(rest / max(got_rest, FLOOR))


def measure(runner, cases):
    values, agreed = [], []
    for case in cases:
        steps = case["steps"]
        ids = case["prompt_ids"] + case["greedy_ids"][: len(steps) - 1]
        rows = log_softmax(runner.logits(ids, len(steps)))
        for step, row in zip(steps, rows):
            values.append(divergence(step, lambda token, row=row: row[token]))
            agreed.append(int(row.argmax()) == step["top_ids"][0])
    return values, agreed


def measure_ours(cases):
    """Through the command line, which lists the best ids only; what it does not list is rarer."""
    wanted = [{"ids": case["prompt_ids"], "continue": case["greedy_ids"]} for case in cases]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(wanted, file)
        file.flush()
        words = ["score", "--cases", file.name, "--logprobs", str(TOP_COUNT), "--json"]
        command = [ROOT / ".deps/node24/bin/node", ROOT / "apps/cli/dist/cli.mjs", *words]
        got = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["cases"]
    values, agreed = [], []
    for case, ours in zip(cases, got):
        for step, found in zip(case["steps"], ours["steps"]):
            listed = dict(zip(found["top_ids"], found["top_logprobs"]))
            least = found["top_logprobs"][-1]
            values.append(divergence(step, lambda token, listed=listed, least=least: listed.get(token, least)))
            agreed.append(found["top_ids"][0] == step["top_ids"][0])
    return values, agreed


def row(software, weights, result):
    values, agreed = result
    found = {
        "model": NAME,
        "software": software,
        "weights": weights,
        "mean_kl": float(f"{np.mean(values):.4g}"),
        "top1": round(float(np.mean(agreed)), 4),
        "steps": len(values),
    }
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def main():
    llama.llama_log_set(SILENCE, None)
    llama.llama_backend_init()
    golden = json.loads((ROOT / "tests/data/golden_logits.json").read_text(encoding="utf-8"))
    cases = golden["smollm2"]["cases"]
    context = max(len(case["prompt_ids"]) + len(case["steps"]) for case in cases) + 1
    files = {
        SAME_FILE: ROOT / f".deps/models/{NAME}.gguf",
        "Q8_0": MODELS / f"{NAME}.Q8_0.gguf",
        "Q4_0": MODELS / f"{NAME}.Q4_0.gguf",
    }
    rows = [row("nonstop", "", measure_ours(cases))]
    for weights, path in files.items():
        result = measure(LlamaCpp(path, context), cases)
        rows.append(row("wllama", weights, result))
        if weights == SAME_FILE:
            rows.append(row("llama.cpp", weights, result))
    for weights, name in (("q8", "model_quantized.onnx"), ("fp32", "model.onnx")):
        result = measure(Onnx(MODELS / f"{NAME}-onnx/onnx" / name), cases)
        rows.append(row("transformers.js", weights, result))
    about = __doc__.split("\n\n", 2)[2].split("\n")
    content = {
        "about": [line for line in about if line],
        "made_by": "bench/peers/quality.py",
        "versions": {name: version(name) for name in ("llama-cpp-python", "onnxruntime", "numpy")},
        "rows": rows,
    }
    text = json.dumps(content, indent=2, ensure_ascii=False)
    Path(__file__).with_name("quality.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
