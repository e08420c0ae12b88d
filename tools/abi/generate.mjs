// Writes web/src/wasm/abi.gen.ts from engine/abi/abi.h (structs, enums, functions) and the ErrorCode
// enum of engine/base/result.h, so that the two sides of the module's interface cannot drift.
// The grammar it reads is stated at the top of abi.h; anything else in there is an error here.
//
//   node tools/abi/generate.mjs           writes the file
//   node tools/abi/generate.mjs --check   exits 1 when the file is not up to date
import fs from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');
const kOutput = path.join(root, 'web/src/wasm/abi.gen.ts');
const kFieldSizes = { uint32_t: 4, int32_t: 4, float: 4, double: 8 };
const kAccessors = { uint32_t: 'Uint32', int32_t: 'Int32', float: 'Float32', double: 'Float64' };

const stripComments = (text) => text.replace(/\/\/[^\n]*/g, '');
const lowerFirst = (name) => name.charAt(0).toLowerCase() + name.slice(1);
const snakeCase = (name) => name.replace(/(?<!^)([A-Z])/g, '_$1').toLowerCase();

export function parseEnums(text) {
  const enums = [];
  for (const [, name, body] of text.matchAll(/enum class (\w+)\s*:\s*\w+\s*\{([^}]*)\}/g)) {
    let next = 0;
    const values = [];
    for (const part of body
      .split(',')
      .map((s) => s.trim())
      .filter(Boolean)) {
      const match = /^k(\w+?)(?:\s*=\s*(\d+))?$/.exec(part);
      if (!match) throw new Error(`Enum ${name}: cannot read "${part}".`);
      const value = match[2] === undefined ? next : Number(match[2]);
      values.push({ name: match[1], value });
      next = value + 1;
    }
    enums.push({ name, values });
  }
  return enums;
}

export function parseStructs(text) {
  const structs = [];
  for (const [, name, body] of text.matchAll(/struct (\w+)\s*\{([^}]*)\}/g)) {
    let offset = 0;
    const fields = [];
    for (const part of body
      .split(';')
      .map((s) => s.trim())
      .filter(Boolean)) {
      const match = /^(\w+)\s+(\w+)$/.exec(part);
      const size = match ? kFieldSizes[match[1]] : undefined;
      if (!size) throw new Error(`Struct ${name}: cannot read "${part}".`);
      if (offset % size !== 0) throw new Error(`Struct ${name}: "${match[2]}" would need padding.`);
      fields.push({ type: match[1], name: match[2], offset });
      offset += size;
    }
    const alignment = Math.max(...fields.map((field) => kFieldSizes[field.type]));
    if (offset % alignment !== 0) throw new Error(`Struct ${name}: its end would need padding.`);
    structs.push({ name, fields, size: offset });
  }
  return structs;
}

export function parseFunctions(text) {
  const block = /extern "C" \{([\s\S]*?)\n\}/.exec(text);
  if (!block) throw new Error('abi.h has no extern "C" block.');
  const functions = [];
  for (const part of block[1]
    .split(';')
    .map((s) => s.trim())
    .filter(Boolean)) {
    const match = /^(void|uint32_t|int32_t|double)\s+(ns_\w+)\s*\(([^)]*)\)$/.exec(part);
    if (!match) throw new Error(`Cannot read the function "${part}".`);
    const parameters = match[3]
      .split(',')
      .map((s) => s.trim())
      .filter(Boolean)
      .map((text) => {
        const [type, name] = text.split(/\s+/);
        if (!(type in kFieldSizes) || !name) throw new Error(`${match[2]}: cannot read "${text}".`);
        return name;
      });
    functions.push({ result: match[1], name: match[2], parameters });
  }
  return functions;
}

function emitEnum({ name, values }, keyOf) {
  const rows = values.map((value) => `  ${keyOf(value.name)}: ${value.value},`).join('\n');
  return `export const ${name} = {\n${rows}\n} as const;\n`;
}

function emitStruct({ name, fields, size }) {
  const members = fields.map((field) => `  ${field.name}: number;`).join('\n');
  const reads = fields
    .map((f) => `    ${f.name}: view.get${kAccessors[f.type]}(at + ${f.offset}, true),`)
    .join('\n');
  const writes = fields
    .map((f) => `  view.set${kAccessors[f.type]}(at + ${f.offset}, value.${f.name}, true);`)
    .join('\n');
  return `export interface ${name} {\n${members}\n}
export const k${name}Size = ${size};
export function read${name}(view: DataView, at: number): ${name} {
  return {\n${reads}\n  };\n}
export function write${name}(view: DataView, at: number, value: ${name}): void {\n${writes}\n}\n`;
}

/** Functions named ns_gpu_… are exported by the WebGPU module only. */
const isOfGpu = ({ name }) => name.startsWith('ns_gpu_');

function emitRequired() {
  return `type RawFunction = (...values: number[]) => number;

function required(exports: WebAssembly.Exports, name: string): RawFunction {
  const value = exports[name];
  if (typeof value !== 'function') throw new TypeError(\`The module does not export "\${name}".\`);
  return value as RawFunction;
}\n`;
}

function emitFunctions(functions, prefix) {
  const type = (f) =>
    `  ${f.name}(${f.parameters.map((p) => `${p}: number`).join(', ')}): ` +
    `${f.result === 'void' ? 'void' : 'number'};`;
  const bind = (f) => {
    const parameters = f.parameters.join(', ');
    const call = `${f.name}(${parameters})`;
    if (f.result === 'void') return `    ${f.name}: (${parameters}) => void ${call},`;
    return `    ${f.name}: (${parameters}) => ${call}${f.result === 'uint32_t' ? ' >>> 0' : ''},`;
  };
  return `export interface Ns${prefix}Exports {\n${functions.map(type).join('\n')}\n}

/** Checks that every function is there; uint32_t results, signed in wasm, become unsigned. */
export function bind${prefix}Exports(exports: WebAssembly.Exports): Ns${prefix}Exports {
${functions.map((f) => `  const ${f.name} = required(exports, '${f.name}');`).join('\n')}
  return {\n${functions.map(bind).join('\n')}\n  };\n}\n`;
}

export function generate(abiHeader, resultHeader) {
  const abi = stripComments(abiHeader);
  const version = /kAbiVersion\s*=\s*(\d+)/.exec(abi)?.[1];
  if (!version) throw new Error('abi.h does not state kAbiVersion.');
  const errorCode = parseEnums(stripComments(resultHeader)).find((e) => e.name === 'ErrorCode');
  if (!errorCode) throw new Error('result.h has no enum ErrorCode.');
  const functions = parseFunctions(abi);
  return [
    '// Generated by tools/abi/generate.mjs from engine/abi/abi.h and engine/base/result.h. Do not edit.\n',
    `export const kAbiVersion = ${version};\n`,
    emitEnum(errorCode, snakeCase) + 'export type ErrorCodeName = keyof typeof ErrorCode;\n',
    ...parseEnums(abi).map((e) => emitEnum(e, lowerFirst)),
    ...parseStructs(abi).map(emitStruct),
    emitRequired(),
    emitFunctions(
      functions.filter((f) => !isOfGpu(f)),
      '',
    ),
    emitFunctions(functions.filter(isOfGpu), 'Gpu'),
  ].join('\n');
}

function main() {
  const read = (file) => fs.readFileSync(path.join(root, file), 'utf8');
  const text = generate(read('engine/abi/abi.h'), read('engine/base/result.h'));
  const current = fs.existsSync(kOutput) ? fs.readFileSync(kOutput, 'utf8') : '';
  if (process.argv.includes('--check')) {
    if (current === text) return;
    console.error('web/src/wasm/abi.gen.ts is not up to date: run "node tools/abi/generate.mjs".');
    process.exit(1);
  }
  if (current !== text) fs.writeFileSync(kOutput, text);
}

if (process.argv[1] === import.meta.filename) main();
