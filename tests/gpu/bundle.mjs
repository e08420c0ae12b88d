// The player's own sources for tests: TypeScript, bundled in memory.
import { build } from 'esbuild';
import { kRoot } from './device.mjs';

const kEntry = `
export * from './web/src/gpu/adapter.js';
export * from './web/src/gpu/choose_gpu.js';
export * from './web/src/gpu/device_check.js';
export * from './tests/gpu/driver.mjs';
`;

/** One script of everything above, with `more` behind it. */
export async function bundleGpu(more = '') {
  const { outputFiles } = await build({
    stdin: { contents: kEntry + more, resolveDir: kRoot, loader: 'ts' },
    bundle: true,
    format: 'esm',
    platform: 'neutral',
    target: 'es2022',
    write: false,
  });
  return outputFiles[0].text;
}

export async function importGpu() {
  const code = Buffer.from(await bundleGpu()).toString('base64');
  return import(`data:text/javascript;base64,${code}`);
}
