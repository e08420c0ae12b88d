#!/usr/bin/python3
"""Writes engine/webgpu/kernels/*.wgsl for webgpu/kernel_source.cc, packed: embed_kernels.py FOLDER OUTPUT

Without comments, indentation and needless spaces: a module carries what the WGSL compiler needs, no more.
Kernels are much alike, so they are packed as one text, by references to what came before: a byte of
literals (15: more bytes follow, until one below 255) and of match length - 4 (likewise) in a byte's
halves, the literals, then two bytes of how far back the match begins. The last match is missing.
"""
import pathlib
import re
import sys

LEAST_MATCH = 4


def shorten(text):
    text = re.sub(r"[ \t]*//[^\n]*", "", text)
    text = re.sub(r"\n\s+", "\n", "\n" + text).lstrip("\n")
    # Not '-': two of them in a row would be another operator.
    return re.sub(r" *([=+*/<>,;:{}()&|!%^\[\]]+) *", r"\1", text)


def find_match(data, at, places):
    """The longest earlier occurrence of what begins at `at`: (length, distance)."""
    best = (0, 0)
    for place in reversed(places.get(data[at : at + LEAST_MATCH], [])):
        length = 0
        while at + length < len(data) and data[place + length] == data[at + length]:
            length += 1
        if length > best[0] and at - place < 65536:
            best = (length, at - place)
    return best


def extend(count):
    """What follows a half byte of 15."""
    return bytes([255] * (count // 255) + [count % 255])


def pack(data):
    out = bytearray()
    places = {}
    literals = bytearray()

    def emit(match_length, distance):
        more = match_length - LEAST_MATCH if match_length else 0
        out.append(min(len(literals), 15) << 4 | min(more, 15))
        if len(literals) >= 15:
            out.extend(extend(len(literals) - 15))
        out.extend(literals)
        literals.clear()
        if match_length:
            out.extend(distance.to_bytes(2, "little"))
            if more >= 15:
                out.extend(extend(more - 15))

    at = 0
    while at < len(data):
        length, distance = find_match(data, at, places)
        if length >= LEAST_MATCH:
            later, _ = find_match(data, at + 1, places)
            if later > length + 1:
                length = 0
        step = length if length >= LEAST_MATCH else 1
        if step == 1:
            literals.append(data[at])
        else:
            emit(length, distance)
        for i in range(at, at + step):
            places.setdefault(data[i : i + LEAST_MATCH], []).append(i)
        at += step
    emit(0, 0)
    return bytes(out)


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
