// The player's own sources for tests in Node: TypeScript, bundled in memory.
import { build } from 'esbuild';
import { kRoot } from './device.mjs';

const kEntry = `
export * from './web/src/gpu/adapter.js';
export * from './web/src/gpu/choose_gpu.js';
export * from './web/src/gpu/player.js';
export * from './web/src/gpu/device_check.js';
export * from './web/src/wasm/memory.js';
`;

export async function importGpu() {
  const { outputFiles } = await build({
    stdin: { contents: kEntry, resolveDir: kRoot, loader: 'ts' },
    bundle: true,
    format: 'esm',
    platform: 'neutral',
    target: 'es2022',
    write: false,
  });
  return import(
    `data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString('base64')}`
  );
}
