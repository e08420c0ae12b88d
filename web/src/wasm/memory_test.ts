import { expect, test } from 'vitest';
import type { NsExports } from './abi.gen.js';
import { packStrings } from './core.js';
import { EngineError } from './error.js';
import { CallBlock, LinearMemory } from './memory.js';

/** An allocator that grows the memory on every call, as malloc may. */
function growingHeap(memory: WebAssembly.Memory, freed: number[]): NsExports {
  const fail = () => {
    throw new Error('not called');
  };
  const names = { ns_alloc: fail, ns_free: fail };
  return new Proxy(names, {
    get: (_target, name) => {
      if (name === 'ns_alloc') return () => memory.grow(1) * 65536;
      if (name === 'ns_free') return (at: number) => void freed.push(at);
      return fail;
    },
  }) as unknown as NsExports;
}

test('pieces are written after the memory grew, and the block is freed', () => {
  const wasm = new WebAssembly.Memory({ initial: 1 });
  const memory = new LinearMemory(wasm);
  expect(memory.bytes(0, 4).length).toBe(4);
  const freed: number[] = [];
  const block = new CallBlock();
  const text_at = block.addBytes(new TextEncoder().encode('grüß'));
  const ids_at = block.addIds([1, -1, 2147483647]);
  const seen = block.place(growingHeap(wasm, freed), memory, (base) => ({
    base,
    text: memory.text(base + text_at, 6),
    ids: memory.ids(base + ids_at, 3),
  }));
  expect(seen).toEqual({ base: 65536, text: 'grüß', ids: [1, -1, 2147483647] });
  expect(freed).toEqual([65536]);
  expect(memory.size_bytes).toBe(2 * 65536);
});

test('an id that does not fit into 32 bits is refused, never another one', () => {
  for (const id of [2 ** 32 + 2, 2 ** 31, -(2 ** 31) - 1, 1.5, NaN]) {
    expect(() => new CallBlock().addIds([1, id])).toThrow(
      expect.objectContaining({
        code: 'invalid_argument',
        message: `The token id (${id}) is no whole number of 32 bits.`,
      }),
    );
  }
});

test('text is read from shared memory too', () => {
  const wasm = new WebAssembly.Memory({ initial: 1, maximum: 2, shared: true });
  const memory = new LinearMemory(wasm);
  memory.bytes(8, 3).set([0xe2, 0x82, 0xac]);
  expect(memory.text(8, 3)).toBe('€');
  wasm.grow(1);
  expect(memory.bytes(65536 + 8, 4).length).toBe(4);
});

test('no memory is an error with a code', () => {
  const exports = { ns_alloc: () => 0 } as unknown as NsExports;
  const memory = new LinearMemory(new WebAssembly.Memory({ initial: 1 }));
  const place = () => new CallBlock().place(exports, memory, () => 0);
  expect(place).toThrow(EngineError);
  expect(place).toThrow(expect.objectContaining({ code: 'out_of_memory' }));
});

test('stop strings are packed as length, bytes, padding to 4', () => {
  expect([...packStrings(['ab', '€!'])]).toEqual([
    ...[2, 0, 0, 0, 0x61, 0x62, 0, 0],
    ...[4, 0, 0, 0, 0xe2, 0x82, 0xac, 0x21],
  ]);
  expect(packStrings([]).length).toBe(0);
});
