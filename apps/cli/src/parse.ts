// Parses the command line by the table in options.ts. Every error is one sentence that names the
// option and the value.
import { EngineError } from '../../../web/src/api/index.js';
import { kOptions, kVerbs, type OptionRow, type Verb } from './options.js';

type Value = boolean | string | number | number[] | [number, number];

export class Arguments {
  readonly verb: Verb;
  readonly positional: string | undefined;
  readonly #values: Map<string, Value[]>;

  constructor(verb: Verb, positional: string | undefined, values: Map<string, Value[]>) {
    this.verb = verb;
    this.positional = positional;
    this.#values = values;
  }

  #last(name: string): Value | undefined {
    if (!kOptions.some((option) => option.name === name)) {
      throw new EngineError('internal', `The option table has no "--${name}".`);
    }
    return this.#values.get(name)?.at(-1);
  }

  has(name: string): boolean {
    return this.#last(name) !== undefined;
  }

  flag(name: string): boolean {
    return this.#last(name) === true;
  }

  text(name: string): string | undefined {
    const value = this.#last(name);
    return typeof value === 'string' ? value : undefined;
  }

  number(name: string): number | undefined {
    const value = this.#last(name);
    return typeof value === 'number' ? value : undefined;
  }

  ids(name: string): number[] | undefined {
    const value = this.#last(name);
    return Array.isArray(value) ? value : undefined;
  }

  texts(name: string): string[] {
    return (this.#values.get(name) ?? []).filter((value) => typeof value === 'string');
  }

  pairs(name: string): [number, number][] {
    const pairs: [number, number][] = [];
    for (const value of this.#values.get(name) ?? []) {
      if (!Array.isArray(value)) continue;
      const [first, second] = value;
      if (first !== undefined && second !== undefined) pairs.push([first, second]);
    }
    return pairs;
  }
}

/** Whether --help stands where an option can: then nothing else on the line is looked at. */
export function asksForHelp(words: readonly string[]): boolean {
  for (let i = 0; i < words.length; i++) {
    const word = words[i];
    if (word === '--') return false;
    if (word === '--help' || word === '-h') return true;
    const option = kOptions.find((row) => `--${row.name}` === word);
    const has_value = option !== undefined && option.kind !== 'flag';
    if (has_value && !words[i + 1]?.startsWith('--')) i += 1;
  }
  return false;
}

export function parseArguments(words: readonly string[]): Arguments {
  const positionals: string[] = [];
  const values = new Map<string, Value[]>();
  let only_positionals = false;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? '';
    if (only_positionals || !word.startsWith('-') || word === '-') {
      positionals.push(word);
    } else if (word === '--') {
      only_positionals = true;
    } else {
      const { option, inline } = findOption(word, positionals[0]);
      let text = inline;
      if (option.kind !== 'flag' && text === undefined) {
        i += 1;
        text = words[i]?.startsWith('--') ? undefined : words[i];
      }
      addValue(values, option, text);
    }
  }
  return chooseVerb(positionals, values);
}

/** A name may have a row of its own for a verb, which then stands before the option. */
function rowOf(name: string, verb: string | undefined): OptionRow | undefined {
  const rows = kOptions.filter((row) => row.name === name);
  return rows.find((row) => row.verbs.some((one) => one === verb)) ?? rows[0];
}

function findOption(
  word: string,
  verb: string | undefined,
): { option: OptionRow; inline: string | undefined } {
  const long = word === '-h' ? '--help' : word;
  const equals = long.indexOf('=');
  const name = (equals < 0 ? long : long.slice(0, equals)).replace(/^--/, '');
  const option = rowOf(name, verb);
  if (!option || !long.startsWith('--')) {
    const near = nearestName(name);
    const hint = near ? ` Did you mean "--${near}"?` : ' See --help.';
    throw invalid(`There is no option "${word}".${hint}`);
  }
  const inline = equals < 0 ? undefined : long.slice(equals + 1);
  if (option.kind === 'flag' && inline !== undefined) {
    throw invalid(`The option "--${option.name}" takes no value (${inline}).`);
  }
  return { option, inline };
}

/** The option that begins and ends most like `name`, if it shares at least three letters. */
function nearestName(name: string): string | undefined {
  const shared = (other: string) => {
    const limit = Math.min(name.length, other.length);
    let front = 0;
    while (front < limit && name[front] === other[front]) front += 1;
    let back = 0;
    while (back < limit - front && name.at(-1 - back) === other.at(-1 - back)) back += 1;
    return front + back;
  };
  const names = kOptions.map((option) => option.name).sort((a, b) => shared(b) - shared(a));
  return names[0] !== undefined && shared(names[0]) >= 3 ? names[0] : undefined;
}

function addValue(values: Map<string, Value[]>, option: OptionRow, text: string | undefined): void {
  const value = option.kind === 'flag' ? true : parseValue(option, text);
  const list = values.get(option.name) ?? [];
  if (list.length > 0 && !option.repeat && option.kind !== 'flag') {
    throw invalid(`The option "--${option.name}" is given more than once.`);
  }
  list.push(value);
  values.set(option.name, list);
}

function parseValue(option: OptionRow, text: string | undefined): Value {
  if (text === undefined) throw invalid(`The option "--${option.name}" needs a value.`);
  switch (option.kind) {
    case 'flag':
      return text;
    case 'text':
      if (text !== '' || option.may_be_empty) return text;
      throw invalid(`The option "--${option.name}" is empty; it needs a value (${option.value}).`);
    case 'choice':
      if (option.choices?.includes(text)) return text;
      throw invalid(
        `The option "--${option.name}" is one of ${option.choices?.join(', ')}, ` +
          `not (${text || 'empty'}).`,
      );
    case 'integer':
      return parseNumber(option, text, /^[+-]?\d+$/, 'a whole number');
    case 'number':
      return parseNumber(option, text, /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i, 'a number');
    case 'ids':
      return parseIds(option, text);
    case 'bias':
      return parseBias(option, text);
  }
}

function parseNumber(option: OptionRow, text: string, pattern: RegExp, what: string): number {
  const value = Number(text);
  const { min = -Infinity, max = Infinity } = option;
  if (!pattern.test(text) || !(value >= min && value <= max)) {
    throw invalid(
      `The option "--${option.name}" is ${what} from ${min} to ${max}, not (${text || 'empty'}).`,
    );
  }
  return value;
}

/** Ids stand between commas, white space, or both. */
function parseIds(option: OptionRow, text: string): number[] {
  const trimmed = text.trim();
  if (trimmed === '') return [];
  return trimmed.split(/\s*,\s*|\s+/).map((part, i) => {
    if (part === '') {
      throw invalid(
        `The option "--${option.name}" is a list of token ids; number (${i + 1}) is empty.`,
      );
    }
    const id = Number(part);
    if (!/^\d+$/.test(part) || id > 2 ** 31 - 1) {
      throw invalid(`The option "--${option.name}" is a list of token ids; (${part}) is none.`);
    }
    return id;
  });
}

function parseBias(option: OptionRow, text: string): [number, number] {
  const match = /^(\d+)=([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|-inf|\+inf|inf)$/i.exec(text);
  const id = Number(match?.[1]);
  const bias = Number(match?.[2]?.replace(/inf/i, 'Infinity'));
  if (!match || id > 2 ** 31 - 1 || bias === Infinity || Number.isNaN(bias)) {
    throw invalid(`The option "--${option.name}" is ID=B, like 42=-1.5 or 42=-inf, not (${text}).`);
  }
  return [id, bias];
}

const kTakesText: readonly Verb[] = ['generate', 'tokenize', 'bench'];

/** Pairs of which the second would be ignored beside the first. */
const kExclusive: readonly (readonly [name: string, other: string])[] = [
  ['ids', 'system'],
  ['ids', 'template'],
  ['ids', 'no-special'],
  ['raw', 'system'],
  ['raw', 'template'],
  ['cases', 'ids'],
  ['cases', 'continue'],
];

/** What is missing, or more than can be meant. */
function checkInput(verb: Verb, text: string | undefined, values: Map<string, Value[]>): void {
  for (const [name, other] of kExclusive) {
    if (!values.has(name) || !values.has(other)) continue;
    throw invalid(`The options "--${name}" and "--${other}" exclude each other.`);
  }
  if (verb !== 'generate' && verb !== 'tokenize') return;
  const what = verb === 'generate' ? 'prompt' : 'text';
  if (text !== undefined && values.has('ids')) {
    throw invalid(`A ${what} and --ids exclude each other.`);
  }
  if (text === undefined && !values.has('ids')) {
    throw invalid(`There is no ${what}. Give one in quotes, or --ids; see --help.`);
  }
}

/** The first positional is a verb, or the prompt; without one the page is served. */
function chooseVerb(positionals: string[], values: Map<string, Value[]>): Arguments {
  const [first, ...others] = positionals;
  const is_verb = first !== undefined && Object.hasOwn(kVerbs, first);
  const rest = is_verb ? others : positionals;
  const verb = is_verb ? toVerb(first) : defaultVerb(first, values);
  if (rest.length > 0 && !kTakesText.includes(verb)) {
    throw invalid(`The verb "${verb}" takes no text (${rest.slice(0, 4).join(' ')}).`);
  }
  if (rest.length > 1) {
    throw invalid(`The text is one argument; put it in quotes (${rest.slice(0, 4).join(' ')} …).`);
  }
  for (const name of values.keys()) {
    const option = rowOf(name, verb);
    if (option && !option.verbs.includes(verb)) {
      const where = option.verbs.map((other) => `"${other}"`).join(', ');
      throw invalid(`The option "--${name}" belongs to ${where}, not to "${verb}".`);
    }
  }
  checkInput(verb, rest[0], values);
  return new Arguments(verb, rest[0], values);
}

function toVerb(text: string): Verb {
  for (const verb of verbNames()) if (verb === text) return verb;
  throw invalid(`There is no verb "${text}".`);
}

export function verbNames(): Verb[] {
  return ['generate', 'serve', 'score', 'tokenize', 'plan', 'bench'];
}

function defaultVerb(first: string | undefined, values: Map<string, Value[]>): Verb {
  if (first !== undefined || values.has('ids')) return 'generate';
  const named = [...values.keys()].map((name) => kOptions.find((row) => row.name === name));
  const can_serve = named.every((option) => option?.verbs.includes('serve'));
  // Who asks for an object and forgets the prompt must not wait for a server that never ends.
  if (can_serve && !values.has('json')) return 'serve';
  throw invalid('There is no prompt. Give one in quotes, or --ids, or a verb; see --help.');
}

function invalid(message: string): EngineError {
  return new EngineError('invalid_argument', message);
}
