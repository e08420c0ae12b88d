#!/usr/bin/python3
"""Writes engine/webgpu/kernels/*.wgsl for webgpu/kernel_source.cc, packed: embed_kernels.py FOLDER OUTPUT

Without comments, indentation and needless spaces: a module carries what the WGSL compiler needs, no more.
Kernels are much alike, so they are packed as one text, by LZMA.
"""
import lzma
import pathlib
import re
import sys

# As webgpu/lzma.cc reads it: no position bits, no header, no end mark.
FILTER = {"id": lzma.FILTER_LZMA1, "preset": 9 | lzma.PRESET_EXTREME, "lc": 3, "lp": 0, "pb": 0}


def shorten(text):
    text = re.sub(r"[ \t]*//[^\n]*", "", text)
    text = re.sub(r"\n\s+", "\n", "\n" + text).lstrip("\n")
    # Not '-': two of them in a row would be another operator.
    text = re.sub(r" *([=+*/<>,;:{}()&|!%^\[\]]+) *", r"\1", text)
    # A line for each function is enough to find what a compiler complains of.
    return re.sub(r"([;{,(])\n", r"\1", text)


def pack(data):
    return lzma.compress(data, format=lzma.FORMAT_RAW, filters=[FILTER])


def main(folder, output):
    rows = []
    text = ""
    for path in sorted(pathlib.Path(folder).glob("*.wgsl")):
        kernel = shorten(path.read_text())
        rows.append(f'    {{"{path.stem}", {len(text)}, {len(kernel)}}},')
        text += kernel
    packed = ", ".join(str(byte) for byte in pack(text.encode("ascii")))
    pathlib.Path(output).write_text(
        "constexpr KernelFile kFiles[] = {\n" + "\n".join(rows) + "\n};\n"
        f"constexpr uint32_t kTextSize = {len(text)};\n"
        f"constexpr uint8_t kPackedText[] = {{{packed}}};\n"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
