// Where set-up puts the peers (tools/setup/peers.py), their versions, and how far each one's weights
// are from the GGUF's (bench/peers/quality.json).
import fs from 'node:fs';
import path from 'node:path';
import { kRoot } from '../../apps/cli/src/models.js';
import { EngineError } from '../../web/src/api/index.js';
import { kSameFile, type Setup } from './cases.js';
import type { BenchModel } from './bench_model.js';

const kPeers = path.join(kRoot, '.deps/peers');
export const kPython = path.join(kPeers, 'python/bin/python');
export const kPeerModels = path.join(kPeers, 'models');
export const kLlamaScript = path.join(kRoot, 'bench/peers/llama_cpp_runner.py');
const kPackages = path.join(kPeers, 'npm/node_modules');

export const kPeerFolders: Readonly<Record<string, string>> = {
  '/peer-models/': kPeerModels,
  '/wllama/': path.join(kPackages, '@wllama/wllama/esm'),
  '/transformers/': path.join(kPackages, '@huggingface/transformers/dist'),
  '/ort/': path.join(kPackages, 'onnxruntime-web/dist'),
};

/** Theirs start workers from blobs and make code from text. */
export const kPeerPolicy =
  "default-src 'self' blob: data: 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval'";

export function checkPeers(): void {
  for (const needed of [kPython, kPackages, kPeerModels]) {
    if (fs.existsSync(needed)) continue;
    throw new EngineError(
      'not_found',
      'The peers are not set up yet; "./run bench … --peers" does it.',
    );
  }
}

/** The file of a peer that reads GGUF: the model's own, or one that set-up made of it. */
export function peerModelFile(model: BenchModel, weights: string): string {
  if (weights === kSameFile) return model.path;
  return path.join(kPeerModels, `${model.name}.${weights}.gguf`);
}

function readJson(file: string): unknown {
  return JSON.parse(fs.readFileSync(file, 'utf8'));
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

export function peerVersions(): Record<string, string> {
  const version = (name: string) =>
    String(field(readJson(path.join(kPackages, name, 'package.json')), 'version'));
  const pins = field(readJson(path.join(kRoot, 'tools/pins.json')), 'peers');
  const python = field(pins, 'python');
  const llama = Array.isArray(python)
    ? python.find((pin) => field(pin, 'project') === 'llama-cpp-python')
    : undefined;
  return {
    wllama: version('@wllama/wllama'),
    'transformers.js': version('@huggingface/transformers'),
    'onnxruntime-web': version('onnxruntime-web'),
    'llama.cpp': `llama-cpp-python ${String(field(llama, 'version'))}`,
  };
}

/**
 * Mean KL in nats of a peer's distributions to those of the GGUF's exact weights, by setup. They were found
 * on the CPU, where products round activations otherwise than on a GPU.
 */
export function readQuality(): (model: string, setup: Setup) => number | undefined {
  const file = path.join(kRoot, 'bench/peers/quality.json');
  const rows = fs.existsSync(file) ? field(readJson(file), 'rows') : [];
  return (model, { software, device, weights }) => {
    if (!Array.isArray(rows) || device !== 'cpu') return undefined;
    const found: unknown = rows.find(
      (row) =>
        field(row, 'model') === model &&
        field(row, 'software') === software &&
        field(row, 'weights') === weights,
    );
    const value = field(found, 'mean_kl');
    return typeof value === 'number' ? value : undefined;
  };
}
