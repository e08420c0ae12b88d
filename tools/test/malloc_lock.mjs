// Four threads allocate in one shared memory at once, each checking what it wrote:
//   node tools/test/malloc_lock.mjs malloc_lock_probe.wasm
// Status 0 if no thread saw a byte of another; without the lock it crashes or does not end (./test
// has a time limit). It also shows the protocol for workers: own stack, own TLS block, no _initialize.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

const threadCount = 4;
const stackBytes = 262144;

function instantiate(module, memory) {
  const imports = { env: { memory } };
  for (const { module: from, name, kind } of WebAssembly.Module.imports(module)) {
    // The probe writes nothing: whatever WASI function libc links in may say "not supported".
    if (kind === 'function') (imports[from] ??= {})[name] = () => 52;
  }
  return new WebAssembly.Instance(module, imports).exports;
}

async function main(file) {
  const module = new WebAssembly.Module(readFileSync(file));
  const memory = new WebAssembly.Memory({ initial: 256, maximum: 65536, shared: true });
  const engine = instantiate(module, memory);
  engine._initialize();
  const alignment = Math.max(16, engine.__tls_align.value);
  const align = (address) => (address + alignment - 1) & -alignment;
  const workers = [];
  for (let thread = 1; thread < threadCount; thread++) {
    const tls = align(engine.allocate(engine.__tls_size.value + alignment));
    const stackTop = (engine.allocate(stackBytes) + stackBytes) & -16;
    const data = { module, memory, thread, tls, stackTop };
    workers.push(new Worker(fileURLToPath(import.meta.url), { workerData: data }));
  }
  const replies = workers.map(
    (worker) => new Promise((resolve) => worker.once('message', resolve)),
  );
  const results = [engine.work(0, threadCount), ...(await Promise.all(replies))];
  console.log(`wrong bytes by thread: ${results.join(', ')}`);
  process.exitCode = results.every((wrong) => wrong === 0) ? 0 : 1;
}

if (isMainThread) {
  await main(process.argv[2]);
} else {
  const { module, memory, thread, tls, stackTop } = workerData;
  const engine = instantiate(module, memory);
  engine.__stack_pointer.value = stackTop;
  engine.__wasm_init_tls(tls);
  parentPort.postMessage(engine.work(thread, threadCount));
}
