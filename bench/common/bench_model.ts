// What the benchmark knows of a model: from its file's header, and what is measured of it.
import {
  attentionSizes,
  commonShapes,
  weightBytesPerToken,
  type AttentionSizes,
  type GgufHeader,
  type MatrixShape,
} from './gguf.js';

export interface BenchModel {
  name: string;
  /** A file (Node) or a URL (a page). */
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

/** Random weights in the shapes of larger models (tools/make_shape_model.py). */
export const kShapeModels = ['smollm2-360m-shape', 'qwen2.5-0.5b-shape', 'llama-3.2-1b-shape'];

type Extent = Pick<BenchModel, 'peers' | 'extent'>;
const kShapeExtent: Extent = { peers: 'same file', extent: 'short' };
const kExtents: Readonly<Record<string, Extent>> = {
  'smollm2-135m-instruct': { peers: 'all', extent: 'whole' },
  'gemma-3-270m': { peers: 'none', extent: 'whole' },
  ...Object.fromEntries(kShapeModels.map((name) => [name, kShapeExtent])),
};

export function describeModel(name: string, path: string, header: GgufHeader): BenchModel {
  return {
    name,
    path,
    size_bytes: header.tensors.reduce((sum, { size_bytes }) => sum + size_bytes, 0),
    weight_bytes_per_token: weightBytesPerToken(header),
    shapes: commonShapes(header),
    attention: attentionSizes(header),
    ...(kExtents[name] ?? { peers: 'none', extent: 'whole' }),
  };
}
