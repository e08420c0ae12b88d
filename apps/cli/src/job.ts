// What the command line asks of the engine, as plain data, and the code that does it. The same code
// runs in Node and in a page of Chromium (page.ts), so the hosts cannot differ in what they do.
import {
  Engine,
  EngineError,
  type ChatMessage,
  type EngineInfo,
  type EngineStats,
  type GenerateOptions,
  type GenerateResult,
  type LoadOptions,
  type LoadProgress,
  type ModelSource,
  type PlanPart,
  type TopTokens,
} from '../../../web/src/api/index.js';

export type RequestData = Omit<
  GenerateOptions,
  'signal' | 'onPrefill' | 'messages' | 'prompt' | 'ids'
>;

export interface ScoreCase {
  ids: number[];
  continue: number[];
}

export type Task =
  | { verb: 'generate'; prompt: PromptData; request: RequestData }
  | { verb: 'score'; cases: ScoreCase[]; top_logprobs: number }
  | { verb: 'tokenize'; text: string; special: boolean }
  | { verb: 'detokenize'; ids: number[] }
  | { verb: 'plan'; plan_name: string; row_count: number; part: PlanPart };

export type PromptData =
  | { kind: 'chat'; text: string; system: string | undefined }
  | { kind: 'raw'; text: string }
  | { kind: 'ids'; ids: number[] };

/** A Blob cannot be handed to a page; files and URLs can. */
export type JobSource = Exclude<ModelSource, { kind: 'blobs' }>;

export interface Job {
  source: JobSource;
  model_name: string;
  load: Omit<LoadOptions, 'signal' | 'onProgress' | 'workerUrl'>;
  task: Task;
}

/** What is told while the job runs. */
export type JobEvent =
  | { kind: 'progress'; progress: LoadProgress }
  | { kind: 'ready'; load_ms: number }
  | { kind: 'note'; message: string }
  | { kind: 'text'; text: string };

export interface Surroundings {
  backend: string;
  reason: string;
  threads: number;
  load_ms: number;
  stats: EngineStats | null;
  adapter: EngineInfo['adapter'];
}

export type Outcome =
  | { verb: 'generate'; result: GenerateResult }
  | { verb: 'score'; cases: { steps: TopTokens[] }[] }
  | { verb: 'tokenize'; ids: number[]; pieces: string[] }
  | { verb: 'detokenize'; text: string }
  | { verb: 'plan'; text: string };

export interface JobResult {
  surroundings: Surroundings;
  outcome: Outcome;
}

export async function runJob(
  job: Job,
  worker_url: string,
  tell: (event: JobEvent) => void,
  signal: AbortSignal,
): Promise<JobResult> {
  await using engine = await Engine.load(job.source, {
    ...job.load,
    signal,
    onProgress: (progress) => tell({ kind: 'progress', progress }),
    workerUrl: worker_url,
  });
  const load_ms = performance.now();
  tell({ kind: 'ready', load_ms });
  const outcome = await runTask(engine, job, tell, signal);
  const { backend, reason, thread_count, adapter } = engine.info;
  const stats = job.load.headerOnly ? null : await engine.stats();
  const surroundings = { backend, reason, threads: thread_count, load_ms, stats, adapter };
  return { surroundings, outcome };
}

async function runTask(
  engine: Engine,
  job: Job,
  tell: (event: JobEvent) => void,
  signal: AbortSignal,
): Promise<Outcome> {
  const { task } = job;
  switch (task.verb) {
    case 'generate': {
      const prompt = choosePrompt(engine, job.model_name, task.prompt, tell);
      const generation = engine.generate({ ...task.request, ...prompt, signal });
      for await (const { text } of generation) if (text !== '') tell({ kind: 'text', text });
      return { verb: 'generate', result: await generation.result };
    }
    case 'score': {
      const cases = [];
      for (const { ids, continue: continued_ids } of task.cases) {
        const { top_logprobs } = task;
        cases.push({ steps: await engine.score({ ids, continued_ids, top_logprobs, signal }) });
      }
      return { verb: 'score', cases };
    }
    case 'tokenize': {
      const { special } = task;
      const options = { add_special: special, parse_special: special, signal };
      const ids = await engine.tokenize(task.text, options);
      return { verb: 'tokenize', ids, pieces: await engine.pieces(ids, { signal }) };
    }
    case 'detokenize':
      return { verb: 'detokenize', text: await engine.detokenize(task.ids, true) };
    case 'plan':
      return { verb: 'plan', text: await engine.plan(task.part, task.row_count, task.plan_name) };
  }
}

/** A base model has no template: it continues the text, and that is said. */
function choosePrompt(
  engine: Engine,
  model_name: string,
  prompt: PromptData,
  tell: (event: JobEvent) => void,
): Pick<GenerateOptions, 'prompt' | 'messages' | 'ids'> {
  if (prompt.kind === 'ids') return { ids: prompt.ids };
  if (prompt.kind === 'raw') return { prompt: prompt.text };
  if (engine.info.model.has_chat_template) {
    const messages: ChatMessage[] = [{ role: 'user', content: prompt.text }];
    if (prompt.system !== undefined) messages.unshift({ role: 'system', content: prompt.system });
    return { messages };
  }
  if (prompt.system !== undefined) {
    throw new EngineError(
      'no_template',
      `The model "${model_name}" has no chat template, so it has no place for a system message ` +
        '(--template gives it one).',
    );
  }
  tell({
    kind: 'note',
    message: `The model "${model_name}" is a base model (no chat template): it continues the text.`,
  });
  return { prompt: prompt.text };
}
