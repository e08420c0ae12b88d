"""Writes dequant.json: blocks of every quantized type and the floats llama.cpp makes of them.

Per type eight blocks of random bytes (with finite scales of any size) and two blocks of quantized
Gaussian values. Bytes as hex, floats with 9 significant digits, which is exact for float32.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize as gguf_dequantize

from ggml_types import COMPUTED_TYPES, block_size, dequantize, quantize

# Byte offsets of the half-precision scales within a block (ggml-common.h).
SCALE_OFFSETS = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "IQ4_NL": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}
RANDOM_BLOCKS, REAL_BLOCKS = 8, 2


def finite_halves(rng: np.random.Generator, count: int) -> np.ndarray:
    """Any finite half: subnormal, zero, negative and near the largest ones too."""
    bits = rng.integers(0, 65536, 4 * count + 64).astype(np.uint16)
    return bits[(bits & 0x7C00) != 0x7C00][:count]


def random_blocks(rng: np.random.Generator, type_name: str) -> np.ndarray:
    count, size = block_size(type_name)
    if type_name == "F16":
        return finite_halves(rng, 64).view(np.uint8).reshape(32, 2 * 2)
    if type_name == "BF16":
        bits = rng.integers(0, 65536, 512).astype(np.uint16)
        return bits[(bits & 0x7F80) != 0x7F80][:64].view(np.uint8).reshape(32, 2 * 2)
    blocks = rng.integers(0, 256, (RANDOM_BLOCKS, size)).astype(np.uint8)
    for offset in SCALE_OFFSETS[type_name]:
        blocks[:, offset : offset + 2] = (
            finite_halves(rng, RANDOM_BLOCKS).view(np.uint8).reshape(RANDOM_BLOCKS, 2)
        )
    return blocks


def make_entry(type_name: str) -> dict:
    rng = np.random.default_rng(COMPUTED_TYPES.index(type_name))
    count, size = block_size(type_name)
    real_cols = max(count, 16) * REAL_BLOCKS
    real = quantize(rng.standard_normal((1, real_cols)).astype(np.float32), type_name)
    data = np.concatenate([random_blocks(rng, type_name).reshape(-1), real.reshape(-1)])
    values = dequantize(data, type_name)
    check = gguf_dequantize(data.reshape(1, -1), GGMLQuantizationType[type_name]).reshape(-1)
    assert np.isfinite(values).all() and np.allclose(values, check, rtol=1e-6, atol=0), type_name
    print(
        f"{type_name}: {values.size} values, {int((values != check).sum())} differ from gguf-py in the last bit"
    )
    return {
        "type": type_name,
        "block_values": count,
        "block_bytes": size,
        "bytes": data.tobytes().hex(),
        "values": [float(f"{v:.9g}") for v in values],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    output = parser.parse_args().output
    entries = [make_entry(name) for name in COMPUTED_TYPES if name != "F32"]
    output.write_text(
        "[" + ",\n".join(json.dumps(e, separators=(",", ":")) for e in entries) + "]\n"
    )


if __name__ == "__main__":
    main()
