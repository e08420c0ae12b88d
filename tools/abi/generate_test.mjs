// The generated interface against the C++ compiler's own view of the header.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { generate, parseEnums, parseFunctions, parseStructs } from './generate.mjs';

const root = path.resolve(import.meta.dirname, '../..');
const read = (file) => fs.readFileSync(path.join(root, file), 'utf8');
const header = read('engine/abi/abi.h').replace(/\/\/[^\n]*/g, '');

test('the checked-in file is up to date', () => {
  const text = generate(read('engine/abi/abi.h'), read('engine/base/result.h'));
  expect(read('web/src/wasm/abi.gen.ts')).toBe(text);
});

test('sizes, offsets and enumerators are those of the compiler', () => {
  const checks = parseStructs(header).flatMap(({ name, fields, size }) => [
    `static_assert(sizeof(${name}) == ${size});`,
    ...fields.map((f) => `static_assert(offsetof(${name}, ${f.name}) == ${f.offset});`),
  ]);
  const values = parseEnums(header).flatMap(({ name, values }) =>
    values.map((v) => `static_assert(static_cast<uint32_t>(${name}::k${v.name}) == ${v.value});`),
  );
  const codes = parseEnums(read('engine/base/result.h').replace(/\/\/[^\n]*/g, ''));
  const errors = codes
    .find((e) => e.name === 'ErrorCode')
    .values.map(
      (v) => `static_assert(static_cast<int>(nonstop::ErrorCode::k${v.name}) == ${v.value});`,
    );
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'abi-'));
  const source = path.join(folder, 'check.cc');
  const all = [...checks, ...values, ...errors];
  expect(all.length).toBeGreaterThan(100);
  fs.writeFileSync(
    source,
    `#include "abi/abi.h"\n#include "base/result.h"\n#include <cstddef>\nusing namespace nonstop::abi;\n${all.join('\n')}\n`,
  );
  try {
    const flags = ['-std=c++23', '-fsyntax-only', `-I${path.join(root, 'engine')}`];
    execFileSync('clang++-19', [...flags, source], { stdio: 'pipe' });
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});

test('a struct that would need padding is refused', () => {
  expect(() => parseStructs('struct A { uint32_t a; double b; };')).toThrow(
    /"b" would need padding/,
  );
  expect(() => parseStructs('struct A { double a; uint32_t b; };')).toThrow(
    /end would need padding/,
  );
  expect(() => parseStructs('struct A { char a; };')).toThrow(/cannot read "char a"/);
});

test('functions outside the grammar are refused', () => {
  expect(() => parseFunctions('extern "C" {\nint ns_x();\n}')).toThrow(/Cannot read/);
  expect(parseFunctions('extern "C" {\nuint32_t ns_x(uint32_t a, double b);\n}')).toEqual([
    { result: 'uint32_t', name: 'ns_x', parameters: ['a', 'b'] },
  ]);
});
