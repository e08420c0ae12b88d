// Builds everything that is TypeScript: the web package (web/dist), the command line and the chat page
// (apps/*/dist), and copies the engine modules beside the worker that loads them.
// The interface file web/src/wasm/abi.gen.ts is written first, from the engine's header.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

const root = path.resolve(import.meta.dirname, '..');
const at = (...parts) => path.join(root, ...parts);
const kBuilds = ['simd', 'relaxed', 'simd-mt', 'relaxed-mt', 'webgpu'];

const common = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  target: 'es2022',
  legalComments: 'none',
  logLevel: 'warning',
  sourcemap: true,
  sourcesContent: false,
  loader: { '.wgsl': 'text' },
};

/** Runs in a browser and in Node: no imports are left, and no module of either is assumed. */
const neutral = { ...common, platform: 'neutral', mainFields: ['module', 'main'], minify: true };

async function buildScripts() {
  await Promise.all([
    build({ ...neutral, entryPoints: ['web/src/worker/main.ts'], outfile: 'web/dist/worker.mjs' }),
    build({ ...neutral, entryPoints: ['web/src/api/index.ts'], outfile: 'web/dist/nonstop.mjs' }),
    build({ ...neutral, entryPoints: ['apps/cli/src/page.ts'], outfile: 'apps/cli/dist/page.mjs' }),
    build({ ...neutral, entryPoints: ['apps/chat/src/app.ts'], outfile: 'apps/chat/dist/app.mjs' }),
    build({
      ...neutral,
      entryPoints: [
        { in: 'bench/cpu/page.ts', out: 'cpu' },
        { in: 'bench/cpu/kernel_worker.ts', out: 'kernel_worker' },
        { in: 'bench/webgpu/page.ts', out: 'webgpu' },
        { in: 'bench/webgpu/cold.ts', out: 'cold' },
        { in: 'bench/webgpu/standalone.ts', out: 'standalone' },
      ],
      outdir: 'bench/dist',
      outExtension: { '.js': '.mjs' },
    }),
    build({
      ...neutral,
      entryPoints: ['wllama', 'transformers'].map((name) => `bench/peers/${name}.ts`),
      outdir: 'bench/dist',
      outExtension: { '.js': '.mjs' },
    }),
    build({
      ...common,
      platform: 'node',
      target: 'node20',
      external: ['playwright-core'],
      entryPoints: ['apps/cli/src/main.ts'],
      outfile: 'apps/cli/dist/cli.mjs',
    }),
  ]);
}

function copyStatic() {
  fs.copyFileSync(at('apps/cli/src/page.html'), at('apps/cli/dist/page.html'));
  fs.copyFileSync(at('bench/cpu/page.html'), at('bench/dist/cpu.html'));
  fs.copyFileSync(at('bench/webgpu/page.html'), at('bench/dist/webgpu.html'));
  for (const name of ['cold', 'standalone']) {
    fs.copyFileSync(at(`bench/webgpu/${name}.html`), at(`bench/dist/${name}.html`));
  }
  for (const name of ['wllama', 'transformers']) {
    fs.copyFileSync(at(`bench/peers/${name}.html`), at(`bench/dist/${name}.html`));
  }
  for (const name of ['index.html', 'style.css', 'icon.svg']) {
    fs.copyFileSync(at('apps/chat/src', name), at('apps/chat/dist', name));
  }
}

function copyModules() {
  const missing = [];
  for (const name of kBuilds) {
    const from = at(`build/wasm-${name}/nonstop-${name}.wasm`);
    if (fs.existsSync(from)) fs.copyFileSync(from, at(`web/dist/nonstop-${name}.wasm`));
    else missing.push(name);
    // Built on demand, for ./run bench.
    const bench = at(`build/wasm-${name}/bench-${name}.wasm`);
    if (fs.existsSync(bench)) fs.copyFileSync(bench, at(`bench/dist/bench-${name}.wasm`));
  }
  if (missing.length > 0) {
    console.error(`build.mjs: modules not built yet (${missing.join(', ')}): tools/build_modules`);
  }
}

execFileSync(process.execPath, [at('tools/abi/generate.mjs')], { stdio: 'inherit' });
await buildScripts();
copyStatic();
copyModules();
