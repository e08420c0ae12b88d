"""Writes sampler.json: the candidates and probabilities that llama.cpp's samplers leave.

Two logits vectors (50 and 1,000 entries; float32 values with 9 digits). Each case names a chain of
llama_sampler_* steps in order; the result lists every candidate left, by falling probability and
then by id, with its logit and its softmax over those left.
"""

import argparse
import ctypes
import json
from pathlib import Path

import llama_cpp.llama_cpp as llama
import numpy as np

import llama_reference  # noqa: F401  (quiet log)

# Holds the likeliest ids of the small vector (43, 37, 33) and of the large one (471, 795).
HISTORY = [471, 3, 37, 7, 7, 7, 12, 0, 49, 43, 3, 795, 20, 37, 37, 43, 22, 7, 30, 33, 12, 37]
PENALTIES = {"name": "penalties", "last_n": 64, "repeat": 1.3, "frequency": 0.2, "presence": 0.4}

# common/common.h, common_params_sampling: order of `samplers` and defaults. Left out because their
# defaults switch them off: dry (multiplier 0), top-n-sigma (-1), typical (1.0), xtc (probability 0).
DEFAULT_CHAIN = [
    {"name": "penalties", "last_n": 64, "repeat": 1.0, "frequency": 0.0, "presence": 0.0},
    {"name": "top_k", "k": 40},
    {"name": "top_p", "p": 0.95, "min_keep": 0},
    {"name": "min_p", "p": 0.05, "min_keep": 0},
    {"name": "temperature", "t": 0.8},
]


def make_sampler(step: dict, vocab_size: int):
    name = step["name"]
    if name == "temperature":
        return llama.llama_sampler_init_temp(step["t"])
    if name == "top_k":
        return llama.llama_sampler_init_top_k(step["k"])
    if name == "top_p":
        return llama.llama_sampler_init_top_p(step["p"], step["min_keep"])
    if name == "min_p":
        return llama.llama_sampler_init_min_p(step["p"], step["min_keep"])
    if name == "penalties":
        return llama.llama_sampler_init_penalties(
            vocab_size, step["last_n"], step["repeat"], step["frequency"], step["presence"]
        )
    assert name == "logit_bias"
    biases = (llama.llama_logit_bias * len(step["biases"]))()
    for entry, (token, bias) in zip(biases, step["biases"]):
        entry.token, entry.bias = token, float(bias)
    return llama.llama_sampler_init_logit_bias(vocab_size, len(biases), biases)


def apply_chain(
    logits: np.ndarray, steps: list[dict], history: list[int]
) -> list[tuple[int, float]]:
    """(id, logit) of each candidate that the chain leaves with a finite logit."""
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    for step in steps:
        llama.llama_sampler_chain_add(chain, make_sampler(step, logits.size))
    for token in (t for t in history if t < logits.size):
        llama.llama_sampler_accept(chain, token)
    data = (llama.llama_token_data * logits.size)()
    for i, value in enumerate(logits):
        data[i].id, data[i].logit, data[i].p = i, float(value), 0.0
    candidates = llama.llama_token_data_array(
        data=data, size=logits.size, selected=-1, sorted=False
    )
    llama.llama_sampler_apply(chain, ctypes.byref(candidates))
    left = [(candidates.data[i].id, candidates.data[i].logit) for i in range(candidates.size)]
    llama.llama_sampler_free(chain)
    return [(token, logit) for token, logit in left if logit != -np.inf]


def make_case(
    name: str, vector: str, logits: np.ndarray, steps: list[dict], history: list[int]
) -> dict:
    left = sorted(apply_chain(logits, steps, history), key=lambda c: (-c[1], c[0]))
    values = np.array([logit for _, logit in left], dtype=np.float64)
    weights = np.exp(values - values.max())
    return {
        "name": name,
        "logits": vector,
        "history": [t for t in history if t < logits.size],
        "chain": steps,
        "ids": [token for token, _ in left],
        "left_logits": [float(f"{v:.9g}") for v in values],
        "probs": [float(f"{p:.9g}") for p in weights / weights.sum()],
    }


def chains() -> dict[str, list[dict]]:
    def top_p(p, keep=0):
        return {"name": "top_p", "p": p, "min_keep": keep}

    def min_p(p, keep=0):
        return {"name": "min_p", "p": p, "min_keep": keep}

    def temperature(t):
        return {"name": "temperature", "t": t}

    def top_k(k):
        return {"name": "top_k", "k": k}

    def penalties(**changes):
        return {
            "name": "penalties",
            "last_n": 64,
            "repeat": 1.0,
            "frequency": 0.0,
            "presence": 0.0,
        } | changes

    bias = {
        "name": "logit_bias",
        "biases": [[3, 3.5], [12, -2.25], [4, "-inf"], [43, -1.0], [3, 0.5]],
    }
    out = {f"temperature {t}": [temperature(t)] for t in (0.1, 0.7, 1.0, 1.5, 0.0, -1.0)}
    out |= {f"top_k {k}": [top_k(k)] for k in (1, 5, 40, 0, -1, 5000)}
    out |= {f"top_p {p}": [top_p(p)] for p in (0.0, 0.1, 0.5, 0.9, 0.95, 0.999, 1.0)} | {
        "top_p keeps 4": [top_p(0.1, 4)]
    }
    out |= {f"min_p {p}": [min_p(p)] for p in (0.0, 0.01, 0.05, 0.3, 1.0)} | {
        "min_p keeps 6": [min_p(0.9, 6)]
    }
    out |= {
        "repeat": [penalties(repeat=1.3)],
        "repeat below 1": [penalties(repeat=0.8)],
        "frequency": [penalties(frequency=0.5)],
        "presence": [penalties(presence=1.5)],
        "negative presence": [penalties(presence=-0.7)],
        "all penalties": [PENALTIES],
        "last 4": [PENALTIES | {"last_n": 4}],
        "last 1": [PENALTIES | {"last_n": 1}],
        "last 0": [PENALTIES | {"last_n": 0}],
    }
    out |= {"logit bias": [bias], "logit bias, then penalties": [bias, PENALTIES]}
    out |= {
        "top_k, top_p": [top_k(10), top_p(0.8)],
        "top_p, min_p": [top_p(0.9), min_p(0.1)],
        "min_p, temperature": [min_p(0.1), temperature(2.0)],
        "temperature, top_p": [temperature(0.5), top_p(0.9)],
    }
    out |= {
        "default chain": DEFAULT_CHAIN,
        "default chain with all": [
            bias,
            PENALTIES,
            top_k(20),
            top_p(0.9),
            min_p(0.02),
            temperature(0.6),
        ],
        "default chain, greedy": [*DEFAULT_CHAIN[:-1], temperature(0.0)],
    }
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    output = parser.parse_args().output
    rng = np.random.default_rng(50)
    vectors = {
        "small": 1.3 * rng.standard_normal(50) - 1.0,
        "large": 2.0 * rng.standard_normal(1000) + 4.0,
    }
    vectors = {
        name: np.array([float(f"{v:.9g}") for v in values.astype(np.float32)], dtype=np.float32)
        for name, values in vectors.items()
    }
    assert all(np.unique(v).size == v.size for v in vectors.values())
    cases = [
        make_case(name, vector, logits, steps, HISTORY)
        for name, steps in chains().items()
        for vector, logits in vectors.items()
        if vector == "small" or name.startswith(("top", "min", "default", "all", "logit bias,"))
    ]
    cases = [c for c in cases if len(c["ids"]) <= 300 or c["logits"] == "small"]
    lines = [json.dumps(c, separators=(",", ":")) for c in cases]
    head = json.dumps(
        {name: [float(f"{v:.9g}") for v in values] for name, values in vectors.items()},
        separators=(",", ":"),
    )
    output.write_text('{"logits":' + head + ',\n"cases":[' + ",\n".join(lines) + "]}\n")
    print(f"{len(cases)} cases, {output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
