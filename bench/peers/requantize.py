"""Makes a GGUF file of another type with llama.cpp's own quantization, allowing quantized sources.

  python requantize.py INPUT.gguf OUTPUT.gguf TYPE     TYPE: llama.cpp's number, 2 = Q4_0, 7 = Q8_0
"""

import ctypes
import sys

import llama_cpp


def main():
    source, target, number = sys.argv[1:]
    options = llama_cpp.llama_model_quantize_default_params()
    options.nthread = 2
    options.ftype = int(number)
    options.allow_requantize = True
    status = llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(options))
    if status != 0:
        raise SystemExit(f"llama.cpp did not quantize the file ({source}), status ({status}).")


if __name__ == "__main__":
    main()
