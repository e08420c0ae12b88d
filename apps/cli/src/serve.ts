// ./run serve: the chat page, the package and the models that are set up, on one local server.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { EngineError } from '../../../web/src/api/index.js';
import { kDefaultModel, kRoot, readCatalogue } from './models.js';
import type { Arguments } from './parse.js';
import { startServer } from './server.js';

const kDefaultPort = 8000;

export interface ServedModel {
  name: string;
  url: string;
  size_bytes: number;
}

/** The models that the page can offer: what is there of the catalogue, and a file of --model. */
function servedModels(wanted: string): { models: ServedModel[]; files: Record<string, string> } {
  const found = readCatalogue().filter((model) => fs.existsSync(model.path));
  const named = found.find((model) => model.name === wanted);
  const others = found.filter((model) => model !== named);
  const first = named ?? localModel(wanted);
  const all = first ? [first, ...others] : others;
  const files: Record<string, string> = {};
  const models = all.map((model) => {
    const url = `/models/${path.basename(model.path)}`;
    files[url] = model.path;
    return { name: model.name, url, size_bytes: fs.statSync(model.path).size };
  });
  return { models, files };
}

function localModel(text: string) {
  if (fs.existsSync(text)) {
    return { name: path.basename(text), path: path.resolve(text), size_bytes: -1 };
  }
  if (text === kDefaultModel) return undefined;
  throw new EngineError('not_found', `There is no file "${text}", and no model of that name.`);
}

export async function serve(args: Arguments, signal: AbortSignal): Promise<number> {
  const { models, files } = servedModels(args.text('model') ?? kDefaultModel);
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
  process.stderr.write(`Serving the chat page; Ctrl-C stops. Models: ${names(models)}.\n`);
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
