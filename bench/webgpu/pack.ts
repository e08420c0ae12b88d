// ./run bench webgpu --pack FOLDER: everything that the benchmark needs in a page, for a machine that has a
// browser with WebGPU and nothing else: scripts, the engine's module, the models, and how to open it.
import fs from 'node:fs';
import path from 'node:path';
import type { Arguments } from '../../apps/cli/src/parse.js';
import { EngineError } from '../../web/src/api/index.js';
import { modelNames } from '../common/command.js';
import { readRevision } from '../common/environment.js';
import { findModel } from '../common/models.js';
import { kBenchDist, kWebDist } from '../common/subjects.js';
import { kWebgpuBenchmark } from './benchmark.js';
import type { Contents } from './standalone.js';

const kFiles: readonly (readonly [from: string, to: string])[] = [
  [path.join(kBenchDist, 'standalone.html'), 'page.html'],
  ...['standalone.mjs', 'cold.mjs', 'cold.html'].map(
    (name) => [path.join(kBenchDist, name), `bench/${name}`] as const,
  ),
  ...['worker.mjs', 'nonstop-webgpu.wasm'].map(
    (name) => [path.join(kWebDist, name), `nonstop/${name}`] as const,
  ),
];

/** The page's query has these, or they belong to a run from here. */
const kRefusedOptions = [
  ...['json', 'peers', 'host', 'only', 'quick', 'tokens', 'plan'],
  ...kWebgpuBenchmark.refused_options,
];

export async function packFolder(
  folder: string,
  args: Arguments,
  signal: AbortSignal,
): Promise<number> {
  for (const option of kRefusedOptions) {
    if (!args.has(option)) continue;
    const sentence = `The option "--${option}" does not go with "--pack".`;
    throw new EngineError('invalid_argument', sentence);
  }
  const files = [...kFiles];
  const models: string[] = [];
  for (const name of modelNames(kWebgpuBenchmark, args)) {
    const { path: file } = await findModel(name, signal);
    models.push(path.basename(file));
    files.push([file, `model/${path.basename(file)}`]);
  }
  const contents: Contents = { models, revision: readRevision() };
  try {
    for (const [from, to] of files) copy(from, path.join(folder, to));
    fs.writeFileSync(path.join(folder, 'contents.json'), `${JSON.stringify(contents)}\n`);
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new EngineError('storage', `The folder "${folder}" cannot be written (${text}).`, {
      cause,
    });
  }
  process.stdout.write(`${path.resolve(folder)}: page.html, ${models.join(', ')}\n`);
  return 0;
}

function copy(from: string, to: string): void {
  fs.mkdirSync(path.dirname(to), { recursive: true });
  // Where the file system can, a model's bytes are shared.
  fs.copyFileSync(from, to, fs.constants.COPYFILE_FICLONE);
}
