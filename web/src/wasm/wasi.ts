// The few WASI preview1 functions that libc links in. The engine has no files and no arguments;
// what it writes to stdout or stderr (libc++'s abort message) becomes a log line. A function that
// is imported but not listed here answers ENOSYS.

const kSuccess = 0;
const kBadFileDescriptor = 8;
const kNoSystemCall = 52;
const kNotSeekable = 70;
const kCharacterDevice = 2;

export interface WasiOptions {
  memory: () => WebAssembly.Memory;
  log: (line: string) => void;
}

type WasiFunction = (...values: never[]) => number;

function makeFunctions({ memory, log }: WasiOptions): Record<string, WasiFunction> {
  const decoder = new TextDecoder();
  let line = '';
  const view = () => new DataView(memory().buffer);
  const writeNothing = (count_at: number, size_at: number) => {
    view().setUint32(count_at, 0, true);
    view().setUint32(size_at, 0, true);
    return kSuccess;
  };
  return {
    args_get: () => kSuccess,
    args_sizes_get: writeNothing,
    environ_get: () => kSuccess,
    environ_sizes_get: writeNothing,
    clock_time_get: (id: number, _precision: bigint, at: number) => {
      const ms = id === 0 ? Date.now() : performance.now();
      view().setBigUint64(at, BigInt(Math.round(ms * 1e6)), true);
      return kSuccess;
    },
    fd_close: () => kSuccess,
    fd_seek: () => kNotSeekable,
    fd_fdstat_get: (fd: number, at: number) => {
      if (fd > 2) return kBadFileDescriptor;
      new Uint8Array(memory().buffer, at, 24).fill(0);
      view().setUint8(at, kCharacterDevice);
      return kSuccess;
    },
    fd_write: (_fd: number, vectors_at: number, vector_count: number, written_at: number) => {
      let written = 0;
      for (let i = 0; i < vector_count; i++) {
        const at = view().getUint32(vectors_at + 8 * i, true);
        const size_bytes = view().getUint32(vectors_at + 8 * i + 4, true);
        line += decoder.decode(new Uint8Array(memory().buffer, at, size_bytes).slice());
        written += size_bytes;
      }
      const lines = line.split('\n');
      line = lines.pop() ?? '';
      lines.forEach(log);
      view().setUint32(written_at, written, true);
      return kSuccess;
    },
    random_get: (at: number, size_bytes: number) => {
      const random = crypto.getRandomValues(new Uint8Array(size_bytes));
      new Uint8Array(memory().buffer, at, size_bytes).set(random);
      return kSuccess;
    },
    proc_exit: (code: number): never => {
      throw new WebAssembly.RuntimeError(`the engine called exit (${code})`);
    },
  };
}

/** The imports that `module` asks of "wasi_snapshot_preview1". */
export function wasiImports(
  module: WebAssembly.Module,
  options: WasiOptions,
): WebAssembly.ModuleImports {
  const functions = makeFunctions(options);
  const imports: WebAssembly.ModuleImports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    if (from === 'wasi_snapshot_preview1') imports[name] = functions[name] ?? (() => kNoSystemCall);
  }
  return imports;
}
