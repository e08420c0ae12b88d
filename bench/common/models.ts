// The models that are measured, as files.
import fs from 'node:fs';
import path from 'node:path';
import { EngineError } from '../../web/src/api/index.js';
import { kRoot, resolveModel } from '../../apps/cli/src/models.js';
import { describeModel, kShapeModels, type BenchModel } from './bench_model.js';
import { kMostHeaderBytes, parseHeader, type GgufHeader } from './gguf.js';

export async function findModel(text: string, signal: AbortSignal): Promise<BenchModel> {
  const is_shape = kShapeModels.includes(text);
  const file = is_shape ? path.join(kRoot, '.deps/models', `${text}.gguf`) : text;
  const settings = { use_cache: true, signal, onProgress: () => {} };
  const { source } = await resolveModel(file, settings);
  if (source.kind !== 'file') {
    throw new EngineError('invalid_argument', `The model "${text}" is no file.`);
  }
  return describeModel(path.basename(text), source.path, readGgufHeader(source.path));
}

export function readGgufHeader(path: string): GgufHeader {
  const file = fs.openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(Math.min(kMostHeaderBytes, fs.fstatSync(file).size));
    fs.readSync(file, bytes, 0, bytes.length, 0);
    return parseHeader(bytes);
  } finally {
    fs.closeSync(file);
  }
}
