// The engine worker's protocol as one type: every call's parameters, events and result. Requests,
// events and replies are derived from it, so the two sides cannot drift. Errors cross as records
// with their code. All values are structured-cloneable.
import type { NsStats } from '../wasm/abi.gen.js';
import type { AdapterReport, GpuWish } from '../gpu/adapter.js';
import type { GpuCounts } from '../gpu/counters.js';
import type { BackendName, DeviceWish, SimdBuild } from '../wasm/choose.js';
import type { ActivationType, KvType, PlanPart, SamplingValues } from '../wasm/core.js';
import type { ErrorRecord } from '../wasm/error.js';
import type { FinishReason, TopTokens } from '../wasm/events.js';
import type { ModelSource } from '../storage/source.js';

export interface OpenParams {
  source: ModelSource;
  /** Stops after the header: enough to tokenize, to dump a plan, to describe the model. */
  header_only: boolean;
  device: DeviceWish;
  gpu: GpuWish;
  reference: boolean;
  build: SimdBuild | undefined;
  thread_count: number | undefined;
  context_length: number;
  kv: KvType;
  activations: ActivationType;
  max_sequence_count: number;
  prefill_chunk: number;
  plan_name: string;
  /** Replaces the model's own chat template. */
  template: string | undefined;
}

export interface LoadProgress {
  loaded_bytes: number;
  /** -1 when unknown. */
  total_bytes: number;
}

export interface ModelInfo {
  name: string;
  architecture: string;
  context_length: number;
  vocabulary_size: number;
  bos_token: string;
  eos_token: string;
  adds_bos: boolean;
  has_chat_template: boolean;
  /** Everything that the engine says about the model. */
  details: unknown;
}

export interface OpenResult {
  model: ModelInfo;
  backend: BackendName;
  build: SimdBuild;
  reason: string;
  thread_count: number;
  isolated: boolean;
  /** Null where no adapter was looked for or found. The reason says whether it is used, and why. */
  adapter: (AdapterReport & { used: boolean }) | null;
  /** What the engine says about itself: kernels, counts. Null after a header-only load. */
  engine: unknown;
}

export interface ChatMessage {
  role: string;
  content: string;
}

export type PromptInput =
  | { kind: 'text'; text: string }
  | { kind: 'ids'; ids: readonly number[] }
  | { kind: 'chat'; messages: readonly ChatMessage[] };

export interface GenerateParams extends SamplingValues {
  prompt: PromptInput;
  /** Fed in place of sampled tokens: scoring. Empty: sample. */
  forced_ids: readonly number[];
  max_tokens: number;
  top_logprobs: number;
  ignore_eos: boolean;
  special_text: boolean;
  stop: readonly string[];
  logit_bias: readonly { token_id: number; bias: number }[];
}

export interface TokenEvent {
  kind: 'token';
  token_id: number;
  index: number;
  text: string;
  is_end: boolean;
  top: TopTokens | undefined;
}

export type GenerateEvent =
  | TokenEvent
  | { kind: 'started'; prompt_ids: number[] }
  | { kind: 'prefill'; done_count: number; total_count: number };

export interface GenerateReply {
  finish_reason: FinishReason;
  /** Text that was held back until the end (it might have become a stop string). */
  text: string;
  prompt_count: number;
  cached_count: number;
  generated_count: number;
  prefill_us: number;
  first_token_us: number;
  decode_us: number;
  stats: NsStats;
  /** WebGPU: what a token after the first took; null on the CPU and for one token. */
  gpu_per_token: GpuCounts | null;
}

interface Call<Params, Event, Result> {
  params: Params;
  event: Event;
  result: Result;
}

export interface Calls {
  open: Call<OpenParams, LoadProgress, OpenResult>;
  generate: Call<GenerateParams, GenerateEvent, GenerateReply>;
  tokenize: Call<
    { text: string; add_special: boolean; parse_special: boolean },
    never,
    { ids: number[] }
  >;
  /** One text for each id: one message, however many ids there are. */
  pieces: Call<{ ids: readonly number[] }, never, { pieces: string[] }>;
  detokenize: Call<{ ids: readonly number[]; with_special: boolean }, never, { text: string }>;
  render: Call<{ messages: readonly ChatMessage[] }, never, { text: string }>;
  plan: Call<{ plan_name: string; row_count: number; part: PlanPart }, never, { text: string }>;
  stats: Call<Record<string, never>, never, NsStats>;
  close: Call<Record<string, never>, never, null>;
}

export type Method = keyof Calls;

export type CallMessage = {
  [M in Method]: { id: number; method: M; params: Calls[M]['params'] };
}[Method];

/** "cancel" stops the call with this id; "end" the worker, which exits by itself. */
export type RequestMessage =
  CallMessage | { id: number; method: 'cancel' } | { id: 0; method: 'end' };

export type WorkerMessage =
  | { id: 0; hello: true }
  | {
      [M in Method]:
        | { id: number; method: M; event: Calls[M]['event'] }
        | { id: number; method: M; result: Calls[M]['result'] };
    }[Method]
  | { id: number; error: ErrorRecord };

// The compiler does not see that a method and its parameters belong together once the method is a
// type parameter; these small functions say it, each with its check at run time.

export function callMessage<M extends Method>(
  id: number,
  method: M,
  params: Calls[M]['params'],
): CallMessage {
  const message: unknown = { id, method, params };
  if (isCallMessage(message)) return message;
  throw new TypeError(`There is no method "${method}".`);
}

function isCallMessage(message: unknown): message is CallMessage {
  return has(message, 'id') && has(message, 'method') && has(message, 'params');
}

export function isEventOf<M extends Method>(
  message: unknown,
  method: M,
): message is { event: Calls[M]['event'] } {
  return has(message, 'event') && has(message, 'method') && message.method === method;
}

export function isResultOf<M extends Method>(
  message: unknown,
  method: M,
): message is { result: Calls[M]['result'] } {
  return has(message, 'result') && has(message, 'method') && message.method === method;
}

function has<K extends string>(value: unknown, key: K): value is Record<K, unknown> {
  return typeof value === 'object' && value !== null && key in value;
}
