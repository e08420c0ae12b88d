#!/usr/bin/env python3
"""Reference values for sampler_test.cc: `python3 sampler_reference.py > sampler_reference.inc`.

The sampler chain in its plainest form (full sorts, dictionaries) over numpy's float32 and Python's
float64, with the order of additions that sampler.h defines: the C++ must give the same bits.
Formulas: llama.cpp, src/llama-sampler.cpp; Philox: Salmon et al. 2011. Needs numpy and mpmath.
"""
import math
import pathlib
import struct
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "base"))
from exact_math_reference import Lcg, bits, exact_exp, exact_log, fnv

F = np.float32


def make_logits(vocabulary, step):
    """Values in about [-12, 12]; a step > 0 rounds them, which makes ties."""
    random = Lcg()
    out = []
    for _ in range(vocabulary):
        u = 2.0 * random.fraction() - 1.0
        x = 12.0 * u * u * u
        if step:
            x = math.floor(x / step) * step
        out.append(F(x))
    return out


def make_history(vocabulary, length):
    random = Lcg()
    return [int(random.fraction() * random.fraction() * vocabulary) for _ in range(length)]


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uniform(seed, index):
    words = philox([index & 0xFFFFFFFF, index >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32])
    return (words[0] >> 8) * 2.0**-24


def distribution(logits, biases, history, o):
    x = list(logits)
    for i, b in biases:
        x[i] = F(x[i] + F(b))
    last = history if o["last_n"] < 0 else history[max(0, len(history) - o["last_n"]):]
    for i in set(last):
        n = F(last.count(i))
        r = F(o["repeat"])
        x[i] = F(x[i] * r) if x[i] <= 0 else F(x[i] / r)
        x[i] = F(x[i] - F(F(n * F(o["frequency"])) + F(o["presence"])))
    items = sorted(enumerate(x), key=lambda e: (-float(e[1]), e[0]))
    best = float(items[0][1])
    if o["temperature"] <= 0:
        return [(items[0][0], 1.0)]
    is_sorted = o["top_k"] > 0 or o["top_p"] < 1
    if o["top_k"] > 0:
        items = items[: o["top_k"]]
    if o["top_p"] < 1:
        if o["top_k"] > 0:
            total = 0.0
            for _, v in items:
                total += exact_exp(float(v) - best)
        else:
            lanes = [0.0] * 8
            for i, v in enumerate(x):
                lanes[i % 8] += exact_exp(float(v) - best)
            total = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
        reached = 0.0
        for n, (_, v) in enumerate(items):
            reached += exact_exp(float(v) - best)
            if reached >= float(F(o["top_p"])) * total:
                items = items[: n + 1]
                break
    if o["min_p"] > 0:
        smallest = F(F(best) + F(exact_log(float(F(o["min_p"])))))
        items = [e for e in items if e[1] >= smallest]
    items = [e for e in items if e[1] > -np.inf]
    if not is_sorted:
        items.sort()
    t = float(F(o["temperature"]))
    return [(i, exact_exp((float(v) - best) / t)) for i, v in items]


def draw(candidates, u):
    total = 0.0
    for _, w in candidates:
        total += w
    reached = 0.0
    for i, w in candidates:
        reached += w
        if reached > u * total:
            return i
    raise AssertionError


DEFAULT = dict(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, repeat=1.0, presence=0.0, frequency=0.0, last_n=64)
CASES = [
    (1000, 0.0, 0, [], {}),
    (1000, 0.5, 0, [], {}),
    (1000, 0.5, 0, [], dict(temperature=0.0)),
    (1000, 0.5, 0, [(3, 40.0)], dict(temperature=-1.0)),
    (1000, 0.25, 0, [], dict(temperature=1.5, top_k=200, min_p=0.0)),
    (4999, 0.0, 0, [], dict(temperature=1.0, top_k=0, top_p=0.9, min_p=0.0)),
    (4999, 0.0, 0, [], dict(temperature=1.0, top_k=0, top_p=0.9999, min_p=0.0)),
    (4999, 0.125, 0, [], dict(temperature=2.0, top_k=0, top_p=1.0, min_p=0.001)),
    (3001, 0.0, 0, [], dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)),
    (3001, 0.0, 0, [], dict(temperature=0.7, top_k=5000, top_p=1.0, min_p=0.0)),
    (1000, 0.0, 200, [], dict(repeat=1.3)),
    (1000, 0.0, 200, [], dict(repeat=1.1, presence=0.7, frequency=0.4, last_n=-1, top_k=100, temperature=1.2)),
    (1000, 0.0, 200, [(7, 3.0), (7, 1.5), (11, -math.inf)], dict(presence=-0.5, frequency=0.9, last_n=10)),
    (1000, 0.5, 200, [(5, 30.0), (6, 30.5)], dict(repeat=0.5, last_n=0, temperature=3.0)),
    (50, 0.0, 5, [], dict(temperature=0.01)),
    (50, 4.0, 5, [], dict(temperature=100.0, top_k=7, top_p=0.5, min_p=0.2)),
    (1, 0.0, 0, [], {}),
]
SEEDS = [(0, 0), (0, 1), (42, 0), (42, 77), (2**64 - 1, 2**40 + 5), (2**32, 3)]


def main():
    print("// Made by sampler_reference.py. Do not edit.")
    print("constexpr Case kCases[] = {")
    for vocabulary, step, history_length, biases, changes in CASES:
        o = DEFAULT | changes
        candidates = distribution(make_logits(vocabulary, step), biases, make_history(vocabulary, history_length), o)
        h = 0xCBF29CE484222325
        for i, w in candidates:
            h = fnv(fnv(h, i), bits(w))
        ids = ", ".join(str(draw(candidates, uniform(*s))) for s in SEEDS)
        pairs = list(biases) + [(-1, 0.0)] * (3 - len(biases))
        pairs = ", ".join(f"{{{i}, {'-kInfinity' if b == -math.inf else f'{b}f'}}}" for i, b in pairs)
        numbers = ", ".join(f"{o[k]}f" if isinstance(o[k], float) else str(o[k]) for k in DEFAULT)
        print(f"    {{{vocabulary}, {step}, {history_length}, {{{{{pairs}}}}}, {{{numbers}}},")
        print(f"     {len(candidates)}, {h:#x}, {{{ids}}}}},")
    print("};")


main()
