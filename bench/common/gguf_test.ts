import path from 'node:path';
import { expect, test } from 'vitest';
import {
  attentionSizes,
  commonShapes,
  parseHeader,
  typeName,
  weightBytesPerToken,
} from './gguf.js';
import { readGgufHeader } from './models.js';

type Dimensions = [name: string, type_id: number, ...dimensions: number[]];

const u32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value: number) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const text = (value: string) => Buffer.concat([u64(value.length), Buffer.from(value)]);

/** A header of one text, one number, an array of texts and one of numbers, and some tensors. */
function header(tensors: Dimensions[]): Buffer {
  const keys = [
    [text('general.architecture'), u32(8), text('llama')],
    [text('tokenizer.ggml.tokens'), u32(9), u32(8), u64(2), text('a'), text('bc')],
    [text('tokenizer.ggml.scores'), u32(9), u32(6), u64(2), Buffer.alloc(8)],
    [text('llama.attention.head_count'), u32(4), u32(9)],
  ];
  const infos = tensors.map(([name, type_id, ...dimensions]) =>
    Buffer.concat([
      text(name),
      u32(dimensions.length),
      ...dimensions.map(u64),
      u32(type_id),
      u64(0),
    ]),
  );
  const head = [Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(keys.length)];
  return Buffer.concat([...head, ...keys.flat(), ...infos]);
}

const kF32 = 0;
const kQ4_1 = 3;
const kQ8_0 = 8;
const kBody: Dimensions[] = [
  ['token_embd.weight', kQ8_0, 64, 100],
  ['blk.0.attn_norm.weight', kF32, 64],
  ['blk.0.attn_q.weight', kQ4_1, 64, 64],
  ['blk.0.ffn_up.weight', kQ4_1, 64, 192],
  ['blk.0.ffn_gate.weight', kQ4_1, 64, 192],
];

test('a tied embedding is read whole by every token, vectors do not count', () => {
  const found = parseHeader(header(kBody));
  // 34 bytes for 32 weights of Q8_0, 20 of Q4_1.
  const body = ((64 * (64 + 192 + 192)) / 32) * 20;
  expect(weightBytesPerToken(found)).toBe(body + ((64 * 100) / 32) * 34);
  expect(found.metadata.get('general.architecture')).toBe('llama');
  expect(found.metadata.has('tokenizer.ggml.tokens')).toBe(false);
});

test('an embedding that is not the head is left out', () => {
  const found = parseHeader(header([...kBody, ['output.weight', kQ8_0, 64, 100]]));
  const body = ((64 * (64 + 192 + 192)) / 32) * 20;
  expect(weightBytesPerToken(found)).toBe(body + ((64 * 100) / 32) * 34);
});

test('the common shape of a type is the one with most bytes; the largest type comes first', () => {
  expect(commonShapes(parseHeader(header(kBody)))).toEqual([
    { type_id: kQ4_1, rows: 192, columns: 64 },
    { type_id: kQ8_0, rows: 100, columns: 64 },
  ]);
  expect([kQ4_1, 12, 99].map(typeName)).toEqual(['Q4_1', 'Q4_K', 'type 99']);
});

test('a header that is cut short, or none at all, is an error', () => {
  const bytes = header(kBody);
  expect(() => parseHeader(bytes.subarray(0, bytes.length - 1))).toThrow('cut short');
  expect(() => parseHeader(Buffer.from('GGML, more or less'))).toThrow('no GGUF');
});

test('the sizes of a file', () => {
  const file = path.resolve(import.meta.dirname, '../../tests/data/tiny/llama_tied.gguf');
  const found = readGgufHeader(file);
  const { query_heads, kv_heads, head_dim } = attentionSizes(found);
  const width = found.metadata.get('llama.embedding_length');
  expect(query_heads * head_dim).toBe(width);
  expect(query_heads % kv_heads).toBe(0);
  expect(found.tensors.every(({ size_bytes }) => size_bytes > 0)).toBe(true);
});
