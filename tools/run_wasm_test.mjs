// Runs a WASI command (GoogleTest compiled to wasm) under Node, with the repository as "/".
//   node tools/run_wasm_test.mjs FILE.wasm [ARGUMENT…]
// The exit status is the program's own; a trap prints its stack and ends with 134, as abort() does.
// Tests only read: anything that they write would land in the repository, so they must not.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

// node:wasi announces on stderr that it is experimental; that says nothing about our tests.
process.removeAllListeners('warning');
const { WASI } = await import('node:wasi');

const [file, ...testArguments] = process.argv.slice(2);
if (!file) {
  console.error('usage: node tools/run_wasm_test.mjs FILE.wasm [ARGUMENT…]');
  process.exit(2);
}

const wasi = new WASI({
  version: 'preview1',
  args: [file, ...testArguments],
  env: process.env,
  preopens: { '/': fileURLToPath(new URL('..', import.meta.url)) },
  returnOnExit: true,
});
const module = await WebAssembly.compile(await readFile(file));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
try {
  process.exitCode = wasi.start(instance);
} catch (error) {
  console.error(error.stack ?? String(error));
  process.exitCode = 134;
}
