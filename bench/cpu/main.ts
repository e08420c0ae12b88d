// ./run bench cpu: plans, measures model by model, prints and writes the result.
import fs from 'node:fs';
import path from 'node:path';
import type { Arguments } from '../../apps/cli/src/parse.js';
import { EngineError } from '../../web/src/api/index.js';
import { printable } from '../../web/src/wasm/error.js';
import { describeSetup } from './cases.js';
import { describeMachine, loadAverage, readRevision } from './environment.js';
import { findModel, kAllModels, kQuickModels, type BenchModel } from './models.js';
import { checkPeers, peerVersions, readQuality } from './peers.js';
import { checkNames, planModel, type Measurement, type PlanOptions } from './plan.js';
import { formatDuration, Progress } from './progress.js';
import { makeRows, type Row } from './results.js';
import { takeSamples, type Failure } from './rounds.js';
import { Subjects } from './subjects.js';
import { formatRatios, formatRows } from './table.js';

const kSchemaVersion = 1;
const kRounds = { quick: 3, whole: 5 };
const kInterrupted = 130;

interface Plan {
  model: BenchModel;
  measurements: Measurement[];
}

interface Outcome {
  rows: Row[];
  failures: (Failure & { model: string })[];
  chromium: string | undefined;
}

export async function runBench(args: Arguments, signal: AbortSignal): Promise<number> {
  if (args.positional !== 'cpu') {
    const given = args.positional ?? 'nothing';
    throw new EngineError('invalid_argument', `The verb "bench" measures cpu, not (${given}).`);
  }
  const options = planOptions(args);
  const output = args.text('json');
  if (output !== undefined) checkWritable(output);
  if (options.peers) checkPeers();
  const plans = await makePlans(args, options, signal);
  const before = { date: new Date(), load: loadAverage(), revision: readRevision() };
  const outcome = await measure(plans, options, signal);
  print(outcome, output === '-');
  const seconds = (Date.now() - before.date.getTime()) / 1000;
  process.stderr.write(
    `${signal.aborted ? 'Stopped' : 'Done'} after ${formatDuration(seconds)}.\n`,
  );
  if (output !== undefined) {
    const facts = resultFacts(options, plans, before);
    const value = { ...facts, complete: !signal.aborted, ...resultRows(outcome, options) };
    write(output, `${JSON.stringify(value, null, 1)}\n`);
  }
  if (signal.aborted) return kInterrupted;
  return outcome.failures.length > 0 ? 1 : 0;
}

function planOptions(args: Arguments): PlanOptions {
  const host = args.text('host');
  const threads = args.number('threads');
  const build = args.text('build');
  const all = <T>(chosen: T | undefined, values: readonly T[]) =>
    chosen === undefined ? values : [chosen];
  return {
    quick: args.flag('quick'),
    peers: args.flag('peers'),
    hosts: all(host === 'node' || host === 'chromium' ? host : undefined, ['node', 'chromium']),
    threads: all(threads, [1, 2]),
    builds: all(build === 'simd' || build === 'relaxed' ? build : undefined, ['relaxed', 'simd']),
    only: (args.text('only') ?? '').split(/[\s,]+/).filter((name) => name !== ''),
  };
}

async function makePlans(
  args: Arguments,
  options: PlanOptions,
  signal: AbortSignal,
): Promise<Plan[]> {
  const chosen = args.text('model');
  const named = options.quick ? kQuickModels : kAllModels;
  const plans: Plan[] = [];
  for (const name of chosen === undefined ? named : [chosen]) {
    const model = await findModel(name, signal);
    plans.push({ model, measurements: planModel(model, { ...options, only: [] }) });
  }
  const everything = plans.flatMap(({ measurements }) => measurements);
  checkNames(options.only, everything);
  return plans.map(({ model }) => ({ model, measurements: planModel(model, options) }));
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

async function measure(
  plans: readonly Plan[],
  options: PlanOptions,
  signal: AbortSignal,
): Promise<Outcome> {
  const outcome: Outcome = { rows: [], failures: [], chromium: undefined };
  for (const plan of plans) {
    if (!signal.aborted && plan.measurements.length > 0) {
      await measureModel(plan, options, signal, outcome);
    }
  }
  return outcome;
}

async function measureModel(
  { model, measurements }: Plan,
  { quick }: PlanOptions,
  signal: AbortSignal,
  outcome: Outcome,
): Promise<void> {
  const round_count = quick ? kRounds.quick : kRounds.whole;
  const progress = new Progress(model.name, round_count, process.stderr);
  const subjects = new Subjects(model);
  try {
    const { series, failures } = await takeSamples(measurements, {
      round_count,
      signal,
      start: (setup) => subjects.start(setup),
      onStep: (step, to_come) => progress.next(step, to_come),
    });
    outcome.chromium ??= await subjects.chromiumVersion().catch(() => undefined);
    outcome.rows.push(...makeRows(model, series, readQuality()));
    outcome.failures.push(...failures.map((failure) => ({ ...failure, model: model.name })));
  } finally {
    progress.clear();
    await subjects.close();
  }
}

interface Before {
  date: Date;
  load: number[];
  revision: ReturnType<typeof readRevision>;
}

function resultFacts({ quick }: PlanOptions, plans: readonly Plan[], before: Before) {
  return {
    schema: kSchemaVersion,
    kind: 'nonstop bench cpu',
    date: before.date.toISOString(),
    seconds: Math.round((Date.now() - before.date.getTime()) / 1000),
    ...before.revision,
    quick,
    rounds: quick ? kRounds.quick : kRounds.whole,
    machine: { ...describeMachine(), load_before: before.load, load_after: loadAverage() },
    models: plans.map(({ model }) => ({
      name: model.name,
      size_bytes: model.size_bytes,
      weight_bytes_per_token: model.weight_bytes_per_token,
    })),
  };
}

function resultRows({ rows, failures, chromium }: Outcome, { peers }: PlanOptions) {
  return {
    versions: {
      node: process.version.slice(1),
      chromium: chromium ?? null,
      ...(peers ? peerVersions() : {}),
    },
    rows,
    failures,
  };
}

/** To stdout, unless the JSON goes there. */
function print({ rows, failures }: Outcome, to_stderr: boolean): void {
  const stream = to_stderr ? process.stderr : process.stdout;
  const ratios = formatRatios(rows);
  stream.write(`${formatRows(rows)}\n${ratios === '' ? '' : `\n${ratios}\n`}`);
  for (const { model, what, setup, message } of failures) {
    const text = `${model}, ${what}, ${describeSetup(setup)}: ${message}`;
    process.stderr.write(`FAILED: ${printable(text)}\n`);
  }
}
