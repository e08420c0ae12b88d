import fs from 'node:fs';
import { expect, test } from 'vitest';
import { exitStatus, kExitCodes } from './exit.js';
import { helpText } from './help.js';
import { kOptions } from './options.js';
import { asksForHelp, parseArguments } from './parse.js';
import { ErrorCode } from '../../../web/src/wasm/abi.gen.js';

function failure(...words: string[]): string {
  try {
    parseArguments(words);
  } catch (thrown) {
    if (thrown instanceof Error && 'code' in thrown)
      return `${String(thrown.code)}: ${thrown.message}`;
  }
  return 'no failure';
}

test('a first argument that is no verb is a prompt', () => {
  const args = parseArguments(['Why?', '--seed', '7', '--stop=a', '--stop', 'b=c', '--json']);
  expect(args).toMatchObject({ verb: 'generate', positional: 'Why?' });
  expect(args.number('seed')).toBe(7);
  expect(args.texts('stop')).toEqual(['a', 'b=c']);
  expect(args.flag('json')).toBe(true);
  expect(args.has('top-k')).toBe(false);
});

test('verbs, and no argument at all', () => {
  expect(parseArguments([]).verb).toBe('serve');
  expect(parseArguments(['--port', '0']).verb).toBe('serve');
  expect(parseArguments(['score', '--ids', '1,2 3', '--continue', '4']).ids('ids')).toEqual([
    1, 2, 3,
  ]);
  expect(parseArguments(['--model', 'm', 'plan', '--rows', '8']).verb).toBe('plan');
  expect(parseArguments(['--ids', '1']).verb).toBe('generate');
  expect(parseArguments(['--', '--help']).positional).toBe('--help');
  expect(parseArguments(['generate', 'Hello'])).toMatchObject({
    ...{ verb: 'generate', positional: 'Hello' },
  });
  expect(parseArguments(['--', 'generate', 'plan']).positional).toBe('plan');
  expect(failure('generate')).toContain('There is no prompt. Give one in quotes, or --ids');
  expect(failure('tokenize')).toContain('There is no text. Give one in quotes, or --ids');
});

test('nothing on the line is ignored', () => {
  expect(failure('serve', 'extra')).toBe(
    'invalid_argument: The verb "serve" takes no text (extra).',
  );
  expect(failure('plan', 'extra')).toContain('"plan" takes no text (extra)');
  expect(failure('score', 'x', '--ids', '1', '--continue', '2')).toContain('"score" takes no text');
  expect(failure('x', '--ids', '1')).toContain('A prompt and --ids exclude each other');
  expect(failure('tokenize', 'x', '--ids', '1')).toContain('A text and --ids exclude each other');
  const both = (name: string, other: string) =>
    `invalid_argument: The options "--${name}" and "--${other}" exclude each other.`;
  const cases = ['score', '--cases', 'f'];
  expect(failure(...cases, '--ids', '1')).toBe(both('cases', 'ids'));
  expect(failure(...cases, '--continue', '1')).toBe(both('cases', 'continue'));
  expect(failure('--ids', '1', '--template', 'f')).toBe(both('ids', 'template'));
  expect(failure('--ids', '1', '--system', 's')).toBe(both('ids', 'system'));
  expect(failure('x', '--raw', '--template', 'f')).toBe(both('raw', 'template'));
  expect(failure('x', '--raw', '--system', 's')).toBe(both('raw', 'system'));
  expect(failure('tokenize', '--ids', '1', '--no-special')).toBe(both('ids', 'no-special'));
});

test('bench has options of its own, and one whose name means something else elsewhere', () => {
  const args = parseArguments(['bench', 'cpu', '--json', 'out.json', '--quick', '--only=decode']);
  expect(args).toMatchObject({ verb: 'bench', positional: 'cpu' });
  expect(args.text('json')).toBe('out.json');
  expect([args.flag('quick'), args.flag('peers')]).toEqual([true, false]);
  expect(args.text('only')).toBe('decode');
  expect(
    parseArguments(['bench', 'cpu', '--host', 'node', '--threads', '2']).number('threads'),
  ).toBe(2);
  expect(failure('bench', 'cpu', '--json')).toContain('"--json" needs a value');
  expect(failure('bench', 'cpu', '--temperature', '1')).toContain('not to "bench"');
  expect(failure('plan', '--peers')).toContain('"--peers" belongs to "bench", not to "plan"');
  expect(parseArguments(['plan', '--json']).flag('json')).toBe(true);
});

test('ids stand between commas, spaces and line ends', () => {
  const ids = (text: string) => parseArguments(['--ids', text]).ids('ids');
  for (const text of ['1,2,3', ' 1, 2 ,3 ', '1 2\t3', '1\n2\n3\n', '1,\n2,\r\n3']) {
    expect(ids(text)).toEqual([1, 2, 3]);
  }
  expect(ids('')).toEqual([]);
  expect(ids(' \n')).toEqual([]);
  const empty = (number: number, option = '--ids') =>
    `invalid_argument: The option "${option}" is a list of token ids; number (${number}) is empty.`;
  expect(failure('--ids', '1,,2')).toBe(empty(2));
  expect(failure('--ids', '1 , , 2')).toBe(empty(2));
  expect(failure('--ids', ',')).toBe(empty(1));
  expect(failure('--ids', ',1')).toBe(empty(1));
  expect(failure('--ids', '1,2,')).toBe(empty(3));
  expect(failure('score', '--ids', '1', '--continue', '2,,')).toBe(empty(2, '--continue'));
});

test('a text is not empty, a system message may be', () => {
  expect(failure('x', '--model', '')).toBe(
    'invalid_argument: The option "--model" is empty; it needs a value (NAME|PATH|URL).',
  );
  expect(failure('x', '--model=')).toContain('"--model" is empty');
  expect(failure('x', '--template', '')).toContain(
    '"--template" is empty; it needs a value (FILE).',
  );
  expect(failure('x', '--stop', '')).toContain('"--stop" is empty; it needs a value (S).');
  expect(failure('x', '--host', '')).toContain('"--host" is one of node, chromium, not (empty).');
  expect(failure('plan', '--plan', '')).toContain('"--plan" is empty; it needs a value (NAME).');
  expect(failure('score', '--cases', '')).toContain('"--cases" is empty; it needs a value (FILE).');
  expect(parseArguments(['x', '--system', '']).text('system')).toBe('');
});

test("a step has at most the engine's rows", () => {
  const source = fs.readFileSync('engine/session/engine.h', 'utf8');
  const limit = Number(/kMaxPrefillChunk = (\d+);/.exec(source)?.[1]);
  const chunk = (text: string) => parseArguments(['x', '--prefill-chunk', text]);
  expect(chunk(String(limit)).number('prefill-chunk')).toBe(limit);
  expect(failure('x', '--prefill-chunk', String(limit + 1))).toBe(
    'invalid_argument: The option "--prefill-chunk" is a whole number from 1 to ' +
      `${limit}, not (${limit + 1}).`,
  );
  expect(failure('plan', '--rows', String(limit + 1))).toContain(`from 1 to ${limit}, not`);
});

test('help is asked for among any other words, but not as a value or after --', () => {
  expect(asksForHelp(['--help'])).toBe(true);
  expect(asksForHelp(['--json', '-h'])).toBe(true);
  expect(asksForHelp(['two', 'words', '--nope', '--seed', 'x', '--help'])).toBe(true);
  expect(asksForHelp(['--stop', '--help'])).toBe(true);
  expect(asksForHelp(['x', '--stop', '-h'])).toBe(false);
  expect(asksForHelp(['--', '--help'])).toBe(false);
  expect(asksForHelp(['help'])).toBe(false);
});

test('serve takes --json; --json alone does not serve', () => {
  expect(parseArguments(['serve', '--json', '--port', '0']).flag('json')).toBe(true);
  expect(failure('--json')).toContain('There is no prompt');
  expect(failure('--json', '--model', 'm')).toContain('There is no prompt');
});

test('negative and unusual numbers', () => {
  const args = parseArguments([
    'x',
    '--presence-penalty',
    '-1.5',
    '--min-p',
    '.1',
    '--top-p',
    '1e-1',
  ]);
  expect(args.number('presence-penalty')).toBe(-1.5);
  expect(args.number('min-p')).toBe(0.1);
  expect(args.number('top-p')).toBe(0.1);
  const biased = parseArguments(['x', '--logit-bias', '5=-inf', '--logit-bias', '6=+2.5']);
  expect(biased.pairs('logit-bias')).toEqual([
    [5, -Infinity],
    [6, 2.5],
  ]);
});

test('each wrong line has a sentence that names the option and the value', () => {
  expect(failure('x', '--tempature', '1')).toBe(
    'invalid_argument: There is no option "--tempature". Did you mean "--temperature"?',
  );
  expect(failure('x', '-t', '1')).toContain('There is no option "-t"');
  expect(failure('x', '--threads', '0')).toContain(
    '"--threads" is a whole number from 1 to 64, not (0)',
  );
  expect(failure('x', '--threads', '1.5')).toContain('not (1.5)');
  expect(failure('x', '--seed', '9007199254740993')).toContain('--seed');
  expect(failure('x', '--temperature', 'NaN')).toContain('not (NaN)');
  expect(failure('x', '--temperature', '')).toContain('not (empty)');
  expect(failure('x', '--temperature')).toContain('"--temperature" needs a value');
  expect(failure('x', '--stop', '--json')).toContain('"--stop" needs a value');
  expect(parseArguments(['x', '--stop=--json']).texts('stop')).toEqual(['--json']);
  expect(failure('x', '--kv', 'q4')).toContain('"--kv" is one of f32, f16, not (q4)');
  expect(failure('x', '--ids', '1,a')).toContain('(a) is none');
  expect(failure('x', '--logit-bias', '5=inf')).toContain('ID=B');
  expect(failure('x', '--json=1')).toContain('takes no value (1)');
  expect(failure('x', '--top-k', '1', '--top-k', '2')).toContain('more than once');
  expect(failure('two', 'words')).toContain('put it in quotes (two words …)');
  expect(failure('plan', '--temperature', '1')).toContain('belongs to "generate", not to "plan"');
  expect(failure('--temperature', '1')).toContain('There is no prompt');
});

test('the help text names every option, and every code has an exit status', () => {
  const help = helpText();
  for (const { name } of kOptions) expect(help).toContain(`--${name}`);
  const listed = kExitCodes.flatMap((row) => row.codes);
  expect([...listed].sort()).toEqual(Object.keys(ErrorCode).sort());
  expect(exitStatus('not_gguf')).toBe(3);
  expect(exitStatus('aborted')).toBe(130);
});

test('the documentation has the help text as it is', () => {
  expect(fs.readFileSync('docs/command-line.md', 'utf8')).toContain(`\n${helpText()}\n`);
});
