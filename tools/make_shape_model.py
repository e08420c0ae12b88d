"""Makes a GGUF file of random weights in the shape of a real model, to measure speed at that size.

  python3 tools/make_shape_model.py SHAPE SMOLLM2_135M.gguf OUTPUT.gguf

The types are those of the default model: Q4_1 matrices, a Q8_0 embedding that is also the head, F32
norms and biases. The tokenizer's keys are copied from the given SmolLM2 file; where the shape has more
rows than that has tokens, unused ones are added. So the result loads everywhere; what it says is noise.
Needs the standard library only.
"""

import argparse
import itertools
import math
import random
import struct
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Llama3Rope:
    """rope_scaling of config.json, of the type llama3."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True)
class Shape:
    """By the names of config.json, shortened."""

    title: str
    architecture: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    ffn_width: int
    vocabulary: int
    context: int
    rope_base: float
    norm_epsilon: float
    qkv_bias: bool = False
    rope_scaling: Llama3Rope | None = None

    @property
    def head_dim(self):
        return self.width // self.heads


SHAPES = {
    "smollm2-360m": Shape(
        title="SmolLM2-360M",
        architecture="llama",
        width=960,
        layers=32,
        heads=15,
        kv_heads=5,
        ffn_width=2560,
        vocabulary=49152,
        context=8192,
        rope_base=100_000.0,
        norm_epsilon=1e-5,
    ),
    "qwen2.5-0.5b": Shape(
        title="Qwen2.5-0.5B",
        architecture="qwen2",
        width=896,
        layers=24,
        heads=14,
        kv_heads=2,
        ffn_width=4864,
        vocabulary=151936,
        context=32768,
        rope_base=1_000_000.0,
        norm_epsilon=1e-6,
        qkv_bias=True,
    ),
    "llama-3.2-1b": Shape(
        title="Llama-3.2-1B",
        architecture="llama",
        width=2048,
        layers=16,
        heads=32,
        kv_heads=8,
        ffn_width=8192,
        vocabulary=128256,
        context=131072,
        rope_base=500_000.0,
        norm_epsilon=1e-5,
        rope_scaling=Llama3Rope(32.0, 1.0, 4.0, 8192),
    ),
}

MAGIC = b"GGUF"
VERSION = 3
ALIGNMENT = 32
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
F32, Q4_1, Q8_0 = 0, 3, 8
BLOCK_LENGTH = 32
BLOCK_BYTES = {Q4_1: 20, Q8_0: 34}
FILE_TYPE_MOSTLY_Q4_1 = 3
SEED = 360
RANDOM_PART_BYTES = 64 << 20
UNUSED_TOKEN = 5


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, layout):
        values = struct.unpack_from(f"<{layout}", self.data, self.at)
        self.at += struct.calcsize(f"<{layout}")
        return values[0]

    def skip_string(self):
        self.at += 8 + struct.unpack_from("<Q", self.data, self.at)[0]

    def skip_value(self, kind):
        if kind == STRING:
            self.skip_string()
        elif kind == ARRAY:
            element, count = self.take("I"), self.take("Q")
            if element == STRING:
                for _ in range(count):
                    self.skip_string()
            else:
                self.at += count * SCALAR_BYTES[element]
        else:
            self.at += SCALAR_BYTES[kind]


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def tokenizer_keys(path, vocabulary):
    """The raw bytes of each key that begins with "tokenizer.", key and value, for so many tokens."""
    data = path.read_bytes()
    reader = Reader(data)
    if data[:4] != MAGIC:
        raise SystemExit(f"The file ({path}) is no GGUF file.")
    reader.at = 8
    reader.take("Q")
    kept = []
    for _ in range(reader.take("Q")):
        begin = reader.at
        size = reader.take("Q")
        key = data[reader.at : reader.at + size].decode()
        reader.at += size
        value = reader.at
        reader.skip_value(reader.take("I"))
        if key.startswith("tokenizer."):
            padded = PADDED.get(key, as_it_is)(data[value : reader.at], vocabulary)
            kept.append(data[begin:value] + padded)
    return kept


def as_it_is(value, _vocabulary):
    return value


def pad_array(value, element, vocabulary, make):
    """An array of a value's bytes with elements that `make` gives for the missing indices."""
    kind, found, count = struct.unpack_from("<IIQ", value)
    assert (kind, found) == (ARRAY, element) and count <= vocabulary
    head = struct.pack("<IIQ", kind, found, vocabulary)
    return head + value[len(head) :] + b"".join(make(index) for index in range(count, vocabulary))


def pad_tokens(value, vocabulary):
    return pad_array(value, STRING, vocabulary, lambda index: string(f"[PAD{index}]"))


def pad_types(value, vocabulary):
    return pad_array(value, INT32, vocabulary, lambda _: struct.pack("<i", UNUSED_TOKEN))


PADDED = {"tokenizer.ggml.tokens": pad_tokens, "tokenizer.ggml.token_type": pad_types}


def model_keys(shape):
    def number(key, value):
        return string(f"{shape.architecture}.{key}") + struct.pack("<II", UINT32, value)

    def real(key, value):
        return string(f"{shape.architecture}.{key}") + struct.pack("<If", FLOAT32, value)

    def text(key, value):
        return string(f"general.{key}") + struct.pack("<I", STRING) + string(value)

    return [
        text("architecture", shape.architecture),
        text("name", f"Random weights, shape of {shape.title}"),
        string("general.file_type") + struct.pack("<II", UINT32, FILE_TYPE_MOSTLY_Q4_1),
        number("block_count", shape.layers),
        number("context_length", shape.context),
        number("embedding_length", shape.width),
        number("feed_forward_length", shape.ffn_width),
        number("attention.head_count", shape.heads),
        number("attention.head_count_kv", shape.kv_heads),
        number("rope.dimension_count", shape.head_dim),
        number("vocab_size", shape.vocabulary),
        real("rope.freq_base", shape.rope_base),
        real("attention.layer_norm_rms_epsilon", shape.norm_epsilon),
    ]


def tensors(shape):
    """(name, type, columns, rows) in the order of a converted file; rows 1: a vector."""
    width, ffn_width, kv_width = shape.width, shape.ffn_width, shape.kv_heads * shape.head_dim
    yield "token_embd.weight", Q8_0, width, shape.vocabulary
    if shape.rope_scaling:
        yield ROPE_FACTORS, F32, shape.head_dim // 2, 1
    for layer in range(shape.layers):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm.weight", F32, width, 1
        yield f"{block}.ffn_down.weight", Q4_1, ffn_width, width
        yield f"{block}.ffn_gate.weight", Q4_1, width, ffn_width
        yield f"{block}.ffn_up.weight", Q4_1, width, ffn_width
        yield f"{block}.ffn_norm.weight", F32, width, 1
        for part, rows in (("k", kv_width), ("output", width), ("q", width), ("v", kv_width)):
            if shape.qkv_bias and part != "output":
                yield f"{block}.attn_{part}.bias", F32, rows, 1
            yield f"{block}.attn_{part}.weight", Q4_1, width, rows
    yield "output_norm.weight", F32, width, 1


ROPE_FACTORS = "rope_freqs.weight"


def rope_factors(shape):
    """What each frequency is divided by; the formula is Llama 3.1's own (apply_scaling)."""
    scaling = shape.rope_scaling
    for pair in range(shape.head_dim // 2):
        turns = scaling.original_context / (
            2 * math.pi * shape.rope_base ** (2 * pair / shape.head_dim)
        )
        low, high = scaling.low_freq_factor, scaling.high_freq_factor
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        yield 1 / ((1 - smooth) / scaling.factor + smooth)


def size_bytes(kind, columns, rows):
    if kind == F32:
        return columns * rows * 4
    return columns * rows // BLOCK_LENGTH * BLOCK_BYTES[kind]


def half(value):
    return struct.pack("<e", value)


def set_every(data, offset, stride, value):
    """Writes the bytes `value` at offset, offset + stride, …"""
    for i, byte in enumerate(value):
        data[offset + i :: stride] = bytes([byte]) * len(range(offset + i, len(data), stride))


def vector(shape, name, columns):
    """Norms are 1, biases 0."""
    if name == ROPE_FACTORS:
        values = rope_factors(shape)
    else:
        values = itertools.repeat(0.0 if name.endswith(".bias") else 1.0, columns)
    return struct.pack(f"<{columns}f", *values)


def random_bytes(source, count):
    """In parts: randbytes() gives less than 256 MiB."""
    starts = range(0, count, RANDOM_PART_BYTES)
    parts = (source.randbytes(min(RANDOM_PART_BYTES, count - start)) for start in starts)
    return bytearray().join(parts)


def matrix(kind, columns, rows, source):
    """Codes are uniform; one scale a tensor makes a row's norm about 1."""
    data = random_bytes(source, size_bytes(kind, columns, rows))
    deviation = columns**-0.5
    if kind == Q4_1:  # codes 0 to 15 around 7.5, deviation 4.6
        scale = deviation / 4.6
        set_every(data, 0, BLOCK_BYTES[kind], half(scale))
        set_every(data, 2, BLOCK_BYTES[kind], half(-7.5 * scale))
    else:  # codes -128 to 127, deviation 74
        set_every(data, 0, BLOCK_BYTES[kind], half(deviation / 74))
    return data


def header(keys, table):
    pieces = [MAGIC, struct.pack("<IQQ", VERSION, len(table), len(keys)), *keys]
    offset = 0
    for name, kind, columns, rows in table:
        dimensions = [columns] if rows == 1 else [columns, rows]
        pieces.append(string(name) + struct.pack("<I", len(dimensions)))
        pieces.append(struct.pack(f"<{len(dimensions)}Q", *dimensions))
        pieces.append(struct.pack("<IQ", kind, offset))
        offset += size_bytes(kind, columns, rows)
        assert offset % ALIGNMENT == 0, name
    data = b"".join(pieces)
    return data + bytes(-len(data) % ALIGNMENT)


def make(shape, tokenizer, output):
    table = list(tensors(shape))
    keys = model_keys(shape) + tokenizer_keys(tokenizer, shape.vocabulary)
    source = random.Random(SEED)
    part = output.with_name(f"{output.name}.part")
    with part.open("wb") as file:
        file.write(header(keys, table))
        for name, kind, columns, rows in table:
            if kind == F32:
                file.write(vector(shape, name, columns))
            else:
                file.write(matrix(kind, columns, rows, source))
    part.rename(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("tokenizer", type=Path, help="SmolLM2-135M-Instruct as GGUF")
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    make(SHAPES[options.shape], options.tokenizer, options.output)


if __name__ == "__main__":
    main()
