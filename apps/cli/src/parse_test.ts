import fs from 'node:fs';
import { expect, test } from 'vitest';
import { exitStatus, kExitCodes } from './exit.js';
import { helpText } from './help.js';
import { kOptions } from './options.js';
import { parseArguments } from './parse.js';
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
  expect(parseArguments(['generate']).positional).toBe('generate');
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
