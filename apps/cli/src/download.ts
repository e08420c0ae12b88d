// Downloads a model by URL into the cache folder: resumed by range, renamed into place when complete,
// so that a file with its final name is always whole. One process at a time downloads a file: a lock
// holds its number, and a lock whose process is gone is taken over.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { EngineError } from '../../../web/src/api/index.js';
import { HttpStream } from '../../../web/src/storage/http.js';
import { FileChanged } from '../../../web/src/storage/http_error.js';

export interface DownloadOptions {
  signal: AbortSignal;
  onProgress: (loaded_bytes: number, total_bytes: number) => void;
}

/** XDG's specification has a relative path ignored. */
export function cacheFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const named = environment['XDG_CACHE_HOME'] ?? '';
  const base = path.isAbsolute(named) ? named : path.join(os.homedir(), '.cache');
  return path.join(base, 'nonstop');
}

/** The path of the model's first file; downloads what is not there, all files of a split model. */
export async function downloadModel(
  url: string,
  folder: string,
  options: DownloadOptions,
): Promise<string> {
  const urls = splitUrls(url);
  const key = createHash('sha256').update(url).digest('hex').slice(0, 16);
  const model_folder = path.join(folder, 'models', key);
  const files = [];
  try {
    for (const part of urls) files.push(await downloadFile(part, model_folder, options));
  } catch (thrown) {
    removeEmptyFolders(model_folder);
    throw thrown;
  }
  return files[0] ?? '';
}

/** A model's folder in the cache, and those above it up to the cache's own, as far as nothing is in them. */
export function removeEmptyFolders(model_folder: string): void {
  for (const above of ['.', '..', '../..']) {
    try {
      fs.rmdirSync(path.join(model_folder, above));
    } catch (thrown) {
      if (systemCode(thrown) !== 'ENOENT') return; // something is in it
    }
  }
}

/** "…-00001-of-00003.gguf" stands for three files. */
export function splitUrls(url: string): string[] {
  const match = /-00001-of-(\d{5})\.gguf(?=$|[?#])/.exec(url);
  const count = Number(match?.[1] ?? 1);
  if (count < 2) return [url];
  return Array.from({ length: count }, (_, i) =>
    url.replace('-00001-of-', `-${String(i + 1).padStart(5, '0')}-of-`),
  );
}

/** Not mkdir's own `recursive`: that never returns where a file system refuses with ENOENT (/proc). */
function makeFolders(folder: string): void {
  if (fs.existsSync(folder)) return;
  const parent = path.dirname(folder);
  if (parent !== folder) makeFolders(parent);
  try {
    fs.mkdirSync(folder);
  } catch (thrown) {
    if (!fs.existsSync(folder)) throw thrown; // another process may have been quicker
  }
}

function makeFolder(folder: string): void {
  try {
    makeFolders(folder);
    fs.accessSync(folder, fs.constants.W_OK);
  } catch (cause) {
    throw storageError(`The cache folder "${folder}" cannot be written`, cause);
  }
}

/** What the system says of a file, like ENOSPC. */
export function systemCode(cause: unknown): string {
  return cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
}

function storageError(what: string, cause: unknown): EngineError {
  return new EngineError(
    'storage',
    `${what} (${systemCode(cause)}); set XDG_CACHE_HOME to another folder, or use --no-cache.`,
    { cause },
  );
}

interface PartNote {
  etag: string;
  size_bytes: number;
}

async function downloadFile(
  url: string,
  folder: string,
  options: DownloadOptions,
): Promise<string> {
  const name = path.basename(new URL(url).pathname).replace(/[^\w.-]/g, '_') || 'model.gguf';
  const final = path.join(folder, name);
  if (fs.existsSync(final)) return final;
  const lock = `${final}.lock`;
  takeLock(lock, url);
  try {
    try {
      await fillPart(url, `${final}.part`, options);
    } catch (thrown) {
      // What is no model must not be resumed, nor stay; nor must what cannot be resumed.
      const is_model = !(thrown instanceof EngineError && thrown.code === 'not_gguf');
      if (!is_model || resumeOffset(`${final}.part`) === 0) {
        fs.rmSync(`${final}.part`, { force: true });
        fs.rmSync(`${final}.part.json`, { force: true });
      }
      throw thrown;
    }
    fs.renameSync(`${final}.part`, final);
    fs.rmSync(`${final}.part.json`, { force: true });
    return final;
  } finally {
    fs.rmSync(lock, { force: true });
  }
}

/** How much there is to go on behind: nothing where no note says of which file it is. */
function resumeOffset(part: string): number {
  if (!readNote(`${part}.json`)) return 0;
  return fs.statSync(part, { throwIfNoEntry: false })?.size ?? 0;
}

/** Goes on behind what an earlier run left, or anew where the file has changed since. */
async function resume(url: string, part: string, signal: AbortSignal) {
  const note = readNote(`${part}.json`);
  const offset = resumeOffset(part);
  try {
    return { stream: await HttpStream.open(url, { signal, offset, etag: note?.etag }), offset };
  } catch (thrown) {
    if (offset === 0 || !(thrown instanceof FileChanged)) throw thrown;
    fs.rmSync(`${part}.json`, { force: true });
    return { stream: await HttpStream.open(url, { signal }), offset: 0 };
  }
}

async function fillPart(
  url: string,
  part: string,
  { signal, onProgress }: DownloadOptions,
): Promise<void> {
  let { stream, offset } = await resume(url, part, signal);
  const { size_bytes, etag } = stream.head;
  const fd = openPart(part, offset);
  let is_checked = false;
  try {
    if (etag !== undefined) {
      fs.writeFileSync(`${part}.json`, JSON.stringify({ etag, size_bytes } satisfies PartNote));
    }
    for (let chunk = await stream.read(); chunk; chunk = await stream.read()) {
      for (let done = 0; done < chunk.length;) {
        const count = fs.writeSync(fd, chunk, done, chunk.length - done, offset);
        done += count;
        offset += count;
      }
      if (!is_checked && offset >= kMagic.length) {
        checkMagic(url, fd);
        is_checked = true;
      }
      if (offset > kMaxFileBytes) {
        throw new EngineError('storage', `"${url}" is longer than (${kMaxFileBytes}) bytes.`);
      }
      onProgress(offset, size_bytes);
    }
    if (!is_checked) checkMagic(url, fd);
    fs.fsyncSync(fd);
  } catch (thrown) {
    if (!(thrown instanceof Error && 'syscall' in thrown)) throw thrown;
    throw storageError(`The file "${part}" cannot be written`, thrown);
  } finally {
    fs.closeSync(fd);
    await stream.close();
  }
}

/** A server that never stops must not fill the disk; a wasm32 engine holds less than this. */
const kMaxFileBytes = 16 * 2 ** 30;
const kMagic = Buffer.from('GGUF');

/** Looks at the first bytes while the rest is still to come. */
function checkMagic(url: string, fd: number): void {
  const head = Buffer.alloc(256);
  const size = fs.readSync(fd, head, 0, head.length, 0);
  if (head.subarray(0, kMagic.length).equals(kMagic)) return;
  throw new EngineError(
    'not_gguf',
    `"${url}" is ${describe(head.subarray(0, size))}, no GGUF file.`,
  );
}

function describe(head: Buffer): string {
  const text = head.toString('latin1');
  if (head.length === 0) return 'empty';
  if (/^\s*<(!doctype|html|head|body)/i.test(text)) return 'an HTML page';
  if (text.startsWith('version https://git-lfs')) return 'a Git LFS pointer';
  return `something else (its first bytes are ${head.subarray(0, 4).toString('hex')})`;
}

function takeLock(lock: string, url: string): void {
  for (let attempt = 0; attempt < 2; attempt++) {
    makeFolder(path.dirname(lock));
    try {
      fs.writeFileSync(lock, String(process.pid), { flag: 'wx' });
      return;
    } catch (cause) {
      // Another process, whose download failed, may have removed the folder in between.
      if (attempt === 0 && systemCode(cause) === 'ENOENT') continue;
      if (!fs.existsSync(lock)) throw storageError(`The file "${lock}" cannot be written`, cause);
      const pid = readLock(lock);
      if (pid === undefined) break;
      if (isAlive(pid)) {
        throw new EngineError('busy', `"${url}" is being downloaded by another process (${pid}).`);
      }
      fs.rmSync(lock, { force: true });
    }
  }
  throw new EngineError('busy', `"${url}" is being downloaded by another process.`);
}

/** A lock is made first and filled a moment later; one that stays empty is nobody's. */
const kEmptyLockMs = 10_000;

/** The process in the lock, 0 where it says none; undefined while its owner is about to say it. */
function readLock(lock: string): number | undefined {
  const stat = fs.statSync(lock, { throwIfNoEntry: false });
  if (stat?.size === 0 && Date.now() - stat.mtimeMs < kEmptyLockMs) return undefined;
  return stat ? Number(fs.readFileSync(lock, 'utf8')) : 0;
}

function isAlive(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch (thrown) {
    return thrown instanceof Error && 'code' in thrown && thrown.code === 'EPERM';
  }
}

function readNote(file: string): PartNote | undefined {
  try {
    const note: unknown = JSON.parse(fs.readFileSync(file, 'utf8'));
    if (typeof note !== 'object' || note === null) return undefined;
    if (!('etag' in note) || typeof note.etag !== 'string') return undefined;
    return { etag: note.etag, size_bytes: 'size_bytes' in note ? Number(note.size_bytes) : -1 };
  } catch {
    return undefined;
  }
}

function openPart(part: string, offset: number): number {
  try {
    const fd = fs.openSync(part, offset > 0 ? 'r+' : 'w+');
    fs.ftruncateSync(fd, offset);
    return fd;
  } catch (cause) {
    throw storageError(`The file "${part}" cannot be written`, cause);
  }
}
