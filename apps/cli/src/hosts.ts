// Where a job runs: in this Node process, or in a page of Chromium that this process opens on its own
// little server. Both give the same result object.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { EngineError } from '../../../web/src/api/index.js';
import { isErrorCodeName } from '../../../web/src/wasm/error.js';
import { runJob, type Job, type JobEvent, type JobResult, type JobSource } from './job.js';
import { kRoot } from './models.js';
import type {} from './page.js';
import { startServer } from './server.js';

export type HostName = 'node' | 'chromium';

const kWebDist = path.join(kRoot, 'web/dist');
const kCliDist = path.join(kRoot, 'apps/cli/dist');

export function runOnHost(
  host: HostName,
  job: Job,
  tell: (event: JobEvent) => void,
  signal: AbortSignal,
): Promise<JobResult> {
  if (host === 'chromium') return runInChromium(job, tell, signal);
  return runJob(job, pathToFileURL(path.join(kWebDist, 'worker.mjs')).href, tell, signal);
}

/** Model files become URLs of the server; the names of split files are kept. */
function servedSource(source: JobSource): { source: JobSource; folders: Record<string, string> } {
  if (source.kind !== 'file') return { source, folders: {} };
  const folder = path.dirname(source.path);
  const url = `/model/${encodeURIComponent(path.basename(source.path))}`;
  return { source: { kind: 'url', url }, folders: { '/model/': folder } };
}

async function runInChromium(
  job: Job,
  tell: (event: JobEvent) => void,
  signal: AbortSignal,
): Promise<JobResult> {
  const served = servedSource(job.source);
  const server = await startServer({
    port: 0,
    folders: { '/nonstop/': kWebDist, '/cli/': kCliDist, ...served.folders },
    files: {},
  });
  const { source } = served;
  const absolute: JobSource =
    source.kind === 'url' ? { kind: 'url', url: new URL(source.url, server.url).href } : source;
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'nonstop-chromium-'));
  try {
    return await drivePage(
      `${server.url}cli/page.html`,
      { ...job, source: absolute },
      profile,
      tell,
      signal,
    );
  } finally {
    await server.close();
    fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
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
  const close = () => void context.close().catch(() => {});
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
    close();
  }
}

/** Headless, with a profile folder of its own. */
export async function launchChromium(profile: string, more: readonly string[] = []) {
  const executablePath = process.env['NONSTOP_CHROMIUM'] || '/usr/bin/chromium';
  if (!fs.existsSync(executablePath)) {
    throw new EngineError('not_found', `There is no Chromium at "${executablePath}".`);
  }
  try {
    const { chromium } = await import('playwright-core');
    return await chromium.launchPersistentContext(profile, {
      executablePath,
      headless: true,
      handleSIGINT: false,
      args: [
        ...['--no-sandbox', '--no-first-run', '--disable-quic', '--disable-sync'],
        ...['--disable-background-networking', '--disable-component-update'],
        ...more,
      ],
    });
  } catch (cause) {
    const text = cause instanceof Error ? (cause.message.split('\n')[0] ?? '') : String(cause);
    throw new EngineError('backend_failed', `Chromium did not start (${text}).`, { cause });
  }
}
