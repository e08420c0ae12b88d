// What the benchmark must know of a GGUF file: the bytes of weights that one token reads, the shapes
// that carry most of them, and the sizes of attention. Only the header of a single file is read, in Node
// and in a page; the engine has the real reader, with all its checks.
import { EngineError } from '../../web/src/api/index.js';

export interface Tensor {
  name: string;
  type_id: number;
  /** columns, rows, … */
  dimensions: number[];
  size_bytes: number;
}

export interface GgufHeader {
  metadata: Map<string, string | number>;
  tensors: Tensor[];
}

/** name, weights in a block, bytes of a block; the numbers are the file format's. */
const kTypes: Readonly<Record<number, readonly [string, number, number]>> = {
  0: ['F32', 1, 4],
  1: ['F16', 1, 2],
  2: ['Q4_0', 32, 18],
  3: ['Q4_1', 32, 20],
  6: ['Q5_0', 32, 22],
  7: ['Q5_1', 32, 24],
  8: ['Q8_0', 32, 34],
  10: ['Q2_K', 256, 84],
  11: ['Q3_K', 256, 110],
  12: ['Q4_K', 256, 144],
  13: ['Q5_K', 256, 176],
  14: ['Q6_K', 256, 210],
  20: ['IQ4_NL', 32, 18],
  30: ['BF16', 1, 2],
};

export function typeName(type_id: number): string {
  return kTypes[type_id]?.[0] ?? `type ${type_id}`;
}

const kStringType = 8;
const kArrayType = 9;
/** By the value type's number: bytes, and how a number of it is read. */
const kNumbers: Readonly<Record<number, readonly [number, (at: DataView) => number]>> = {
  0: [1, (at) => at.getUint8(0)],
  1: [1, (at) => at.getInt8(0)],
  2: [2, (at) => at.getUint16(0, true)],
  3: [2, (at) => at.getInt16(0, true)],
  4: [4, (at) => at.getUint32(0, true)],
  5: [4, (at) => at.getInt32(0, true)],
  6: [4, (at) => at.getFloat32(0, true)],
  7: [1, (at) => at.getUint8(0)],
  10: [8, (at) => Number(at.getBigUint64(0, true))],
  11: [8, (at) => Number(at.getBigInt64(0, true))],
  12: [8, (at) => at.getFloat64(0, true)],
};

const kUtf8 = new TextDecoder();

class Reader {
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  take(size_bytes: number): DataView {
    const begin = this.#view.byteOffset + this.#at;
    if (this.#at + size_bytes > this.#view.byteLength) {
      throw new EngineError('truncated', 'The header is cut short.');
    }
    this.#at += size_bytes;
    return new DataView(this.#view.buffer, begin, size_bytes);
  }

  u32(): number {
    return this.take(4).getUint32(0, true);
  }

  u64(): number {
    return Number(this.take(8).getBigUint64(0, true));
  }

  text(): string {
    return kUtf8.decode(this.take(this.u64()));
  }

  /** A number or a text; arrays are passed over. */
  value(type: number): number | string | undefined {
    if (type === kStringType) return this.text();
    if (type !== kArrayType) {
      const [size_bytes, read] = numberType(type);
      return read(this.take(size_bytes));
    }
    const element = this.u32();
    const count = this.u64();
    if (element === kStringType) for (let i = 0; i < count; i++) this.take(this.u64());
    else this.take(count * numberType(element)[0]);
    return undefined;
  }
}

function numberType(type: number): readonly [number, (at: DataView) => number] {
  const found = kNumbers[type];
  if (!found) throw new EngineError('malformed', `The header has a value of type (${type}).`);
  return found;
}

/** Tokenizers make headers of some MB. */
export const kMostHeaderBytes = 64 * 2 ** 20;
const kMagic = 0x46554747; // "GGUF"

export function parseHeader(bytes: Uint8Array): GgufHeader {
  const reader = new Reader(bytes);
  if (reader.u32() !== kMagic) {
    throw new EngineError('not_gguf', 'The file is no GGUF file.');
  }
  reader.u32(); // version
  const tensor_count = reader.u64();
  const key_count = reader.u64();
  const metadata = new Map<string, string | number>();
  for (let i = 0; i < key_count; i++) {
    const key = reader.text();
    const value = reader.value(reader.u32());
    if (value !== undefined) metadata.set(key, value);
  }
  const tensors = Array.from({ length: tensor_count }, () => readTensor(reader));
  return { metadata, tensors };
}

function readTensor(reader: Reader): Tensor {
  const name = reader.text();
  const rank = reader.u32();
  const dimensions = Array.from({ length: rank }, () => reader.u64());
  const type_id = reader.u32();
  reader.u64(); // offset
  const [, block_length, block_bytes] = kTypes[type_id] ?? ['', 1, 0];
  const count = dimensions.reduce((product, size) => product * size, 1);
  return { name, type_id, dimensions, size_bytes: (count / block_length) * block_bytes };
}

const kEmbedding = 'token_embd.weight';

/**
 * Bytes of the matrices that a token reads whole: all of them, the output head once. An embedding that
 * is not also the head gives one row only, and is left out.
 */
export function weightBytesPerToken({ tensors }: GgufHeader): number {
  const is_tied = !tensors.some(({ name }) => name === 'output.weight');
  return matrices(tensors)
    .filter(({ name }) => is_tied || name !== kEmbedding)
    .reduce((sum, { size_bytes }) => sum + size_bytes, 0);
}

function matrices(tensors: readonly Tensor[]): Tensor[] {
  return tensors.filter(({ dimensions }) => dimensions.length === 2);
}

export interface MatrixShape {
  type_id: number;
  rows: number;
  columns: number;
}

/** For each type the shape that holds most of its bytes; the type with most bytes comes first. */
export function commonShapes({ tensors }: GgufHeader): MatrixShape[] {
  const by_shape = new Map<string, MatrixShape & { size_bytes: number }>();
  const by_type = new Map<number, number>();
  for (const { type_id, dimensions, size_bytes } of matrices(tensors)) {
    const [columns = 0, rows = 0] = dimensions;
    const key = `${type_id} ${rows} ${columns}`;
    const found = by_shape.get(key) ?? { type_id, rows, columns, size_bytes: 0 };
    found.size_bytes += size_bytes;
    by_shape.set(key, found);
    by_type.set(type_id, (by_type.get(type_id) ?? 0) + size_bytes);
  }
  const types = [...by_type].sort(([, a], [, b]) => b - a).map(([type_id]) => type_id);
  return types.flatMap((type_id) => {
    const shapes = [...by_shape.values()].filter((shape) => shape.type_id === type_id);
    const [best] = shapes.sort((a, b) => b.size_bytes - a.size_bytes);
    return best ? [{ type_id, rows: best.rows, columns: best.columns }] : [];
  });
}

export interface AttentionSizes {
  layers: number;
  query_heads: number;
  kv_heads: number;
  head_dim: number;
  context_length: number;
}

export function attentionSizes({ metadata }: GgufHeader): AttentionSizes {
  const architecture = metadata.get('general.architecture');
  const number = (key: string): number | undefined => {
    const value = metadata.get(`${String(architecture)}.${key}`);
    return typeof value === 'number' ? value : undefined;
  };
  const query_heads = number('attention.head_count') ?? 1;
  return {
    layers: number('block_count') ?? 1,
    query_heads,
    kv_heads: number('attention.head_count_kv') ?? query_heads,
    head_dim: number('attention.key_length') ?? (number('embedding_length') ?? 1) / query_heads,
    context_length: number('context_length') ?? 0,
  };
}
