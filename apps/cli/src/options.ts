// The command line as one table: parsing, checks, errors and the help text all come from it.
// Names are a contract (docs/command-line.md); add, never rename.

export const kVerbs = {
  generate: 'reply to a prompt (the default: ./run "prompt")',
  serve: 'serve the chat page (the default without a prompt)',
  score: 'distributions along a given continuation',
  tokenize: 'text to ids, or with --ids ids to text',
  plan: "dump a model's graph, steps or memory plan",
  bench: 'measure speed: "bench cpu", "bench webgpu" (docs/benchmarks.md)',
} as const;
export type Verb = keyof typeof kVerbs;

export interface OptionRow {
  name: string;
  kind: 'flag' | 'text' | 'integer' | 'number' | 'choice' | 'ids' | 'bias';
  /** What stands for the value in the help text. */
  value?: string;
  choices?: readonly string[];
  min?: number;
  max?: number;
  /** A text that may be empty; others may not. */
  may_be_empty?: true;
  repeat?: true;
  group: 'Model' | 'Reply' | 'Prompt' | 'Output' | 'Verbs' | 'Server';
  verbs: readonly Verb[];
  help: string;
}

const kAll: readonly Verb[] = ['generate', 'serve', 'score', 'tokenize', 'plan'];
const kModelVerbs: readonly Verb[] = ['generate', 'score', 'tokenize', 'plan'];
const kEngine: readonly Verb[] = ['generate', 'score'];
const kGenerate: readonly Verb[] = ['generate'];
const kBench: readonly Verb[] = ['bench'];
const kMaxInt32 = 2 ** 31 - 1;
/** The engine's own limit of rows in a step (kMaxPrefillChunk of engine/session/engine.h). */
const kMaxStepRows = 4096;

function row(
  group: OptionRow['group'],
  verbs: readonly Verb[],
  name: string,
  kind: OptionRow['kind'],
  help: string,
  more: Partial<OptionRow> = {},
): OptionRow {
  return { group, verbs, name, kind, help, ...more };
}

export const kOptions: readonly OptionRow[] = [
  row(
    'Model',
    [...kAll, ...kBench],
    'model',
    'text',
    'a name, a file or a URL (default smollm2-135m-instruct)',
    { value: 'NAME|PATH|URL' },
  ),
  row(
    'Model',
    [...kModelVerbs, ...kBench],
    'host',
    'choice',
    'where the engine runs (default node)',
    {
      choices: ['node', 'chromium'],
    },
  ),
  row('Model', kModelVerbs, 'device', 'choice', 'what computes (default auto)', {
    choices: ['auto', 'cpu', 'webgpu'],
  }),
  row(
    'Model',
    [...kEngine, ...kBench],
    'threads',
    'integer',
    'kernel threads (default: all cores but one)',
    { value: 'N', min: 1, max: 64 },
  ),
  row(
    'Model',
    kModelVerbs,
    'context',
    'integer',
    "context length in tokens (default: the model's)",
    {
      value: 'N',
      min: 1,
      max: 1 << 24,
    },
  ),
  row('Model', kEngine, 'kv', 'choice', 'type of the KV cache (default f16)', {
    choices: ['f32', 'f16'],
  }),
  row('Model', kEngine, 'activations', 'choice', 'activations in products (default q8)', {
    choices: ['f32', 'q8'],
  }),
  row('Model', kEngine, 'prefill-chunk', 'integer', 'prompt rows of one step (default: chosen)', {
    value: 'N',
    min: 1,
    max: kMaxStepRows,
  }),
  row('Model', [...kModelVerbs, ...kBench], 'build', 'choice', 'forces one build of the engine', {
    choices: ['simd', 'relaxed'],
  }),
  row(
    'Model',
    [...kEngine, 'plan', ...kBench],
    'plan',
    'text',
    'how steps are run: see docs/engine.md (default auto)',
    { value: 'NAME' },
  ),
  row('Model', kEngine, 'backend-reference', 'flag', 'scalar reference kernels: slow, for checks'),
  row('Model', kModelVerbs, 'no-cache', 'flag', 'does not keep a model that comes by URL'),

  row('Prompt', kGenerate, 'system', 'text', 'a system message before the prompt', {
    value: 'S',
    may_be_empty: true,
  }),
  row('Prompt', kGenerate, 'template', 'text', 'a Jinja chat template to use', { value: 'FILE' }),
  row('Prompt', kGenerate, 'raw', 'flag', 'no chat template: continues the prompt as text'),
  row('Prompt', ['generate', 'score', 'tokenize'], 'ids', 'ids', 'token ids, fed as they are', {
    value: '"1,2,3"',
  }),

  row('Reply', kGenerate, 'max-tokens', 'integer', 'the longest reply (default 512; 0: no limit)', {
    value: 'N',
    min: 0,
    max: kMaxInt32,
  }),
  row('Reply', kGenerate, 'temperature', 'number', '0 is greedy (default 0.8)', {
    value: 'X',
    min: 0,
    max: 100,
  }),
  row('Reply', kGenerate, 'top-k', 'integer', 'the K best tokens; 0 is off (default 40)', {
    value: 'K',
    min: 0,
    max: kMaxInt32,
  }),
  row('Reply', kGenerate, 'top-p', 'number', 'nucleus; 1 is off (default 0.95)', {
    value: 'P',
    min: 0,
    max: 1,
  }),
  row('Reply', kGenerate, 'min-p', 'number', "share of the best token's; 0 is off (default 0.05)", {
    value: 'P',
    min: 0,
    max: 1,
  }),
  row('Reply', kGenerate, 'repeat-penalty', 'number', '1 is off (default 1)', {
    value: 'X',
    min: 0.01,
    max: 100,
  }),
  row('Reply', kGenerate, 'presence-penalty', 'number', '0 is off (default 0)', {
    value: 'X',
    min: -100,
    max: 100,
  }),
  row('Reply', kGenerate, 'frequency-penalty', 'number', '0 is off (default 0)', {
    value: 'X',
    min: -100,
    max: 100,
  }),
  row('Reply', kGenerate, 'logit-bias', 'bias', 'adds B to the logit of ID; -inf forbids it', {
    value: 'ID=B',
    repeat: true,
  }),
  row(
    'Reply',
    kGenerate,
    'seed',
    'integer',
    'the same seed gives the same reply (default random)',
    {
      value: 'N',
      min: 0,
      max: Number.MAX_SAFE_INTEGER,
    },
  ),
  row('Reply', kGenerate, 'stop', 'text', 'ends the reply before this text', {
    value: 'S',
    repeat: true,
  }),
  row('Reply', kGenerate, 'ignore-eos', 'flag', 'goes on past end tokens'),

  row('Output', kAll, 'json', 'flag', 'one object on stdout and nothing else'),
  row(
    'Output',
    kEngine,
    'logprobs',
    'integer',
    'the best K of each position (default 0; score: 5)',
    {
      value: 'K',
      min: 0,
      max: 1000,
    },
  ),
  row('Output', [...kAll, ...kBench], 'help', 'flag', 'this text'),

  row('Verbs', ['score'], 'continue', 'ids', 'score: the ids to score after --ids', {
    value: '"4,5"',
  }),
  row('Verbs', ['score'], 'cases', 'text', 'score: a JSON list of {ids, continue}, loaded once', {
    value: 'FILE',
  }),
  row('Verbs', ['plan'], 'rows', 'integer', 'plan: rows of a step (default 1)', {
    value: 'N',
    min: 1,
    max: kMaxStepRows,
  }),
  row('Verbs', ['plan'], 'what', 'choice', 'plan: what is dumped (default steps)', {
    choices: ['graph', 'steps', 'memory'],
  }),
  row(
    'Verbs',
    ['tokenize'],
    'no-special',
    'flag',
    'tokenize: no BOS, special tokens are plain text',
  ),
  row('Verbs', kBench, 'json', 'text', 'bench: writes all figures to this file (-: stdout)', {
    value: 'OUT',
  }),
  row('Verbs', kBench, 'peers', 'flag', 'bench: other programs beside ours, in the same run'),
  row('Verbs', kBench, 'quick', 'flag', 'bench: fewer cases, fewer rounds, one model'),
  row('Verbs', kBench, 'only', 'text', 'bench: only these ("decode,prefill-430")', {
    value: 'NAMES',
  }),
  row('Verbs', kBench, 'shapes', 'flag', 'bench: also random weights in three larger shapes'),
  row('Verbs', kBench, 'tokens', 'integer', 'bench webgpu: tokens of a reply (default 128; 70)', {
    value: 'N',
    min: 2,
    max: 4096,
  }),
  row('Verbs', kBench, 'pack', 'text', 'bench webgpu: writes it as a folder with a page', {
    value: 'FOLDER',
  }),

  row('Server', ['serve'], 'port', 'integer', 'serve: the port (default 8000; 0: a free one)', {
    value: 'N',
    min: 0,
    max: 65535,
  }),
  row('Server', ['serve'], 'open', 'flag', 'serve: opens the page in the browser'),
];
