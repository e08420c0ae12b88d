// Decodes the engine's event records (abi.h) into values that can be posted to another thread.
import {
  kNsErrorEventSize,
  kNsFinishEventSize,
  kNsPrefillProgressEventSize,
  kNsTokenEventSize,
  kNsTopEntrySize,
  NsEventType,
  NsFinishReason,
  readNsErrorEvent,
  readNsFinishEvent,
  readNsPrefillProgressEvent,
  readNsTokenEvent,
  readNsTopEntry,
} from './abi.gen.js';
import { EngineError, errorCodeName, type ErrorRecord } from './error.js';
import type { LinearMemory } from './memory.js';

export type FinishReason = keyof typeof NsFinishReason;

export interface TopTokens {
  top_ids: number[];
  top_logprobs: number[];
  top_logits: number[];
}

export interface TokenRecord {
  kind: 'token';
  request_id: number;
  token_id: number;
  index: number;
  text: string;
  is_end: boolean;
  top: TopTokens;
}

export interface FinishRecord {
  kind: 'finish';
  request_id: number;
  reason: FinishReason;
  text: string;
  prompt_count: number;
  cached_count: number;
  generated_count: number;
  prefill_us: number;
  first_token_us: number;
  decode_us: number;
}

export interface PrefillRecord {
  kind: 'prefill';
  request_id: number;
  done_count: number;
  total_count: number;
}

export interface FailureRecord {
  kind: 'error';
  request_id: number;
  error: ErrorRecord;
}

export type EventRecord = TokenRecord | FinishRecord | PrefillRecord | FailureRecord;

const kReasons = new Map<number, FinishReason>([
  [NsFinishReason.stop, 'stop'],
  [NsFinishReason.length, 'length'],
  [NsFinishReason.abort, 'abort'],
  [NsFinishReason.error, 'error'],
]);

/** All records in the `size_bytes` bytes at `at`, in order. Unknown types are skipped. */
export function decodeEvents(memory: LinearMemory, at: number, size_bytes: number): EventRecord[] {
  const records: EventRecord[] = [];
  const end = at + size_bytes;
  while (at < end) {
    const type = memory.view.getUint32(at, true);
    const record_size_bytes = memory.view.getUint32(at + 4, true);
    if (record_size_bytes < 8 || at + record_size_bytes > end) {
      throw new EngineError('internal', `An event record has a wrong size (${record_size_bytes}).`);
    }
    const record = decodeEvent(memory, type, at);
    if (record) records.push(record);
    at += record_size_bytes;
  }
  return records;
}

function decodeEvent(memory: LinearMemory, type: number, at: number): EventRecord | undefined {
  switch (type) {
    case NsEventType.token:
      return decodeToken(memory, at);
    case NsEventType.finish:
      return decodeFinish(memory, at);
    case NsEventType.error: {
      const event = readNsErrorEvent(memory.view, at);
      const message = memory.text(at + kNsErrorEventSize, event.message_size_bytes);
      const error = { code: errorCodeName(event.code), message };
      return { kind: 'error', request_id: event.request_id, error };
    }
    case NsEventType.prefillProgress: {
      const { request_id, done_count, total_count } = readNsPrefillProgressEvent(memory.view, at);
      return { kind: 'prefill', request_id, done_count, total_count };
    }
    default:
      return undefined;
  }
}

function decodeToken(memory: LinearMemory, at: number): TokenRecord {
  const event = readNsTokenEvent(memory.view, at);
  const top: TopTokens = { top_ids: [], top_logprobs: [], top_logits: [] };
  let next = at + kNsTokenEventSize;
  for (let i = 0; i < event.top_count; i++, next += kNsTopEntrySize) {
    const entry = readNsTopEntry(memory.view, next);
    top.top_ids.push(entry.token_id);
    top.top_logprobs.push(entry.logprob);
    top.top_logits.push(entry.logit);
  }
  return {
    kind: 'token',
    request_id: event.request_id,
    token_id: event.token_id,
    index: event.index,
    text: memory.text(next, event.text_size_bytes),
    is_end: event.is_end !== 0,
    top,
  };
}

function decodeFinish(memory: LinearMemory, at: number): FinishRecord {
  const { type: _type, size_bytes: _size, ...event } = readNsFinishEvent(memory.view, at);
  const { text_size_bytes, reason, ...counts } = event;
  return {
    kind: 'finish',
    ...counts,
    reason: kReasons.get(reason) ?? 'error',
    text: memory.text(at + kNsFinishEventSize, text_size_bytes),
  };
}

/** The fixed part of each record, for tests that build some. */
export const kRecordSizes = {
  token: kNsTokenEventSize,
  finish: kNsFinishEventSize,
  error: kNsErrorEventSize,
  prefill: kNsPrefillProgressEventSize,
};
