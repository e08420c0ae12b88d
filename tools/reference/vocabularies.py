"""Small synthetic vocabularies that llama.cpp's loader accepts: byte-level BPE and SentencePiece.

Merges are learned over raw text *without* any pre-tokenizer, so that many of them reach across a
boundary at which one should have split: a wrong split shows as a wrong id.
"""

import unicodedata
from collections import Counter
from functools import cache

from gguf import GGUFWriter, TokenType

from strings import PROSE, make_strings

# Whole words that no merge builds: only a tokenizer that looks up the whole pre-token first
# (llama.cpp's `ignore_merges`: llama-bpe, tekken) finds them.
WHOLE_WORDS = [
    "Hello",
    " world",
    " brown",
    " fox",
    "jumps",
    " lazy",
    "return",
    "123",
    "2026",
    "'ve",
    "\n\n\n",
    "///",
    " ===",
    "漢",
    "字",
    "я",
    " стекло",
]
CONTROL_TOKENS = [
    "<|begin_of_text|>",
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|unused_0|>",
]
USER_TOKENS = ["<tool>", "</tool>", "\t\t", "<tool><tool>"]


def byte_to_character() -> dict[int, str]:
    """GPT-2's printable stand-in for every byte (Radford et al. 2019, encoder.py)."""
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table = {b: chr(b) for b in printable}
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + len(table) - len(printable))
    return table


def learn_merges(
    sequences: list[list[str]], merge_count: int, max_length: int
) -> list[tuple[str, str]]:
    """Plain BPE training: the most frequent pair first, ties by the pair itself."""
    merges: list[tuple[str, str]] = []
    while len(merges) < merge_count:
        counts: Counter = Counter()
        for seq in sequences:
            counts.update(zip(seq, seq[1:]))
        candidates = [
            (-n, pair)
            for pair, n in counts.items()
            if n >= 2 and len(pair[0] + pair[1]) <= max_length
        ]
        if not candidates:
            break
        best = min(candidates)[1]
        merges.append(best)
        sequences = [apply_merge(seq, best) for seq in sequences]
    return merges


def apply_merge(seq: list[str], pair: tuple[str, str]) -> list[str]:
    out, i = [], 0
    while i < len(seq):
        if i + 1 < len(seq) and (seq[i], seq[i + 1]) == pair:
            out.append(seq[i] + seq[i + 1])
            i += 2
        else:
            out.append(seq[i])
            i += 1
    return out


def training_texts() -> list[str]:
    """Without the special tokens' own names, which must not become normal tokens as well, and without NUL."""
    return [
        s[:120]
        for s in make_strings()
        if s and "<tool" not in s and "<|" not in s and "\0" not in s
    ]


def boundary_pairs() -> list[str]:
    """Adjacent characters of two Unicode categories, and pairs of digits: where a split may belong. ASCII first."""
    pairs: Counter = Counter()
    for text in training_texts():
        for pair in map("".join, zip(text, text[1:])):
            first, second = map(unicodedata.category, pair)
            if first != second or first[0] == "N":
                pairs[pair] += 1
    return [
        pair
        for pair, _ in sorted(
            pairs.items(), key=lambda item: (not item[0].isascii(), -item[1], item[0])
        )
    ]


@cache
def bpe_merges() -> list[tuple[str, str]]:
    """First merges across boundaries, so that they win over those within a word; then plain ones."""
    table = byte_to_character()
    pairs = [[table[b] for b in pair.encode()] for pair in boundary_pairs()[:1100]]
    merges = learn_merges(pairs * 2, 1400, 8)
    plain = [[table[b] for b in s.encode()] for s in training_texts()]
    merges += [m for m in learn_merges(plain, 700, 20) if m not in merges]
    return merges


@cache
def sentencepiece_merges() -> list[tuple[str, str]]:
    return learn_merges([list(s.replace(" ", "\u2581")) for s in training_texts()], 1200, 14)


@cache
def prose_merges(space: str) -> list[tuple[str, str]]:
    """A few merges of plain English, for the tiny models."""
    return learn_merges([list(s.replace(" ", space)) for s in PROSE if s.isascii()], 24, 8)


def bpe_tokens(
    merge_count: int | None, whole_words: bool
) -> tuple[list[str], list[int], list[str]]:
    """Tokens, token types and merges of a byte-level vocabulary; the special tokens come last.

    merge_count: that many merges of plain English; None: all that were learned from the strings.
    """
    table = byte_to_character()
    merges = prose_merges(table[32])[:merge_count] if merge_count else bpe_merges()
    normal = [table[b] for b in range(256)] + [a + b for a, b in merges]
    if whole_words:
        normal += ["".join(table[b] for b in w.encode()) for w in WHOLE_WORDS]
    normal = list(dict.fromkeys(normal))
    tokens = normal + CONTROL_TOKENS + USER_TOKENS
    types = (
        [TokenType.NORMAL] * len(normal)
        + [TokenType.CONTROL] * len(CONTROL_TOKENS)
        + [TokenType.USER_DEFINED] * len(USER_TOKENS)
    )
    return tokens, [int(t) for t in types], [f"{a} {b}" for a, b in merges]


def sentencepiece_tokens(
    merge_count: int | None, extra_controls: list[str]
) -> tuple[list[str], list[int], list[float]]:
    """Tokens, types and scores: <unk> <s> </s>, 256 bytes, pieces by rank, characters, special tokens."""
    merges = prose_merges("\u2581")[:merge_count] if merge_count else sentencepiece_merges()
    special = {"<unk>", "<s>", "</s>", *extra_controls, *USER_TOKENS}
    pieces = [
        p
        for p in dict.fromkeys(a + b for a, b in merges)
        if p not in special and not p.startswith("<0x")
    ]
    used = Counter(c for s in training_texts() for c in s.replace(" ", "\u2581"))
    wanted = set("".join(pieces)) | (
        set() if merge_count else {c for c, n in used.items() if n >= 4}
    )
    characters = sorted((c for c in wanted if c not in pieces), key=lambda c: (-used[c], c))
    tokens = (
        ["<unk>", "<s>", "</s>"]
        + [f"<0x{b:02X}>" for b in range(256)]
        + pieces
        + characters
        + extra_controls
        + USER_TOKENS
    )
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL] + [TokenType.BYTE] * 256
    types += (
        [TokenType.NORMAL] * (len(pieces) + len(characters))
        + [TokenType.CONTROL] * len(extra_controls)
        + [TokenType.USER_DEFINED] * len(USER_TOKENS)
    )
    scores = (
        [0.0] * 259
        + [-float(i) for i in range(len(pieces) + len(characters))]
        + [0.0] * (len(extra_controls) + len(USER_TOKENS))
    )
    return tokens, [int(t) for t in types], scores


def add_bpe(
    writer: GGUFWriter,
    pre: str,
    merge_count: int | None,
    vocab_size: int | None = None,
    whole_words: bool = False,
) -> int:
    """Writes the vocabulary, padded with unused tokens up to vocab_size, and returns its size."""
    tokens, types, merges = bpe_tokens(merge_count, whole_words)
    pad(tokens, types, vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokens.index("<|begin_of_text|>"))
    writer.add_eos_token_id(tokens.index("<|endoftext|>"))
    return len(tokens)


def add_sentencepiece(
    writer: GGUFWriter,
    merge_count: int | None,
    vocab_size: int | None = None,
    extra_controls: tuple[str, ...] = (),
) -> int:
    tokens, types, scores = sentencepiece_tokens(merge_count, list(extra_controls))
    pad(tokens, types, vocab_size)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores + [0.0] * (len(tokens) - len(scores)))
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    return len(tokens)


def pad(tokens: list[str], types: list[int], vocab_size: int | None) -> None:
    if vocab_size is None:
        return
    assert len(tokens) <= vocab_size, (len(tokens), vocab_size)
    for i in range(vocab_size - len(tokens)):
        tokens.append(f"[PAD{i}]")
        types.append(int(TokenType.UNUSED))
