// Transformers.js in a page: loads ONNX files that bench/peers/gguf_to_onnx.py made and gives its figures.
// Decoding is timed from the first token that the page sees to the last, reading a prompt by the time to
// the first token. ONNX Runtime's wasm or WebGPU backend, files from our own server, nothing cached, greedy.
import type { Case, Sample } from '../common/cases.js';
import { servePage, type TransformersSetup } from '../common/page_globals.js';
import type { Runner } from '../common/runner.js';
import { median } from '../common/stats.js';
import { promptText } from '../common/text.js';
import { decodeRate } from './rates.js';

interface Tensor {
  dims: number[];
}

interface Inputs {
  input_ids: Tensor;
}

type Tokenizer = (text: string, options: { add_special_tokens: boolean }) => Inputs;

interface Model {
  generate(options: Inputs & GenerateOptions): Promise<unknown>;
  dispose(): Promise<unknown>;
}

interface GenerateOptions {
  max_new_tokens: number;
  min_new_tokens: number;
  do_sample: boolean;
  streamer: { put(): void; end(): void };
}

interface Module {
  AutoTokenizer: { from_pretrained(model: string): Promise<Tokenizer> };
  AutoModelForCausalLM: {
    from_pretrained(model: string, options: object): Promise<Model>;
  };
  env: {
    allowRemoteModels: boolean;
    allowLocalModels: boolean;
    localModelPath: string;
    useBrowserCache: boolean;
    useWasmCache: boolean;
    backends: {
      onnx: { wasm: { numThreads: number; wasmPaths: { mjs: string; wasm: string } } };
    };
  };
}

function isModule(value: unknown): value is Module {
  return typeof value === 'object' && value !== null && 'AutoModelForCausalLM' in value;
}

const served = (path: string) => new URL(path, location.href).href;

class TransformersRunner implements Runner {
  readonly #tokenizer: Tokenizer;
  readonly #model: Model;

  private constructor(tokenizer: Tokenizer, model: Model) {
    this.#tokenizer = tokenizer;
    this.#model = model;
  }

  static async start(setup: TransformersSetup): Promise<TransformersRunner> {
    const { model, dtype, device, threads } = setup;
    const module: unknown = await import(served('/transformers/transformers.min.js'));
    if (!isModule(module)) throw new TypeError('The file is not Transformers.js.');
    const { env } = module;
    env.allowRemoteModels = false;
    env.allowLocalModels = true;
    env.localModelPath = '/peer-models/';
    env.useBrowserCache = env.useWasmCache = false;
    const { wasm } = env.backends.onnx;
    wasm.numThreads = threads;
    wasm.wasmPaths = {
      mjs: served('/ort/ort-wasm-simd-threaded.asyncify.mjs'),
      wasm: served('/ort/ort-wasm-simd-threaded.asyncify.wasm'),
    };
    const tokenizer = await module.AutoTokenizer.from_pretrained(model);
    const options = { device: device === 'webgpu' ? device : 'wasm', dtype };
    const loaded = await module.AutoModelForCausalLM.from_pretrained(model, options);
    return new TransformersRunner(tokenizer, loaded);
  }

  async run(one: Case): Promise<Sample> {
    if (one.kind === 'decode') {
      const { times_ms } = await this.#reply(Math.max(one.context, 1), one.tokens + 1);
      return { 'tok/s': decodeRate(times_ms) };
    }
    if (one.kind === 'prefill') {
      return { 'tok/s': one.tokens / ((await this.#firstToken(one.tokens, one.repeats)) / 1000) };
    }
    if (one.kind === 'first-token' && !one.is_cold) {
      return { ms: await this.#firstToken(one.tokens, one.repeats) };
    }
    throw new TypeError(`Transformers.js is not measured in the case "${one.kind}".`);
  }

  /** Milliseconds, the median of `repeats`. */
  async #firstToken(prompt_count: number, repeats: number): Promise<number> {
    const times: number[] = [];
    for (let i = 0; i < repeats; i++) {
      const { begin_ms, times_ms } = await this.#reply(prompt_count, 1);
      times.push((times_ms[0] ?? NaN) - begin_ms);
    }
    return median(times);
  }

  async #reply(prompt_count: number, token_count: number) {
    const inputs = this.#tokenizer(promptText(prompt_count), { add_special_tokens: false });
    const read_count = inputs.input_ids.dims[1];
    if (read_count !== prompt_count) {
      throw new Error(`Transformers.js read (${read_count}) tokens, not (${prompt_count}).`);
    }
    const times_ms: number[] = [];
    let is_prompt = true;
    const begin_ms = performance.now();
    await this.#model.generate({
      ...inputs,
      max_new_tokens: token_count,
      min_new_tokens: token_count,
      do_sample: false,
      streamer: {
        put() {
          // The first call hands over the prompt.
          if (is_prompt) is_prompt = false;
          else times_ms.push(performance.now());
        },
        end() {},
      },
    });
    if (times_ms.length !== token_count) {
      throw new Error(`Transformers.js gave (${times_ms.length}) tokens, not (${token_count}).`);
    }
    return { begin_ms, times_ms };
  }

  async close(): Promise<void> {
    await this.#model.dispose();
  }
}

servePage(async (given) => {
  if (given.kind !== 'transformers.js') {
    throw new TypeError(`This page does not run "${given.kind}".`);
  }
  return TransformersRunner.start(given.setup);
});
