"""A thin layer over llama-cpp-python's low-level functions: load, exact logits, tokenize, pieces.

Exact logits: all matrices are dequantized to F32 beforehand, KV cache f32, flash attention off, so
that neither weights nor activations are rounded beyond float32 arithmetic.
"""

import ctypes
import sys
from pathlib import Path

import llama_cpp.llama_cpp as llama
import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from ggml_types import dequantize

llama.llama_backend_init()
ERROR_LEVEL = 4
REPORT = llama.llama_log_callback(
    lambda level, text, data: (
        print(text.decode(errors="replace"), end="", file=sys.stderr)
        if level == ERROR_LEVEL
        else None
    )
)
llama.llama_log_set(REPORT, None)


def write_f32_copy(source: Path, target: Path) -> None:
    """Copies every key; every tensor becomes F32 through llama.cpp's own to_float."""
    reader = GGUFReader(source)
    architecture = reader.get_field("general.architecture").contents()
    writer = GGUFWriter(target, architecture)
    for key, value in reader.fields.items():
        if key.startswith("GGUF.") or key.startswith("split.") or key == "general.architecture":
            continue
        kind = value.types[0]
        element = value.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(key, value.contents(), kind, sub_type=element)
    for tensor in reader.tensors:
        raw = np.ascontiguousarray(tensor.data).view(np.uint8)
        shape = [int(d) for d in reversed(tensor.shape)]
        writer.add_tensor(tensor.name, dequantize(raw, tensor.tensor_type.name).reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Model:
    """A loaded model; `vocab_only` skips the tensors."""

    def __init__(self, path: Path, vocab_only: bool = False):
        parameters = llama.llama_model_default_params()
        parameters.vocab_only = vocab_only
        parameters.use_extra_bufts = False
        self.handle = llama.llama_model_load_from_file(str(path).encode(), parameters)
        if not self.handle:
            raise RuntimeError(f"llama.cpp does not load the model ({path}).")
        self.vocab = llama.llama_model_get_vocab(self.handle)
        self.vocab_size = llama.llama_vocab_n_tokens(self.vocab)

    def close(self) -> None:
        llama.llama_model_free(self.handle)

    def tokenize(self, text: str, special: bool) -> list[int]:
        """special: adds BOS/EOS as the model asks and parses special tokens."""
        data = text.encode("utf-8")
        ids = (llama.llama_token * (len(data) + 8))()
        count = llama.llama_tokenize(self.vocab, data, len(data), ids, len(ids), special, special)
        assert count >= 0, (text, count)
        return list(ids[:count])

    def piece(self, token: int, special: bool) -> bytes:
        buffer = ctypes.create_string_buffer(512)
        size = llama.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, special)
        assert size >= 0, (token, size)
        return buffer.raw[:size]

    def token_facts(self) -> dict:
        return {
            "size": self.vocab_size,
            "bos": llama.llama_vocab_bos(self.vocab),
            "eos": llama.llama_vocab_eos(self.vocab),
            "add_bos": bool(llama.llama_vocab_get_add_bos(self.vocab)),
            "add_eos": bool(llama.llama_vocab_get_add_eos(self.vocab)),
            "end_of_generation": [
                i for i in range(self.vocab_size) if llama.llama_vocab_is_eog(self.vocab, i)
            ],
        }

    def logits(self, ids: list[int], context: int, chunk: int) -> np.ndarray:
        """(position, vocabulary) float32; the prompt is fed in chunks of that many tokens."""
        parameters = llama.llama_context_default_params()
        parameters.n_ctx = context
        parameters.n_batch = parameters.n_ubatch = context
        parameters.n_threads = parameters.n_threads_batch = 1
        parameters.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
        parameters.type_k = parameters.type_v = llama.GGML_TYPE_F32
        handle = llama.llama_init_from_model(self.handle, parameters)
        assert handle
        rows = [self._decode(handle, ids[i : i + chunk], i) for i in range(0, len(ids), chunk)]
        llama.llama_free(handle)
        return np.concatenate(rows)

    def _decode(self, handle, ids: list[int], first_position: int) -> np.ndarray:
        batch = llama.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = (
                token,
                first_position + i,
                1,
                True,
            )
            batch.seq_id[i][0] = 0
        status = llama.llama_decode(handle, batch)
        assert status == 0, status
        rows = [
            np.ctypeslib.as_array(
                llama.llama_get_logits_ith(handle, i), shape=(self.vocab_size,)
            ).copy()
            for i in range(len(ids))
        ]
        llama.llama_batch_free(batch)
        return np.stack(rows)
