// Fetches, compiles and instantiates an engine module: its imports are "nonstop" {now_us, log}, WASI,
// in the shared builds the memory, and in the build for WebGPU "nonstop_gpu". Threads instantiate the same
// module over the same memory.
import {
  bindExports,
  bindGpuExports,
  kAbiVersion,
  type NsExports,
  type NsGpuExports,
} from './abi.gen.js';
import type { BuildChoice } from './choose.js';
import { EngineError } from './error.js';
import { LinearMemory } from './memory.js';
import { isNode } from './platform.js';
import { wasiImports } from './wasi.js';

const kInitialPages = 256;
const kMaximumPages = 65536;
const kLevelError = 3;

export interface EngineInstance {
  module: WebAssembly.Module;
  wasm_memory: WebAssembly.Memory;
  memory: LinearMemory;
  exports: NsExports;
  raw_exports: WebAssembly.Exports;
  /** Of the build for WebGPU. */
  gpu_exports: NsGpuExports | undefined;
  /** The last line that the engine logged as an error: it says what a trap was about. */
  lastError: () => string;
}

export function moduleFileName(
  choice: Pick<BuildChoice, 'build' | 'shared'> & Partial<Pick<BuildChoice, 'backend'>>,
): string {
  if (choice.backend === 'webgpu') return 'nonstop-webgpu.wasm';
  return `nonstop-${choice.build}${choice.shared ? '-mt' : ''}.wasm`;
}

/** Compiles the module at `url`; streaming where the server names its type. */
export async function compileModule(url: URL): Promise<WebAssembly.Module> {
  try {
    if (url.protocol === 'file:' && isNode) return await compileFile(url);
    const response = await fetch(url);
    if (!response.ok) {
      throw new EngineError(
        'not_found',
        `The engine module "${url.href}" could not be loaded (HTTP ${response.status}).`,
      );
    }
    if (response.headers.get('content-type') === 'application/wasm') {
      return await WebAssembly.compileStreaming(response);
    }
    return await WebAssembly.compile(await response.arrayBuffer());
  } catch (thrown) {
    if (thrown instanceof EngineError) throw thrown;
    throw new EngineError(
      'backend_failed',
      `The engine module "${url.href}" could not be compiled (${String(thrown)}).`,
      { cause: thrown },
    );
  }
}

async function compileFile(url: URL): Promise<WebAssembly.Module> {
  const fs = process.getBuiltinModule('node:fs/promises');
  const bytes = await fs.readFile(url).catch((cause: unknown) => {
    throw new EngineError('not_found', `The engine module "${url.pathname}" is not there.`, {
      cause,
    });
  });
  return WebAssembly.compile(bytes);
}

export function makeSharedMemory(): WebAssembly.Memory {
  return new WebAssembly.Memory({ initial: kInitialPages, maximum: kMaximumPages, shared: true });
}

/**
 * Instantiates; `shared` is the imported memory of the shared builds, `gpu` the imports of the one for
 * WebGPU. Does not initialise.
 */
export async function instantiate(
  module: WebAssembly.Module,
  shared: WebAssembly.Memory | undefined,
  gpu?: WebAssembly.ModuleImports,
): Promise<EngineInstance> {
  let memory = shared;
  let lastError = '';
  const currentMemory = () => {
    if (!memory) throw new EngineError('internal', 'The engine has no memory yet.');
    return memory;
  };
  const log = (level: number, at: number, size_bytes: number) => {
    const line = new LinearMemory(currentMemory()).text(at >>> 0, size_bytes >>> 0);
    if (level < kLevelError) return;
    lastError = line;
    console.error(`nonstop: ${line}`);
  };
  const instance = await WebAssembly.instantiate(module, {
    nonstop: { now_us: () => performance.now() * 1000, log },
    wasi_snapshot_preview1: wasiImports(module, {
      memory: currentMemory,
      log: (line) => {
        if (line) lastError = line;
      },
    }),
    ...(shared ? { env: { memory: shared } } : {}),
    ...(gpu ? { nonstop_gpu: gpu } : {}),
  });
  const exported = instance.exports['memory'];
  if (!memory && exported instanceof WebAssembly.Memory) memory = exported;
  const wasm_memory = currentMemory();
  return {
    module,
    wasm_memory,
    memory: new LinearMemory(wasm_memory),
    exports: bindChecked(bindExports, instance.exports),
    raw_exports: instance.exports,
    gpu_exports: gpu && bindChecked(bindGpuExports, instance.exports),
    lastError: () => lastError,
  };
}

function bindChecked<T>(
  bind: (exports: WebAssembly.Exports) => T,
  exports: WebAssembly.Exports,
): T {
  try {
    return bind(exports);
  } catch (cause) {
    throw new EngineError('backend_failed', `The engine module does not fit (${String(cause)}).`, {
      cause,
    });
  }
}

/** The main instance: runs the constructors and checks the interface's version. */
export async function instantiateMain(
  module: WebAssembly.Module,
  shared: boolean,
  gpu?: WebAssembly.ModuleImports,
): Promise<EngineInstance> {
  const instance = await instantiate(module, shared ? makeSharedMemory() : undefined, gpu);
  const initialize = instance.raw_exports['_initialize'];
  if (typeof initialize === 'function') (initialize as () => void)();
  const version = instance.exports.ns_abi_version();
  if (version !== kAbiVersion) {
    throw new EngineError(
      'backend_failed',
      `The engine module speaks version (${version}) of the interface, not (${kAbiVersion}).`,
    );
  }
  return instance;
}
