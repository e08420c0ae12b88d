// The benchmark in a page by itself, from the folder that --pack makes: plans, measures and gives the JSON of
// --json, without a program beside it. It shows its progress, posts each line of it to /log and the JSON to
// /done (or to the URL of the query's "done"); a server that takes no posts changes nothing.
//
// Query: models=a.gguf,b.gguf (below model/; default: those of contents.json), quick=1, only=NAMES, tokens=N.
import { EngineError } from '../../web/src/api/index.js';
import { describeModel, type BenchModel } from '../common/bench_model.js';
import type { Setup } from '../common/cases.js';
import { engineLoad } from '../common/engine_runner.js';
import { kMostHeaderBytes, parseHeader, type GgufHeader } from '../common/gguf.js';
import {
  formatFailures,
  formatOutcome,
  joinOutcomes,
  kRounds,
  toJson,
  toOutcome,
  type Outcome,
  type RunFacts,
} from '../common/outcome.js';
import { checkNames, type Measurement } from '../common/plan.js';
import { Progress } from '../common/progress.js';
import { takeSamples } from '../common/rounds.js';
import type { Runner } from '../common/runner.js';
import { startEngine } from './page_engine.js';
import { planWebgpu, webgpuContext, type WebgpuPlanOptions } from './plan.js';
import { GpuReadRunner } from './read_runner.js';

/** contents.json. */
export interface Contents {
  models: readonly string[];
  revision: RunFacts['revision'];
}

const query = new URLSearchParams(location.search);
const kLogUrl = '/log';
const kDoneUrl = query.get('done') ?? '/done';

async function post(url: string, body: string): Promise<void> {
  await fetch(url, { method: 'POST', body }).catch(() => {});
}

/** In order: a server would mix up what arrives at once. */
let posted: Promise<void> = Promise.resolve();

function log(text: string): void {
  const place = document.getElementById('log');
  place?.append(`${text}\n`);
  posted = posted.then(() => post(kLogUrl, text));
}

function listOf(name: string): string[] {
  return (query.get(name) ?? '').split(',').filter((word) => word !== '');
}

function readOptions(): WebgpuPlanOptions {
  const tokens = query.get('tokens');
  if (tokens !== null && !/^[1-9]\d*$/.test(tokens)) {
    throw new TypeError(`The query's "tokens" is a whole number, not (${tokens}).`);
  }
  return {
    quick: query.get('quick') === '1',
    peers: false,
    hosts: ['chromium'],
    only: listOf('only'),
    tokens: tokens === null ? undefined : Number(tokens),
    plan: query.get('plan') ?? undefined,
  };
}

async function readContents(): Promise<Contents> {
  const url = new URL('contents.json', location.href);
  const value: unknown = await (await fetch(url)).json();
  if (isContents(value)) return value;
  throw new TypeError(`The file "${url.href}" does not tell the contents.`);
}

function isContents(value: unknown): value is Contents {
  return typeof value === 'object' && value !== null && 'models' in value && 'revision' in value;
}

async function findModel(file: string): Promise<BenchModel> {
  const url = new URL(`model/${encodeURIComponent(file)}`, location.href).href;
  return describeModel(file.replace(/\.gguf$/, ''), url, await fetchHeader(url));
}

/** Reads until the header is whole, and no further. */
async function fetchHeader(url: string): Promise<GgufHeader> {
  const answered = await fetch(url);
  const reader = answered.body?.getReader();
  if (!answered.ok || !reader) throw new EngineError('not_found', `There is no "${url}".`);
  const bytes = new Uint8Array(kMostHeaderBytes);
  let size_bytes = 0;
  let tried_bytes = 2 ** 20;
  for (;;) {
    const { done, value = new Uint8Array() } = await reader.read();
    const piece = value.subarray(0, bytes.length - size_bytes);
    bytes.set(piece, size_bytes);
    size_bytes += piece.length;
    const is_last = done || size_bytes === bytes.length;
    if (size_bytes < tried_bytes && !is_last) continue;
    tried_bytes = 2 * size_bytes;
    const header = tryHeader(bytes.subarray(0, size_bytes), is_last);
    if (!header) continue;
    await reader.cancel();
    return header;
  }
}

function tryHeader(bytes: Uint8Array, is_last: boolean): GgufHeader | undefined {
  try {
    return parseHeader(bytes);
  } catch (thrown) {
    if (thrown instanceof EngineError && thrown.code === 'truncated' && !is_last) return undefined;
    throw thrown;
  }
}

function startSubject(setup: Setup, model: BenchModel, context_length: number): Promise<Runner> {
  if (setup.kernels) return GpuReadRunner.start();
  const source = { kind: 'url' as const, url: model.path };
  return startEngine({ source, load: engineLoad(setup, context_length) });
}

async function measureModel(
  model: BenchModel,
  measurements: readonly Measurement[],
  { quick, tokens }: WebgpuPlanOptions,
): Promise<Outcome> {
  const round_count = quick ? kRounds.quick : kRounds.whole;
  const stream = { write: (text: string) => log(text.trimEnd()) };
  const progress = new Progress(model.name, round_count, stream);
  const context_length = webgpuContext(model, tokens);
  const collected = await takeSamples(measurements, {
    round_count,
    signal: new AbortController().signal,
    start: (setup) => startSubject(setup, model, context_length),
    onStep: (step, to_come) => progress.next(step, to_come),
  });
  const outcome = toOutcome(model, collected, () => undefined);
  log(formatOutcome(outcome));
  for (const line of formatFailures(outcome)) log(line);
  return outcome;
}

async function run(): Promise<object> {
  const begin = new Date();
  const options = readOptions();
  const contents = await readContents();
  const names = query.has('models') ? listOf('models') : contents.models;
  const models: BenchModel[] = [];
  for (const name of names) models.push(await findModel(name));
  const everything = models.flatMap((model) => planWebgpu(model, { ...options, only: [] }));
  checkNames(options.only, everything);
  const outcomes: Outcome[] = [];
  for (const model of models) {
    outcomes.push(await measureModel(model, planWebgpu(model, options), options));
  }
  const facts: RunFacts = {
    ...{ bench: 'webgpu', begin, quick: options.quick, complete: true, models },
    revision: contents.revision,
    machine: { cores: navigator.hardwareConcurrency, system: navigator.userAgent },
    versions: { chromium: /Chrom(?:e|ium)\/(\S+)/.exec(navigator.userAgent)?.[1] ?? null },
  };
  return toJson(facts, joinOutcomes(outcomes));
}

async function result(): Promise<object> {
  try {
    return await run();
  } catch (thrown) {
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    log(`ERROR: ${message}`);
    return { error: message };
  }
}

const text = JSON.stringify(await result(), null, 1);
await posted;
await post(kDoneUrl, text);
