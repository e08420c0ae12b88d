// Where a job runs: in this Node process, or in a page of Chromium that this process opens on its own
// little server. Both give the same result object.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { BrowserContext } from 'playwright-core';
import { EngineError, toEngineError } from '../../../web/src/api/index.js';
import { sourceName } from '../../../web/src/storage/source.js';
import { isErrorCodeName } from '../../../web/src/wasm/error.js';
import { withTimeout } from '../../../web/src/wasm/platform.js';
import { splitUrls } from './download.js';
import { runJob, type Job, type JobEvent, type JobResult, type JobSource } from './job.js';
import { kRoot } from './models.js';
import type {} from './page.js';
import { startServer, type RemoteFile } from './server.js';

export type HostName = 'node' | 'chromium';

const kWebDist = path.join(kRoot, 'web/dist');
const kCliDist = path.join(kRoot, 'apps/cli/dist');
const kCloseLimitMs = 10_000;

export function runOnHost(
  host: HostName,
  job: Job,
  tell: (event: JobEvent) => void,
  signal: AbortSignal,
): Promise<JobResult> {
  if (host === 'chromium') return runInChromium(job, tell, signal);
  return runJob(job, pathToFileURL(path.join(kWebDist, 'worker.mjs')).href, tell, signal);
}

export interface ServedModel {
  /** Below the server's URL. */
  path: string;
  files: Record<string, string>;
  remote: RemoteFile | undefined;
}

/** The page reads every model from our server, under its own name: its files and nothing beside them. */
export function servedModel(source: JobSource): ServedModel {
  if (source.kind === 'file') {
    const files: Record<string, string> = {};
    for (const file of splitUrls(source.path)) files[`/model/${path.basename(file)}`] = file;
    const name = encodeURIComponent(path.basename(source.path));
    return { path: `model/${name}`, files, remote: undefined };
  }
  const name = new URL(source.url).pathname.replace(/^.*\//, '');
  return { path: `remote/${name}`, files: {}, remote: { prefix: '/remote/', url: source.url } };
}

async function runInChromium(
  job: Job,
  tell: (event: JobEvent) => void,
  signal: AbortSignal,
): Promise<JobResult> {
  const model = servedModel(job.source);
  const server = await startServer({
    port: 0,
    folders: { '/nonstop/': kWebDist, '/cli/': kCliDist },
    files: model.files,
    remote: model.remote,
  });
  const url = server.url + model.path;
  const profile = makeProfile();
  try {
    return await drivePage(
      `${server.url}cli/page.html`,
      { ...job, source: { kind: 'url', url } },
      profile,
      tell,
      signal,
    );
  } catch (thrown) {
    const { code, message } = toEngineError(thrown);
    throw new EngineError(code, message.replaceAll(url, sourceName(job.source)), { cause: thrown });
  } finally {
    await server.close();
    removeProfile(profile);
  }
}

async function drivePage(
  url: string,
  job: Job,
  profile: string,
  tell: (event: JobEvent) => void,
  signal: AbortSignal,
): Promise<JobResult> {
  // Without it Chromium gives no software adapter; on a machine with a GPU it changes nothing.
  const more = job.load.device === 'webgpu' ? ['--enable-unsafe-webgpu'] : [];
  const context = await launchChromium(profile, more);
  try {
    const page = await context.newPage();
    const crashed = new Promise<never>((_, reject) => {
      const fail = (what: string) => reject(new EngineError('backend_failed', what));
      page.on('crash', () => fail('The page of Chromium crashed.'));
      context.on('close', () => fail('Chromium was closed.'));
    });
    crashed.catch(() => {});
    await page.exposeFunction('nonstopTell', tell);
    await page.goto(url);
    const stop = () => void page.evaluate(() => nonstopStop()).catch(() => {});
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    const result = await Promise.race([page.evaluate((data) => nonstopRun(data), job), crashed]);
    if (!('error' in result)) return result;
    const { code, message } = result.error;
    throw new EngineError(isErrorCodeName(code) ? code : 'internal', message);
  } finally {
    await closeChromium(context);
  }
}

/** A folder for launchChromium. */
export function makeProfile(): string {
  return fs.mkdtempSync(path.join(os.tmpdir(), 'nonstop-chromium-'));
}

/** Only after closeChromium: Chromium writes to it until its end. */
export function removeProfile(profile: string): void {
  removeSocket(profile);
  fs.rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
}

/** A Chromium that was killed also leaves the folder of its socket; its profile says which. */
function removeSocket(profile: string): void {
  try {
    const folder = path.dirname(fs.readlinkSync(path.join(profile, 'SingletonSocket')));
    if (path.basename(folder).startsWith('org.chromium.')) fs.rmSync(folder, { recursive: true });
  } catch {
    // It has none.
  }
}

/** Resolves when Chromium has ended; one that hangs is left to the end of this program. */
export async function closeChromium(context: BrowserContext): Promise<void> {
  const sentence = `Chromium did not end within ${kCloseLimitMs} ms.`;
  await withTimeout(context.close(), kCloseLimitMs, sentence).catch(() => {});
}

/**
 * Headless, with a profile folder of its own. NONSTOP_CHROMIUM names another program than Debian's,
 * NONSTOP_CHROMIUM_FLAGS more flags.
 */
export async function launchChromium(
  profile: string,
  more: readonly string[] = [],
): Promise<BrowserContext> {
  const executablePath = process.env['NONSTOP_CHROMIUM'] || '/usr/bin/chromium';
  if (!fs.existsSync(executablePath)) {
    throw new EngineError('not_found', `There is no Chromium at "${executablePath}".`);
  }
  try {
    const { chromium } = await import('playwright-core');
    const context = await chromium.launchPersistentContext(profile, {
      executablePath,
      headless: true,
      // The page is asked to stop, and closed when it has.
      ...{ handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false },
      args: [
        ...['--no-sandbox', '--no-first-run', '--disable-quic', '--disable-sync'],
        ...['--disable-background-networking', '--disable-component-update'],
        ...more,
        ...(process.env['NONSTOP_CHROMIUM_FLAGS'] ?? '').split(/\s+/).filter((flag) => flag !== ''),
      ],
    });
    // A program that ends at once (a reader that left, the second Ctrl-C) ends Chromium before this.
    const remove = () => removeProfile(profile);
    process.once('exit', remove);
    context.once('close', () => process.off('exit', remove));
    return context;
  } catch (cause) {
    const text = cause instanceof Error ? (cause.message.split('\n')[0] ?? '') : String(cause);
    throw new EngineError('backend_failed', `Chromium did not start (${text}).`, { cause });
  }
}
