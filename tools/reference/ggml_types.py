"""Quantization and dequantization by llama.cpp's own code, called in its shared library.

Goal: block bytes and float values that are llama.cpp's, not a second implementation's.
"""

import ctypes
from pathlib import Path

import llama_cpp
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

COMPUTED_TYPES = [
    "F32",
    "F16",
    "BF16",
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "IQ4_NL",
]


class TypeTraits(ctypes.Structure):
    """struct ggml_type_traits of ggml.h."""

    _fields_ = [
        ("type_name", ctypes.c_char_p),
        ("block_size", ctypes.c_int64),
        ("block_size_interleave", ctypes.c_int64),
        ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
        ("from_float_ref", ctypes.c_void_p),
    ]


def load_library() -> ctypes.CDLL:
    folder = Path(llama_cpp.__file__).parent / "lib"
    library = ctypes.CDLL(str(folder / "libggml-base.so"))
    library.ggml_get_type_traits.restype = ctypes.POINTER(TypeTraits)
    library.ggml_get_type_traits.argtypes = [ctypes.c_int]
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
    ]
    return library


LIBRARY = load_library()


def block_size(type_name: str) -> tuple[int, int]:
    """Values and bytes of one block."""
    return GGML_QUANT_SIZES[GGMLQuantizationType[type_name]]


def quantize(values: np.ndarray, type_name: str) -> np.ndarray:
    """(rows, cols) float32 -> (rows, bytes) uint8."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    rows, cols = values.shape
    count, size = block_size(type_name)
    assert cols % count == 0, (cols, type_name)
    out = np.zeros((rows, cols // count * size), dtype=np.uint8)
    if type_name == "F32":
        return values.view(np.uint8).reshape(rows, cols * 4)
    written = LIBRARY.ggml_quantize_chunk(
        int(GGMLQuantizationType[type_name]),
        values.ctypes.data,
        out.ctypes.data,
        0,
        rows,
        cols,
        None,
    )
    assert written == out.nbytes, (written, out.nbytes)
    return out


def dequantize(blocks: np.ndarray, type_name: str) -> np.ndarray:
    """Flat uint8 bytes of whole blocks -> flat float32."""
    blocks = np.ascontiguousarray(blocks, dtype=np.uint8).reshape(-1)
    if type_name == "F32":
        return blocks.view(np.float32).copy()
    traits = LIBRARY.ggml_get_type_traits(int(GGMLQuantizationType[type_name])).contents
    count, size = block_size(type_name)
    assert (traits.block_size, traits.type_size) == (count, size), type_name
    out = np.zeros(blocks.nbytes // size * count, dtype=np.float32)
    traits.to_float(blocks.ctypes.data, out.ctypes.data, out.size)
    return out
