#!/usr/bin/env python3
"""Reference values for exact_math_test.cc: `python3 exact_math_reference.py > exact_math_reference.inc`.

1. True values by mpmath (60 digits), rounded to double.
2. The written order of operations of exact_math.{h,cc}, once more in Python floats (IEEE double):
   must be within 1 ulp of mpmath; a hash of the bits of 20,000 results of each is what C++ must give.
Needs mpmath.
"""
import math
import struct
import sys

import mpmath

mpmath.mp.dps = 60
LOG2E, LN2_HIGH, LN2_LOW = (float(1 / mpmath.log(2)), None, None)
_high = mpmath.mpf(int(mpmath.log(2) * 2**32)) / 2**32
LN2_HIGH, LN2_LOW = float(_high), float(mpmath.log(2) - _high)
SHIFT = 1.5 * 2.0**52


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def from_bits(b):
    return struct.unpack("<d", struct.pack("<Q", b))[0]


def exact_exp(x):
    if x < -708.0:
        return 0.0
    if x > 709.0:
        return math.inf
    k = (x * LOG2E + SHIFT) - SHIFT
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    total = float(mpmath.mpf(1) / math.factorial(13))
    for n in range(12, 1, -1):
        total = total * r + float(mpmath.mpf(1) / math.factorial(n))
    total = 1.0 + (r + (r * r) * total)
    return total * 2.0 ** int(k)


def exact_log(x):
    exponent = 0
    if x < sys.float_info.min:
        x *= 2.0**54
        exponent = -54
    mantissa, e = math.frexp(x)  # [0.5, 1)
    if mantissa < from_bits(0x3FE6A09E667F3BCD):
        mantissa, e = mantissa * 2, e - 1
    exponent += e
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    series = 0.0
    for term in range(12, 0, -1):
        series = (series + 2.0 / (2 * term + 1)) * z
    return exponent * LN2_HIGH - ((s * (f - series) - exponent * LN2_LOW) - f)


class Lcg:
    """Knuth's MMIX generator; the same in the test."""

    def __init__(self):
        self.state = 1

    def fraction(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 11) * 2.0**-53


def exp_input(u):
    return u * 1417.0 - 708.0


def log_input(u):
    return exact_exp(exp_input(u))


def fnv(h, word):
    for shift in range(0, 64, 8):
        h = ((h ^ ((word >> shift) & 255)) * 0x100000001B3) % 2**64
    return h


def ulp_distance(got, want):
    return abs(float((mpmath.mpf(got) - want) / mpmath.mpf(math.ulp(float(want)))))


def main():
    random = Lcg()
    hash_exp = hash_log = 0xCBF29CE484222325
    worst_exp = worst_log = 0.0
    for _ in range(20000):
        u = random.fraction()
        x, y = exp_input(u), log_input(u)
        hash_exp = fnv(hash_exp, bits(exact_exp(x)))
        hash_log = fnv(hash_log, bits(exact_log(y)))
        worst_exp = max(worst_exp, ulp_distance(exact_exp(x), mpmath.exp(x)))
        worst_log = max(worst_log, ulp_distance(exact_log(y), mpmath.log(y)))
    near = [0.5 + random.fraction() * 1.5 for _ in range(20000)]
    worst_log = max([worst_log] + [ulp_distance(exact_log(y), mpmath.log(y)) for y in near])
    small = [-random.fraction() * 40.0 for _ in range(20000)]
    worst_exp = max([worst_exp] + [ulp_distance(exact_exp(x), mpmath.exp(x)) for x in small])
    print(f"worst error in ulp: exp {worst_exp:.3f}, log {worst_log:.3f}", file=sys.stderr)
    assert worst_exp < 1.0 and worst_log < 1.0

    print("// Made by exact_math_reference.py (mpmath). Do not edit.")
    print(f"constexpr uint64_t kExpHash = {hash_exp:#x};\nconstexpr uint64_t kLogHash = {hash_log:#x};")
    edges = [0.0, 1.0, -1.0, 0.5, -0.5, 1e-20, -1e-20, math.log(2) / 2, -math.log(2) / 2, 709.0, -708.0]
    inputs = edges + [exp_input(random.fraction()) for _ in range(40)] + small[:60]
    print("// x, exp(x) correctly rounded")
    print("constexpr double kExpTable[][2] = {")
    for x in inputs:
        print(f"    {{{x.hex()}, {float(mpmath.exp(x)).hex()}}},")
    print("};\n// x, log(x) correctly rounded")
    print("constexpr double kLogTable[][2] = {")
    for x in [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.5, 2.0, 0.05, 10.0, 1.0 + 2**-52,
              1.0 - 2**-53, math.sqrt(0.5), math.sqrt(2)] + near[:60] + [log_input(random.fraction()) for _ in range(40)]:
        print(f"    {{{x.hex()}, {float(mpmath.log(x)).hex()}}},")
    print("};")


if __name__ == "__main__":
    main()
