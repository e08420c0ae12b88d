// ./run serve: the chat page, the package and the models that are set up, on one local server.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Engine, EngineError } from '../../../web/src/api/index.js';
import { printable } from '../../../web/src/wasm/error.js';
import { splitUrls } from './download.js';
import { forgetDamaged, kDefaultModel, kRoot, readCatalogue, resolveModel } from './models.js';
import type { Arguments } from './parse.js';
import { ProgressLine } from './report.js';
import { startServer } from './server.js';

const kDefaultPort = 8000;
const kEngineWorker = pathToFileURL(path.join(kRoot, 'web/dist/worker.mjs')).href;

export interface ServedModel {
  name: string;
  url: string;
  size_bytes: number;
}

interface OfferedModel {
  name: string;
  /** Several of a split model, in order. */
  paths: string[];
}

/** What --model names, then what else is there of the catalogue. */
async function offeredModels(args: Arguments, signal: AbortSignal): Promise<OfferedModel[]> {
  const wanted = args.text('model');
  const there = readCatalogue().filter((model) => fs.existsSync(model.path));
  const named = there.find((model) => model.name === (wanted ?? kDefaultModel));
  const others = there
    .filter((model) => model !== named)
    .map((model) => ({ name: model.name, paths: [model.path] }));
  if (named) return [{ name: named.name, paths: [named.path] }, ...others];
  return wanted === undefined ? others : [await findModel(args, wanted, signal), ...others];
}

/** A file, or a URL that is downloaded first; either must have the header of a model. */
async function findModel(
  args: Arguments,
  text: string,
  signal: AbortSignal,
): Promise<OfferedModel> {
  const line = new ProgressLine('Downloading', !args.flag('json'));
  const resolved = await resolveModel(text, {
    use_cache: true,
    signal,
    onProgress: (loaded_bytes, total_bytes) => line.update({ loaded_bytes, total_bytes }),
  }).finally(() => line.clear());
  const { source, name } = resolved;
  if (source.kind !== 'file') throw new EngineError('internal', `"${text}" gave no file.`);
  try {
    const engine = await Engine.load(source, {
      headerOnly: true,
      signal,
      workerUrl: kEngineWorker,
    });
    await engine.close();
  } catch (thrown) {
    throw forgetDamaged(resolved, thrown);
  }
  return { name: path.basename(name), paths: splitUrls(source.path) };
}

/** Each has a folder of its own: files of one name, and the parts of a split model, keep theirs. */
function servedModels(offered: readonly OfferedModel[]) {
  const files: Record<string, string> = {};
  const models = offered.map(({ name, paths }, index): ServedModel => {
    for (const file of paths) files[`/models/${index}/${path.basename(file)}`] = file;
    const url = `/models/${index}/${encodeURIComponent(path.basename(paths[0] ?? ''))}`;
    const sizes = paths.map((file) => fs.statSync(file).size);
    return { name, url, size_bytes: sizes.reduce((sum, size) => sum + size, 0) };
  });
  return { models, files };
}

export async function serve(args: Arguments, signal: AbortSignal): Promise<number> {
  const { models, files } = servedModels(await offeredModels(args, signal));
  const server = await startServer({
    port: args.number('port') ?? kDefaultPort,
    folders: {
      '/': path.join(kRoot, 'apps/chat/dist'),
      '/nonstop/': path.join(kRoot, 'web/dist'),
    },
    files,
    json: { '/models.json': models },
  });
  announce(server.url, models, args.flag('json'));
  if (args.flag('open')) openBrowser(server.url);
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  await server.close();
  return 0;
}

function announce(url: string, models: readonly ServedModel[], as_json: boolean): void {
  process.stdout.write(`${as_json ? JSON.stringify({ url }) : url}\n`);
  if (as_json) return;
  process.stderr.write(
    `Serving the chat page; Ctrl-C stops. Models: ${printable(names(models))}.\n`,
  );
}

function names(models: readonly ServedModel[]): string {
  return models.map((model) => model.name).join(', ') || 'none';
}

function openBrowser(url: string): void {
  const commands: Partial<Record<NodeJS.Platform, string>> = { darwin: 'open', win32: 'explorer' };
  const child = spawn(commands[process.platform] ?? 'xdg-open', [url], {
    stdio: 'ignore',
    detached: true,
  });
  child.on('error', () => process.stderr.write(`The browser could not be opened; go to ${url}\n`));
  child.unref();
}
