// ./run bench: plans, measures model by model, prints and writes the result. What is measured each
// benchmark says.
import fs from 'node:fs';
import path from 'node:path';
import type { Arguments } from '../../apps/cli/src/parse.js';
import { EngineError } from '../../web/src/api/index.js';
import { printable } from '../../web/src/wasm/error.js';
import { kShapeModels, type BenchModel } from './bench_model.js';
import { describeMachine, loadAverage, readRevision } from './environment.js';
import { findModel } from './models.js';
import {
  formatFailures,
  formatOutcome,
  joinOutcomes,
  kRounds,
  secondsSince,
  toJson,
  toOutcome,
  type Outcome,
  type RunFacts,
} from './outcome.js';
import { checkPeers, peerVersions, readQuality } from './peers.js';
import { checkNames, type Measurement, type PlanOptions } from './plan.js';
import { formatDuration, Progress } from './progress.js';
import { takeSamples } from './rounds.js';
import { Subjects, type SubjectKinds } from './subjects.js';

export interface Benchmark extends SubjectKinds {
  name: RunFacts['bench'];
  models: { quick: readonly string[]; whole: readonly string[] };
  hosts: PlanOptions['hosts'];
  /** Options of the other benchmarks. */
  refused_options: readonly string[];
  plan(model: BenchModel, options: PlanOptions, args: Arguments): Measurement[];
  context(model: BenchModel, args: Arguments): number;
}

interface Plan {
  model: BenchModel;
  context_length: number;
  measurements: Measurement[];
}

interface Before {
  begin: Date;
  load: number[];
  revision: RunFacts['revision'];
}

const kInterrupted = 130;

export async function runBenchmark(
  bench: Benchmark,
  args: Arguments,
  signal: AbortSignal,
): Promise<number> {
  checkOptions(bench, args);
  const options = planOptions(bench, args);
  const output = args.text('json');
  if (output !== undefined) checkWritable(output);
  if (options.peers) checkPeers();
  const plans = await makePlans(bench, args, options, signal);
  const before: Before = { begin: new Date(), load: loadAverage(), revision: readRevision() };
  const { outcome, versions } = await measure(bench, plans, options, signal);
  print(outcome, output === '-');
  const duration = formatDuration(secondsSince(before.begin));
  process.stderr.write(`${signal.aborted ? 'Stopped' : 'Done'} after ${duration}.\n`);
  if (output !== undefined) {
    const facts = runFacts(bench, plans, options, before, versions);
    write(
      output,
      `${JSON.stringify(toJson({ ...facts, complete: !signal.aborted }, outcome), null, 1)}\n`,
    );
  }
  if (signal.aborted) return kInterrupted;
  return outcome.failures.length > 0 ? 1 : 0;
}

function checkOptions({ name, refused_options }: Benchmark, args: Arguments): void {
  for (const option of refused_options) {
    if (!args.has(option)) continue;
    const sentence = `The option "--${option}" does not belong to "bench ${name}".`;
    throw new EngineError('invalid_argument', sentence);
  }
}

function planOptions({ hosts }: Benchmark, args: Arguments): PlanOptions {
  const host = args.text('host');
  return {
    quick: args.flag('quick'),
    peers: args.flag('peers'),
    hosts: host === 'node' || host === 'chromium' ? [host] : hosts,
    only: (args.text('only') ?? '').split(/[\s,]+/).filter((name) => name !== ''),
  };
}

/** The one that is asked for, or those of the benchmark; with --shapes also the larger shapes. */
export function modelNames({ models }: Pick<Benchmark, 'models'>, args: Arguments): string[] {
  const chosen = args.text('model');
  const names = chosen === undefined ? models[args.flag('quick') ? 'quick' : 'whole'] : [chosen];
  return [...new Set([...names, ...(args.flag('shapes') ? kShapeModels : [])])];
}

async function makePlans(
  bench: Benchmark,
  args: Arguments,
  options: PlanOptions,
  signal: AbortSignal,
): Promise<Plan[]> {
  const models: BenchModel[] = [];
  for (const name of modelNames(bench, args)) models.push(await findModel(name, signal));
  const all = models.flatMap((model) => bench.plan(model, { ...options, only: [] }, args));
  checkNames(options.only, all);
  return models.map((model) => ({
    model,
    context_length: bench.context(model, args),
    measurements: bench.plan(model, options, args),
  }));
}

/** Before an hour of measuring, not after it. */
function checkWritable(output: string): void {
  if (output === '-') return;
  const folder = path.dirname(path.resolve(output));
  try {
    fs.accessSync(folder, fs.constants.W_OK);
  } catch (cause) {
    throw new EngineError('storage', `The folder "${folder}" cannot be written.`, { cause });
  }
}

function write(output: string, text: string): void {
  if (output === '-') {
    process.stdout.write(text);
    return;
  }
  try {
    fs.writeFileSync(output, text);
  } catch (cause) {
    throw new EngineError('storage', `The file "${output}" cannot be written.`, { cause });
  }
}

interface Measured {
  outcome: Outcome;
  versions: RunFacts['versions'];
}

async function measure(
  bench: Benchmark,
  plans: readonly Plan[],
  options: PlanOptions,
  signal: AbortSignal,
): Promise<Measured> {
  const outcomes: Outcome[] = [];
  let chromium: string | undefined;
  for (const plan of plans) {
    if (signal.aborted || plan.measurements.length === 0) continue;
    const subjects = new Subjects(plan.model, plan.context_length, bench);
    try {
      outcomes.push(await measureModel(plan, subjects, options, signal));
      chromium ??= await subjects.chromiumVersion().catch(() => undefined);
    } finally {
      await subjects.close();
    }
  }
  const node = process.version.slice(1);
  const peers = options.peers ? peerVersions() : {};
  const versions = { node, chromium: chromium ?? null, ...peers };
  return { outcome: joinOutcomes(outcomes), versions };
}

async function measureModel(
  { model, measurements }: Plan,
  subjects: Subjects,
  { quick }: PlanOptions,
  signal: AbortSignal,
): Promise<Outcome> {
  const round_count = quick ? kRounds.quick : kRounds.whole;
  const progress = new Progress(model.name, round_count, process.stderr);
  try {
    const collected = await takeSamples(measurements, {
      round_count,
      signal,
      start: (setup) => subjects.start(setup),
      onStep: (step, to_come) => progress.next(step, to_come),
    });
    return toOutcome(model, collected, readQuality());
  } finally {
    progress.clear();
  }
}

function runFacts(
  { name }: Benchmark,
  plans: readonly Plan[],
  { quick }: PlanOptions,
  { begin, load, revision }: Before,
  versions: RunFacts['versions'],
): Omit<RunFacts, 'complete'> {
  return {
    ...{ bench: name, begin, quick, revision, versions },
    machine: { ...describeMachine(), load_before: load, load_after: loadAverage() },
    models: plans.map(({ model }) => model),
  };
}

/** To stdout, unless the JSON goes there. */
function print(outcome: Outcome, to_stderr: boolean): void {
  const stream = to_stderr ? process.stderr : process.stdout;
  stream.write(`${formatOutcome(outcome)}\n`);
  for (const line of formatFailures(outcome)) process.stderr.write(`${printable(line)}\n`);
}
