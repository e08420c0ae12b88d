// Renders a chat template, which came with a model and is not trusted: the interpreter counts its
// steps, looks at the clock, and refuses values that grow too large. What it cannot see from inside
// (a slow regular expression in the lexer) is bounded from outside, see template_sandbox.ts.
// The variables are those that Transformers passes: messages, tools, documents, bos_token,
// eos_token, add_generation_prompt.
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';
import { EngineError } from '../wasm/error.js';
import type { ChatMessage } from './protocol.js';

export interface TemplateInput {
  template: string;
  messages: readonly ChatMessage[];
  bos_token: string;
  eos_token: string;
}

export interface TemplateLimits {
  source_chars: number;
  /** Any string that the template makes, its output included. */
  text_chars: number;
  /** Any list that the template makes. */
  list_items: number;
  steps: number;
  time_ms: number;
}

export const kTemplateLimits: TemplateLimits = {
  source_chars: 256 * 1024,
  text_chars: 4 * 1024 * 1024,
  list_items: 100_000,
  steps: 5_000_000,
  time_ms: 1500,
};

type Statement = Parameters<Interpreter['evaluate']>[0];
type Value = ReturnType<Interpreter['evaluate']>;

const kStepsPerClock = 256;
const kMaxDetailChars = 500;

class BoundedInterpreter extends Interpreter {
  readonly #limits: TemplateLimits;
  readonly #deadline_ms: number;
  #steps = 0;

  constructor(environment: Environment, limits: TemplateLimits, started_ms: number) {
    super(environment);
    this.#limits = limits;
    this.#deadline_ms = started_ms + limits.time_ms;
  }

  override evaluate(statement: Statement, environment: Environment): Value {
    this.#steps += 1;
    if (this.#steps > this.#limits.steps) throw refusal('takes too many steps', this.#limits.steps);
    // A loop costs time before its body is evaluated, so each looks at the clock.
    const looks = statement?.type === 'For' || this.#steps % kStepsPerClock === 0;
    if (looks && performance.now() > this.#deadline_ms) {
      throw refusal('takes too long, in ms', this.#limits.time_ms);
    }
    const value = super.evaluate(statement, environment);
    checkSize(value.value, this.#limits);
    return value;
  }
}

function checkSize(value: unknown, limits: TemplateLimits): void {
  if (typeof value === 'string' && value.length > limits.text_chars) {
    throw refusal('makes too long a text, in characters', limits.text_chars);
  }
  if (Array.isArray(value) && value.length > limits.list_items) {
    throw refusal('makes too long a list, in items', limits.list_items);
  }
}

function refusal(what: string, limit: number): EngineError {
  return new EngineError('template_error', `The chat template ${what} (limit ${limit}).`);
}

/** The text that the model reads. Throws `template_error`, whatever the template does. */
export function renderTemplate(
  input: TemplateInput,
  limits: TemplateLimits = kTemplateLimits,
): string {
  const started_ms = performance.now();
  if (input.template.length > limits.source_chars) {
    throw refusal('is too long, in characters', limits.source_chars);
  }
  let what = 'does not parse';
  // The library's parser takes the token behind the last one for granted.
  let otherwise = 'it ends within a block or an expression';
  try {
    const program = parse(tokenize(input.template, { lstrip_blocks: true, trim_blocks: true }));
    what = 'failed';
    otherwise = 'it does with a value what cannot be done with it';
    const environment = makeEnvironment(input, limits);
    const interpreter = new BoundedInterpreter(environment, limits, started_ms);
    return String(interpreter.run(program).value);
  } catch (thrown) {
    if (thrown instanceof EngineError) throw thrown;
    const detail = shortened(ownMessage(thrown) ?? otherwise);
    throw new EngineError('template_error', `The chat template ${what} (${detail}).`, {
      cause: thrown,
    });
  }
}

/** What the library itself says; undefined for what its code only stumbled over (a TypeError). */
function ownMessage(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error)) return undefined;
  if (thrown instanceof RangeError) {
    // Of V8, and of Firefox's SpiderMonkey.
    const is_deep = /call stack|recursion/.test(thrown.message);
    return is_deep ? 'it is nested too deeply' : 'it makes a value that is too large';
  }
  // The library leaves a loop by throwing a class of its own.
  if (thrown.message === '') return 'it leaves a loop where there is none';
  const is_own = thrown.constructor === Error || thrown.constructor === SyntaxError;
  return is_own ? thrown.message.replace(/^Parser Error: |\.$/g, '') : undefined;
}

/** What a template says of itself, as far as a sentence needs it. */
function shortened(text: string): string {
  return text.length > kMaxDetailChars ? `${text.slice(0, kMaxDetailChars)} …` : text;
}

function makeEnvironment(input: TemplateInput, limits: TemplateLimits): Environment {
  const environment = new Environment();
  const variables: Record<string, unknown> = {
    true: true,
    True: true,
    false: false,
    False: false,
    none: null,
    None: null,
    range: (start: unknown, stop?: unknown, step?: unknown) => range(limits, start, stop, step),
    strftime_now: (format: unknown) => formatDate(new Date(), String(format)),
    raise_exception: (message: unknown) => {
      throw new EngineError(
        'template_error',
        `The chat template refuses these messages (${shortened(String(message))}).`,
      );
    },
    messages: input.messages,
    tools: null,
    documents: null,
    bos_token: input.bos_token,
    eos_token: input.eos_token,
    add_generation_prompt: true,
  };
  for (const [name, value] of Object.entries(variables)) environment.set(name, value);
  return environment;
}

/** Python's range; keyword arguments arrive as maps and are not numbers. */
function range(limits: TemplateLimits, first: unknown, second: unknown, third: unknown): number[] {
  const [start, stop] = second === undefined ? [0, Number(first)] : [Number(first), Number(second)];
  const step = third === undefined ? 1 : Number(third);
  const count = Math.ceil((stop - start) / step);
  if (step === 0 || !Number.isFinite(count)) {
    throw new EngineError('template_error', 'The chat template calls range() with wrong numbers.');
  }
  if (count > limits.list_items) {
    throw refusal('makes too long a list, in items', limits.list_items);
  }
  return Array.from({ length: Math.max(count, 0) }, (_, i) => start + i * step);
}

const kMonths = [
  ...['January', 'February', 'March', 'April', 'May', 'June', 'July'],
  ...['August', 'September', 'October', 'November', 'December'],
];
const kDays = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

/** strftime of Python's C locale, for the directives that templates use; others stay as they are. */
export function formatDate(date: Date, format: string): string {
  const two = (value: number) => String(value).padStart(2, '0');
  const month = kMonths[date.getMonth()] ?? '';
  const day = kDays[date.getDay()] ?? '';
  const directives: Record<string, string> = {
    '%Y': String(date.getFullYear()),
    '%y': two(date.getFullYear() % 100),
    '%m': two(date.getMonth() + 1),
    '%d': two(date.getDate()),
    '%B': month,
    '%b': month.slice(0, 3),
    '%A': day,
    '%a': day.slice(0, 3),
    '%H': two(date.getHours()),
    '%M': two(date.getMinutes()),
    '%S': two(date.getSeconds()),
    '%%': '%',
  };
  return format.replace(/%[a-zA-Z%]/g, (directive) => directives[directive] ?? directive);
}
