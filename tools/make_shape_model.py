"""Makes a GGUF file of random weights in the shape of SmolLM2-360M, to measure speed at that size.

  python3 tools/make_shape_model.py SMOLLM2_135M.gguf OUTPUT.gguf

The types are those of the default model: Q4_1 matrices, a Q8_0 embedding that is also the head, F32
norms. The tokenizer's keys are copied from the given SmolLM2 file as they are (the two models share
it), so the result loads everywhere; what it says is noise. Needs the standard library only.
"""

import argparse
import itertools
import random
import struct
from pathlib import Path

# SmolLM2-360M's config.json.
WIDTH = 960
LAYER_COUNT = 32
HEAD_COUNT = 15
KV_HEAD_COUNT = 5
FFN_WIDTH = 2560
VOCABULARY = 49152
CONTEXT = 8192
ROPE_BASE = 100_000.0
NORM_EPSILON = 1e-5
HEAD_DIM = WIDTH // HEAD_COUNT

MAGIC = b"GGUF"
VERSION = 3
ALIGNMENT = 32
UINT32, FLOAT32, STRING, ARRAY = 4, 6, 8, 9
SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
F32, Q4_1, Q8_0 = 0, 3, 8
BLOCK_LENGTH = 32
BLOCK_BYTES = {Q4_1: 20, Q8_0: 34}
FILE_TYPE_MOSTLY_Q4_1 = 3
SEED = 360


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


def tokenizer_keys(path):
    """The raw bytes of each key that begins with "tokenizer.", key and value."""
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
        reader.skip_value(reader.take("I"))
        if key.startswith("tokenizer."):
            kept.append(data[begin : reader.at])
    return kept


def model_keys():
    def number(key, value):
        return string(f"llama.{key}") + struct.pack("<II", UINT32, value)

    def real(key, value):
        return string(f"llama.{key}") + struct.pack("<If", FLOAT32, value)

    def text(key, value):
        return string(f"general.{key}") + struct.pack("<I", STRING) + string(value)

    return [
        text("architecture", "llama"),
        text("name", "Random weights, shape of SmolLM2-360M"),
        string("general.file_type") + struct.pack("<II", UINT32, FILE_TYPE_MOSTLY_Q4_1),
        number("block_count", LAYER_COUNT),
        number("context_length", CONTEXT),
        number("embedding_length", WIDTH),
        number("feed_forward_length", FFN_WIDTH),
        number("attention.head_count", HEAD_COUNT),
        number("attention.head_count_kv", KV_HEAD_COUNT),
        number("rope.dimension_count", HEAD_DIM),
        number("vocab_size", VOCABULARY),
        real("rope.freq_base", ROPE_BASE),
        real("attention.layer_norm_rms_epsilon", NORM_EPSILON),
    ]


def tensors():
    """(name, type, columns, rows) in the order of a converted file; rows 1: a vector."""
    kv_width = KV_HEAD_COUNT * HEAD_DIM
    yield "token_embd.weight", Q8_0, WIDTH, VOCABULARY
    for layer in range(LAYER_COUNT):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm.weight", F32, WIDTH, 1
        yield f"{block}.ffn_down.weight", Q4_1, FFN_WIDTH, WIDTH
        yield f"{block}.ffn_gate.weight", Q4_1, WIDTH, FFN_WIDTH
        yield f"{block}.ffn_up.weight", Q4_1, WIDTH, FFN_WIDTH
        yield f"{block}.ffn_norm.weight", F32, WIDTH, 1
        yield f"{block}.attn_k.weight", Q4_1, WIDTH, kv_width
        yield f"{block}.attn_output.weight", Q4_1, WIDTH, WIDTH
        yield f"{block}.attn_q.weight", Q4_1, WIDTH, WIDTH
        yield f"{block}.attn_v.weight", Q4_1, WIDTH, kv_width
    yield "output_norm.weight", F32, WIDTH, 1


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


def weights(kind, columns, rows, source):
    """Codes are uniform; one scale a tensor makes a row's norm about 1."""
    if kind == F32:
        return struct.pack(f"<{columns}f", *itertools.repeat(1.0, columns))
    data = bytearray(source.randbytes(size_bytes(kind, columns, rows)))
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


def make(tokenizer, output):
    table = list(tensors())
    source = random.Random(SEED)
    part = output.with_name(f"{output.name}.part")
    with part.open("wb") as file:
        file.write(header(model_keys() + tokenizer_keys(tokenizer), table))
        for _, kind, columns, rows in table:
            file.write(weights(kind, columns, rows, source))
    part.rename(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", type=Path, help="SmolLM2-135M-Instruct as GGUF")
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    make(options.tokenizer, options.output)


if __name__ == "__main__":
    main()
