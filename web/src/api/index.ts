// The public face of the package.
export { Engine } from './engine.js';
export type { EngineInfo, PiecesOptions, ScoreOptions, TokenizeOptions } from './engine.js';
export { Generation } from './generation.js';
export type { GenerateChunk, GenerateResult } from './generation.js';
export { kSamplingDefaults, randomSeed } from './options.js';
export type { GenerateOptions, LoadOptions, ModelInput, SamplingOptions } from './options.js';
export { EngineError, toEngineError } from '../wasm/error.js';
export type { ErrorCodeName } from '../wasm/error.js';
export type { AdapterReport, GpuFeature, GpuLimits } from '../gpu/adapter.js';
export type { GpuCounts } from '../gpu/counters.js';
export type { BackendName, DeviceWish, SimdBuild } from '../wasm/choose.js';
export type { ActivationType, EngineStats, KvType, PlanPart } from '../wasm/core.js';
export type { FinishReason, TopTokens } from '../wasm/events.js';
export type { ModelSource } from '../storage/source.js';
export type { ChatMessage, LoadProgress, ModelInfo } from '../worker/protocol.js';
