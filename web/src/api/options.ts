// The options of the public API with their defaults, and what they become in the worker protocol.
// Sampling defaults are llama.cpp's.
import type { GpuFeature } from '../gpu/adapter.js';
import type { DeviceWish, SimdBuild } from '../wasm/choose.js';
import type { ActivationType, KvType, SamplingValues } from '../wasm/core.js';
import { EngineError } from '../wasm/error.js';
import type { ModelSource } from '../storage/source.js';
import type {
  ChatMessage,
  GenerateParams,
  LoadProgress,
  OpenParams,
  PromptInput,
} from '../worker/protocol.js';

/** A URL, a Blob or File, the files of a split model in order, or a source as plain data. */
export type ModelInput = string | URL | Blob | readonly Blob[] | ModelSource;

export interface LoadOptions {
  signal?: AbortSignal;
  onProgress?: (progress: LoadProgress) => void;
  /**
   * What computes. `auto` (default): the GPU where there is one that is not software and passes its
   * self-test, else the CPU. `webgpu`: the GPU, software adapters too, or the error `backend_failed`.
   */
  device?: DeviceWish;
  /** For comparisons: WebGPU with its default limits, and without some features. */
  gpu?: { defaultLimits?: boolean; without?: readonly GpuFeature[] };
  /** Default: all cores but one where memory can be shared, else 1. */
  threads?: number;
  /** Tokens of one conversation. Default: the model's own. */
  contextLength?: number;
  /** Replies decoded together, 1 to 8; more of them wait. Default 1. */
  maxSequences?: number;
  kv?: KvType;
  activations?: ActivationType;
  /** Rows of one prefill step. Default: the engine's choice. */
  prefillChunk?: number;
  plan?: string;
  build?: SimdBuild;
  /** The scalar reference kernels: slow, for comparisons. */
  reference?: boolean;
  /** A Jinja chat template in place of the model's own. */
  chatTemplate?: string;
  /** Reads only the model's header: enough for tokenize(), plan() and info. */
  headerOnly?: boolean;
  /** Where worker.mjs lies; the engine modules lie beside it. */
  workerUrl?: string | URL;
}

export interface SamplingOptions extends Partial<SamplingValues> {
  max_tokens?: number;
  stop?: string | readonly string[];
  logit_bias?: Readonly<Record<number, number>>;
  ignore_eos?: boolean;
  /** The best K of the raw logits with every token. */
  top_logprobs?: number;
  signal?: AbortSignal;
  /** Called while the prompt is read. */
  onPrefill?: (done_count: number, total_count: number) => void;
}

/** Exactly one of prompt (continued as text), messages (a chat) and ids (fed as they are). */
export interface GenerateOptions extends SamplingOptions {
  prompt?: string;
  messages?: readonly ChatMessage[];
  ids?: readonly number[];
}

export const kSamplingDefaults: Omit<SamplingValues, 'seed'> = {
  temperature: 0.8,
  top_k: 40,
  top_p: 0.95,
  min_p: 0.05,
  repeat_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  penalty_last_n: 64,
};

/** Seeds are whole numbers that a double holds exactly. */
export function randomSeed(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0] ?? 0;
}

export function toModelSource(model: ModelInput): ModelSource {
  if (typeof model === 'string' || model instanceof URL) {
    const base = typeof document === 'object' ? document.baseURI : undefined;
    if (!URL.canParse(model, base)) {
      throw new EngineError('invalid_argument', `The model "${String(model)}" is no URL.`);
    }
    return { kind: 'url', url: new URL(model, base).href };
  }
  if (model instanceof Blob) return { kind: 'blobs', blobs: [model] };
  if (!('kind' in model)) return { kind: 'blobs', blobs: model };
  return model;
}

export function toOpenParams(model: ModelInput, options: LoadOptions): OpenParams {
  return {
    source: toModelSource(model),
    header_only: options.headerOnly ?? false,
    device: options.device ?? 'auto',
    gpu: {
      default_limits: options.gpu?.defaultLimits ?? false,
      without: options.gpu?.without ?? [],
    },
    reference: options.reference ?? false,
    build: options.build,
    thread_count: options.threads,
    context_length: options.contextLength ?? 0,
    kv: options.kv ?? 'f16',
    activations: options.activations ?? 'q8',
    max_sequence_count: options.maxSequences ?? 1,
    prefill_chunk: options.prefillChunk ?? 0,
    plan_name: options.plan ?? '',
    template: options.chatTemplate,
  };
}

function toPrompt({ prompt, messages, ids }: GenerateOptions): PromptInput {
  const given: PromptInput[] = [];
  if (prompt !== undefined) given.push({ kind: 'text', text: prompt });
  if (messages !== undefined) given.push({ kind: 'chat', messages });
  if (ids !== undefined) given.push({ kind: 'ids', ids });
  const [only] = given;
  if (!only || given.length !== 1) {
    throw new EngineError(
      'invalid_argument',
      `A request has exactly one of prompt, messages and ids, not (${given.length}) of them.`,
    );
  }
  return only;
}

export function toGenerateParams(options: GenerateOptions): GenerateParams {
  const stop = options.stop ?? [];
  const seed = options.seed ?? randomSeed();
  if (!Number.isSafeInteger(seed) || seed < 0) {
    throw new EngineError(
      'invalid_argument',
      `The seed (${seed}) is no whole number from 0 to 2^53.`,
    );
  }
  const biases = Object.entries(options.logit_bias ?? {});
  return {
    ...kSamplingDefaults,
    ...definedOnly(options),
    seed,
    prompt: toPrompt(options),
    forced_ids: [],
    max_tokens: options.max_tokens ?? 0,
    top_logprobs: options.top_logprobs ?? 0,
    ignore_eos: options.ignore_eos ?? false,
    special_text: false,
    stop: typeof stop === 'string' ? [stop] : stop,
    logit_bias: biases.map(([id, bias]) => ({ token_id: Number(id), bias })),
  };
}

function definedOnly(options: Partial<SamplingValues>): Partial<SamplingValues> {
  const result: Partial<SamplingValues> = {};
  const names = [
    ...(['temperature', 'top_k', 'top_p', 'min_p', 'repeat_penalty'] as const),
    ...(['presence_penalty', 'frequency_penalty', 'penalty_last_n'] as const),
  ];
  for (const name of names) {
    const value = options[name];
    if (value !== undefined) result[name] = value;
  }
  return result;
}
