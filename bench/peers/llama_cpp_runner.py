"""Native llama.cpp for ./run bench: keeps a model loaded and answers a line of JSON with a line of JSON.

  python llama_cpp_runner.py MODEL.gguf THREADS CONTEXT
  {"prompt": TEXT, "prompt_tokens": N, "tokens": M}  ->  {"prefill_tok_s": X, "decode_tok_s": Y}

Low-level calls only, a greedy sampler, batches of llama.cpp's default size: as fast as its own programs.
Tokens after the first are counted from the first to the last, as for the other subjects.
"""

import json
import sys
import time

import llama_cpp.llama_cpp as llama

BATCH = 512

# Kept, since llama.cpp holds only a pointer to it.
SILENCE = llama.llama_log_callback(lambda level, text, data: None)


class Runner:
    def __init__(self, path, threads, context):
        llama.llama_log_set(SILENCE, None)
        llama.llama_backend_init()
        model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
        if not model:
            raise RuntimeError(f"llama.cpp does not load the model ({path}).")
        options = llama.llama_context_default_params()
        options.n_ctx = context
        options.n_batch = BATCH
        options.n_threads = options.n_threads_batch = threads
        self.vocab = llama.llama_model_get_vocab(model)
        self.context = llama.llama_init_from_model(model, options)
        self.sampler = llama.llama_sampler_init_greedy()

    def tokenize(self, text):
        data = text.encode()
        ids = (llama.llama_token * (len(data) + 8))()
        count = llama.llama_tokenize(self.vocab, data, len(data), ids, len(ids), False, False)
        return list(ids[:count])

    def decode(self, ids):
        array = (llama.llama_token * len(ids))(*ids)
        status = llama.llama_decode(self.context, llama.llama_batch_get_one(array, len(ids)))
        if status != 0:
            raise RuntimeError(f"llama_decode ended with status ({status}).")

    def sample(self):
        return llama.llama_sampler_sample(self.sampler, self.context, -1)

    def run(self, prompt, prompt_tokens, tokens):
        ids = self.tokenize(prompt)
        if len(ids) != prompt_tokens:
            raise RuntimeError(f"The prompt has ({len(ids)}) tokens, not ({prompt_tokens}).")
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)
        begin = time.perf_counter()
        for at in range(0, len(ids), BATCH):
            self.decode(ids[at : at + BATCH])
        token = self.sample()  # waits for the logits
        first = time.perf_counter()
        for _ in range(tokens):
            self.decode([token])
            token = self.sample()
        last = time.perf_counter()
        result = {"prefill_tok_s": len(ids) / (first - begin)}
        if tokens > 0:
            result["decode_tok_s"] = tokens / (last - first)
        return result


def answer(runner, line):
    try:
        return runner.run(**json.loads(line))
    except (RuntimeError, TypeError, ValueError) as error:
        return {"error": str(error)}


def main():
    path, threads, context = sys.argv[1:]
    runner = Runner(path, int(threads), int(context))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(runner, line)), flush=True)


if __name__ == "__main__":
    main()
