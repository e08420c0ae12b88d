// The verbs that load a model: generate, score, tokenize, plan. Arguments become a job, the job runs on
// its host, and the result is printed.
import fs from 'node:fs';
import { addAbortSignal } from 'node:stream';
import { EngineError, type LoadOptions, type TopTokens } from '../../../web/src/api/index.js';
import { printable } from '../../../web/src/wasm/error.js';
import { runOnHost, type HostName } from './hosts.js';
import type { Job, JobEvent, JobResult, PromptData, RequestData, ScoreCase, Task } from './job.js';
import { statFile, forgetDamaged, kDefaultModel, resolveModel } from './models.js';
import type { Arguments } from './parse.js';
import { figuresLine, ProgressLine, replyObject } from './report.js';

const kDefaultMaxTokens = 512;
const kDefaultScoreLogprobs = 5;

export async function runModelVerb(args: Arguments, signal: AbortSignal): Promise<number> {
  const host: HostName = args.text('host') === 'chromium' ? 'chromium' : 'node';
  const model_name = args.text('model') ?? kDefaultModel;
  const as_json = args.flag('json');
  const task = await makeTask(args, signal);
  const load = loadOptions(args, task);
  const download = new ProgressLine('Downloading', !as_json);
  const resolved = await resolveModel(model_name, {
    use_cache: !args.flag('no-cache'),
    signal,
    onProgress: (loaded_bytes, total_bytes) => download.update({ loaded_bytes, total_bytes }),
  });
  download.clear();
  const job: Job = { source: resolved.source, model_name, load, task };
  const tell = makeTeller(as_json, args.flag('raw'));
  const result = await runOnHost(host, job, tell, signal).catch((thrown: unknown) => {
    throw forgetDamaged(resolved, thrown);
  });
  if (as_json) process.stdout.write(`${JSON.stringify(jsonObject(model_name, host, result))}\n`);
  else printResult(model_name, result);
  return isAborted(result) ? 130 : 0;
}

function isAborted({ outcome }: JobResult): boolean {
  return outcome.verb === 'generate' && outcome.result.finish_reason === 'abort';
}

/** Streams the reply, and says on stderr what takes long or is worth knowing. */
function makeTeller(as_json: boolean, quiet_notes: boolean): (event: JobEvent) => void {
  const line = new ProgressLine('Loading', !as_json);
  return (event) => {
    if (as_json) return;
    if (event.kind === 'progress') line.update(event.progress);
    else line.clear();
    if (event.kind === 'note' && !quiet_notes)
      process.stderr.write(`${printable(event.message)}\n`);
    if (event.kind === 'text') process.stdout.write(event.text);
  };
}

function loadOptions(args: Arguments, task: Task): Job['load'] {
  const load: LoadOptions = {
    headerOnly: task.verb !== 'generate' && task.verb !== 'score',
    device: oneOf(args.text('device'), ['auto', 'cpu', 'webgpu']) ?? 'auto',
    kv: oneOf(args.text('kv'), ['f16', 'f32']) ?? 'f16',
    activations: oneOf(args.text('activations'), ['q8', 'f32']) ?? 'q8',
    contextLength: args.number('context') ?? 0,
    prefillChunk: args.number('prefill-chunk') ?? 0,
    reference: args.flag('backend-reference'),
    plan: args.text('plan') ?? '',
  };
  const threads = args.number('threads');
  const build = oneOf(args.text('build'), ['simd', 'relaxed']);
  const template = args.text('template');
  if (threads !== undefined) load.threads = threads;
  if (build !== undefined) load.build = build;
  if (template !== undefined) load.chatTemplate = readText(template);
  return load;
}

function oneOf<T extends string>(text: string | undefined, values: readonly T[]): T | undefined {
  return values.find((value) => value === text);
}

const kMaxTextBytes = 64 * 2 ** 20;

function readText(file: string): string {
  const found = statFile(file);
  if (found && !found.isFile()) throw new EngineError('not_found', `"${file}" is not a file.`);
  if (found && found.size > kMaxTextBytes) {
    throw new EngineError(
      'invalid_argument',
      `The file "${file}" has (${found.size}) bytes, the limit is (${kMaxTextBytes}).`,
    );
  }
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (cause) {
    throw new EngineError('not_found', `The file "${file}" cannot be read.`, { cause });
  }
}

async function makeTask(args: Arguments, signal: AbortSignal): Promise<Task> {
  switch (args.verb) {
    case 'score':
      return {
        verb: 'score',
        cases: scoreCases(args),
        top_logprobs: args.number('logprobs') ?? kDefaultScoreLogprobs,
      };
    case 'tokenize': {
      const ids = args.ids('ids');
      if (ids) return { verb: 'detokenize', ids };
      return {
        verb: 'tokenize',
        text: await promptText(args, signal),
        special: !args.flag('no-special'),
      };
    }
    case 'plan':
      return {
        verb: 'plan',
        plan_name: args.text('plan') ?? '',
        row_count: args.number('rows') ?? 1,
        part: oneOf(args.text('what'), ['graph', 'steps', 'memory']) ?? 'steps',
      };
    default:
      return {
        verb: 'generate',
        prompt: await promptData(args, signal),
        request: requestData(args),
      };
  }
}

async function promptText(args: Arguments, signal: AbortSignal): Promise<string> {
  const text = args.positional ?? '';
  return text === '-' ? readStdin(signal) : text;
}

/** Until its end; a stop, or a text without end, ends the wait. */
async function readStdin(signal: AbortSignal): Promise<string> {
  if (fs.fstatSync(0).isDirectory()) {
    throw new EngineError('not_found', 'Standard input is a folder, not a text.');
  }
  const chunks: Buffer[] = [];
  let size_bytes = 0;
  for await (const chunk of addAbortSignal(signal, process.stdin)) {
    const bytes = Buffer.from(chunk);
    chunks.push(bytes);
    size_bytes += bytes.length;
    if (size_bytes <= kMaxTextBytes) continue;
    const sentence = `Standard input has more than (${kMaxTextBytes}) bytes, the limit.`;
    throw new EngineError('invalid_argument', sentence);
  }
  return Buffer.concat(chunks).toString('utf8');
}

async function promptData(args: Arguments, signal: AbortSignal): Promise<PromptData> {
  const ids = args.ids('ids');
  const system = args.text('system');
  if (ids !== undefined) return { kind: 'ids', ids };
  const text = await promptText(args, signal);
  return args.flag('raw') ? { kind: 'raw', text } : { kind: 'chat', text, system };
}

function requestData(args: Arguments): RequestData {
  const request: RequestData = {
    max_tokens: args.number('max-tokens') ?? kDefaultMaxTokens,
    top_logprobs: args.number('logprobs') ?? 0,
    ignore_eos: args.flag('ignore-eos'),
    stop: args.texts('stop'),
    logit_bias: sumBiases(args.pairs('logit-bias')),
  };
  const names = [
    ...(['temperature', 'top_k', 'top_p', 'min_p', 'repeat_penalty'] as const),
    ...(['presence_penalty', 'frequency_penalty', 'seed'] as const),
  ];
  for (const name of names) {
    const value = args.number(name.replace('_', '-'));
    if (value !== undefined) request[name] = value;
  }
  return request;
}

/** Several biases of one token add up, as in llama.cpp. */
function sumBiases(pairs: readonly (readonly [id: number, bias: number])[]) {
  const sums: Record<number, number> = {};
  for (const [id, bias] of pairs) sums[id] = (sums[id] ?? 0) + bias;
  return sums;
}

function scoreCases(args: Arguments): ScoreCase[] {
  const file = args.text('cases');
  const ids = args.ids('ids');
  if (file !== undefined) return parseCases(file, readText(file));
  const continued = args.ids('continue');
  if (!ids || !continued) {
    throw new EngineError('invalid_argument', 'The verb "score" needs --ids and --continue.');
  }
  return [{ ids, continue: continued }];
}

function parseCases(file: string, text: string): ScoreCase[] {
  const wrong = () =>
    new EngineError('invalid_argument', `The file "${file}" is no JSON list of {ids, continue}.`);
  const isIds = (value: unknown): value is number[] =>
    Array.isArray(value) && value.every((id) => Number.isInteger(id));
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    throw wrong();
  }
  if (!Array.isArray(list)) throw wrong();
  return list.map((entry: unknown) => {
    if (typeof entry !== 'object' || entry === null) throw wrong();
    if (!('ids' in entry && 'continue' in entry)) throw wrong();
    if (!isIds(entry.ids) || !isIds(entry.continue)) throw wrong();
    return { ids: entry.ids, continue: entry.continue };
  });
}

function jsonObject(model: string, host: string, result: JobResult): Record<string, unknown> {
  const { outcome, surroundings } = result;
  const where = { model, host, backend: surroundings.backend, threads: surroundings.threads };
  switch (outcome.verb) {
    case 'generate':
      return replyObject(model, host, result);
    case 'score': {
      const [only] = outcome.cases;
      if (outcome.cases.length === 1 && only) return { steps: only.steps, ...where };
      return { cases: outcome.cases, ...where };
    }
    case 'tokenize':
      return { ids: outcome.ids, pieces: outcome.pieces, model };
    case 'detokenize':
      return { text: outcome.text, model };
    case 'plan':
      return { text: outcome.text, model };
  }
}

function printResult(model: string, { surroundings, outcome }: JobResult): void {
  switch (outcome.verb) {
    case 'generate':
      process.stdout.write('\n');
      process.stderr.write(`${printable(figuresLine(model, surroundings, outcome.result))}\n`);
      return;
    case 'score':
      outcome.cases.forEach(({ steps }, i) => {
        if (outcome.cases.length > 1) process.stdout.write(`case ${i}\n`);
        steps.forEach((step, index) => process.stdout.write(`${scoreLine(index, step)}\n`));
      });
      return;
    case 'tokenize':
      process.stdout.write(tokenLines(outcome));
      return;
    case 'plan':
      // Its lines are ours; names in them are the model's.
      process.stdout.write(`${outcome.text.trimEnd().split('\n').map(printable).join('\n')}\n`);
      return;
    case 'detokenize':
      process.stdout.write(outcome.text.endsWith('\n') ? outcome.text : `${outcome.text}\n`);
  }
}

/** All lines in one text: a write for each would keep Ctrl-C waiting. */
function tokenLines({ ids, pieces }: { ids: number[]; pieces: string[] }): string {
  return ids.map((id, i) => `${id}\t${printable(JSON.stringify(pieces[i] ?? ''))}\n`).join('');
}

function scoreLine(index: number, { top_ids, top_logprobs }: TopTokens): string {
  const best = top_ids.map((id, i) => `${id} ${(top_logprobs[i] ?? NaN).toFixed(4)}`);
  return `${index}\t${best.join('\t')}`;
}
