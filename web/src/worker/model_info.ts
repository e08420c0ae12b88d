// The few facts about a model that the TypeScript side uses, picked out of the engine's JSON.
import type { EngineCore } from '../wasm/core.js';
import type { ModelInfo } from './protocol.js';

export const kTemplateKey = 'tokenizer.chat_template';

/** A JSON object's field, or undefined; `unknown` in, `unknown` out. */
export function field(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  const found: unknown = Reflect.get(value, name);
  return found;
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : '');
const numberOf = (value: unknown) => (typeof value === 'number' ? value : 0);

export function readModelInfo(core: EngineCore, template: string | undefined): ModelInfo {
  const details: unknown = JSON.parse(core.modelJson());
  return {
    name: textOf(field(details, 'name')),
    architecture: textOf(field(details, 'architecture')),
    context_length: numberOf(field(details, 'context_length')),
    vocabulary_size: numberOf(field(details, 'vocabulary_size')),
    bos_token: textOf(field(details, 'bos_text')),
    eos_token: textOf(field(details, 'eos_text')),
    adds_bos: field(details, 'adds_bos') === true,
    has_chat_template: template !== undefined,
    details,
  };
}
