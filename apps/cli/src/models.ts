// From what --model says to bytes: a name of the catalogue (tools/pins.json; set-up puts its file into
// .deps/models), a file, or a URL, which is downloaded once into the cache folder.
import fs from 'node:fs';
import path from 'node:path';
import { EngineError, toEngineError, type ErrorCodeName } from '../../../web/src/api/index.js';
import { checkUrl, schemeError } from '../../../web/src/storage/http_error.js';
import { cacheFolder, downloadModel, removeEmptyFolders, systemCode } from './download.js';
import type { JobSource } from './job.js';

export const kRoot = path.resolve(import.meta.dirname, '../../..');
export const kDefaultModel = 'smollm2-135m-instruct';

export interface CatalogueModel {
  name: string;
  path: string;
  size_bytes: number;
}

/** Undefined where there is none; a name or a folder that the system refuses is an error of storage. */
export function statFile(file: string): fs.Stats | undefined {
  try {
    return fs.statSync(file, { throwIfNoEntry: false });
  } catch (cause) {
    const sentence = `The file "${file}" cannot be reached (${systemCode(cause)}).`;
    throw new EngineError('storage', sentence, { cause });
  }
}

/** The models that have a name, in the order of the pins. */
export function readCatalogue(): CatalogueModel[] {
  const pins: unknown = JSON.parse(fs.readFileSync(path.join(kRoot, 'tools/pins.json'), 'utf8'));
  const models = typeof pins === 'object' && pins && 'models' in pins ? pins.models : undefined;
  if (typeof models !== 'object' || models === null) return [];
  return Object.entries(models).flatMap(([name, value]: [string, unknown]) => {
    if (typeof value !== 'object' || value === null) return [];
    if (!('file' in value) || typeof value.file !== 'string') return [];
    const size_bytes = 'size_bytes' in value ? Number(value.size_bytes) : -1;
    return [{ name, path: path.join(kRoot, '.deps/models', value.file), size_bytes }];
  });
}

export interface ResolvedModel {
  name: string;
  source: JobSource;
  /** The folder of the cache that holds it and nothing else; undefined for what is the user's. */
  cache_folder?: string;
}

export interface ResolveOptions {
  use_cache: boolean;
  signal: AbortSignal;
  onProgress: (loaded_bytes: number, total_bytes: number) => void;
}

export async function resolveModel(text: string, options: ResolveOptions): Promise<ResolvedModel> {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) return resolveUrl(text, options);
  const catalogue = readCatalogue();
  const known = catalogue.find((model) => model.name === text);
  const file = known?.path ?? path.resolve(text);
  const found = statFile(file);
  if (found?.isFile()) return { name: text, source: { kind: 'file', path: file } };
  // A pipe or a device would block or never end.
  if (found) throw new EngineError('not_found', `Model "${text}": "${file}" is not a file.`);
  if (known) {
    throw new EngineError(
      'not_found',
      `The model "${text}" is not set up yet; "./run --model ${text}" does it.`,
    );
  }
  const names = catalogue.map((model) => model.name).join(', ');
  throw new EngineError(
    'not_found',
    `There is no file "${text}", and no model of that name (${names}).`,
  );
}

async function resolveUrl(url: string, options: ResolveOptions): Promise<ResolvedModel> {
  checkUrl(url);
  const { protocol, pathname } = new URL(url);
  if (protocol !== 'http:' && protocol !== 'https:') throw schemeError(url);
  const name = path.basename(pathname) || url;
  if (!options.use_cache) return { name, source: { kind: 'url', url } };
  const file = await downloadModel(url, cacheFolder(), options);
  return { name, source: { kind: 'file', path: file }, cache_folder: path.dirname(file) };
}

/** What damaged bytes are refused with. What is only not supported would come again. */
const kDamage: readonly ErrorCodeName[] = [
  ...(['not_gguf', 'truncated', 'malformed', 'bad_weights'] as const),
  ...(['missing_metadata', 'missing_tensor', 'wrong_shape'] as const),
];

/** The error of a load; a cached model that turned out damaged is deleted, which the error says. */
export function forgetDamaged({ cache_folder }: ResolvedModel, thrown: unknown): EngineError {
  const error = toEngineError(thrown);
  if (cache_folder === undefined || !kDamage.includes(error.code)) return error;
  fs.rmSync(cache_folder, { recursive: true, force: true });
  removeEmptyFolders(cache_folder);
  const sentence = `${error.message} It was deleted from the cache; the next run downloads it anew.`;
  return new EngineError(error.code, sentence, { cause: error });
}
