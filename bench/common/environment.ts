// On what and of what was measured: the machine, its load, the commit, the versions.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import { kRoot } from '../../apps/cli/src/models.js';

export interface Machine {
  cpu: string;
  cores: number;
  memory_bytes: number;
  system: string;
  /** Instructions that decide which kernels a compiler or a library picks. */
  flags: Record<string, boolean>;
}

const kFlags = ['avx2', 'fma', 'f16c', 'avx_vnni', 'avx512f', 'avx512_vnni'];

export function describeMachine(): Machine {
  const info = readText('/proc/cpuinfo');
  const flags = new Set((/^flags\s*:\s*(.*)$/m.exec(info)?.[1] ?? '').split(' '));
  const family = ['cpu family', 'model', 'stepping'].map(
    (name) => new RegExp(`^${name}\\s*:\\s*(\\S+)`, 'm').exec(info)?.[1] ?? '?',
  );
  return {
    cpu: `${os.cpus()[0]?.model ?? 'unknown'} (family, model, stepping ${family.join(', ')})`,
    cores: os.availableParallelism(),
    memory_bytes: os.totalmem(),
    system: `${os.type()} ${os.release()} ${os.arch()}`,
    flags: Object.fromEntries(kFlags.map((flag) => [flag, flags.has(flag)])),
  };
}

export function loadAverage(): number[] {
  return os.loadavg().map((value) => Number(value.toFixed(2)));
}

function readText(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

export interface Revision {
  commit: string | null;
  dirty: boolean | null;
}

/** Of the repository; null where it is none. */
export function readRevision(): Revision {
  const git = (...words: string[]) =>
    execFileSync('git', ['-C', kRoot, ...words], { encoding: 'utf8', stdio: 'pipe' }).trim();
  try {
    const changed = git('status', '--porcelain', '--untracked-files=no');
    return { commit: git('rev-parse', 'HEAD'), dirty: changed !== '' };
  } catch {
    return { commit: null, dirty: null };
  }
}
