// The models that are measured, and what is measured of them.
import path from 'node:path';
import { EngineError } from '../../web/src/api/index.js';
import { kRoot, resolveModel } from '../../apps/cli/src/models.js';
import {
  attentionSizes,
  commonShapes,
  readGgufHeader,
  weightBytesPerToken,
  type AttentionSizes,
  type MatrixShape,
} from './gguf.js';

export interface BenchModel {
  name: string;
  path: string;
  size_bytes: number;
  weight_bytes_per_token: number;
  shapes: MatrixShape[];
  attention: AttentionSizes;
  /** The peers have it, in all their formats or in this file's only. */
  peers: 'all' | 'same file' | 'none';
  /** Short: decoding and one prompt, for a model that is measured for its size. */
  extent: 'whole' | 'short';
}

/** Random weights in the shape of SmolLM2-360M (tools/make_shape_model.py). */
export const kShapeModel = 'smollm2-360m-shape';

type Extent = Pick<BenchModel, 'peers' | 'extent'>;
const kExtents: Readonly<Record<string, Extent>> = {
  'smollm2-135m-instruct': { peers: 'all', extent: 'whole' },
  'gemma-3-270m': { peers: 'none', extent: 'whole' },
  [kShapeModel]: { peers: 'same file', extent: 'short' },
};

export const kQuickModels = ['smollm2-135m-instruct'];
export const kAllModels = Object.keys(kExtents);

export async function findModel(text: string, signal: AbortSignal): Promise<BenchModel> {
  const file = text === kShapeModel ? path.join(kRoot, '.deps/models', `${text}.gguf`) : text;
  const settings = { use_cache: true, signal, onProgress: () => {} };
  const { source } = await resolveModel(file, settings);
  if (source.kind !== 'file') {
    throw new EngineError('invalid_argument', `The model "${text}" is no file.`);
  }
  return describeModel(path.basename(text), source.path);
}

function describeModel(name: string, file: string): BenchModel {
  const header = readGgufHeader(file);
  return {
    name,
    path: file,
    size_bytes: header.tensors.reduce((sum, { size_bytes }) => sum + size_bytes, 0),
    weight_bytes_per_token: weightBytesPerToken(header),
    shapes: commonShapes(header),
    attention: attentionSizes(header),
    ...(kExtents[name] ?? { peers: 'none', extent: 'whole' }),
  };
}
