// Rendering against Jinja2's own output (tests/data/templates.json, tools/reference/templates.py), and
// templates that mean harm.
import fs from 'node:fs';
import { describe, expect, test } from 'vitest';
import { formatDate, renderTemplate } from './template_render.js';

interface Case {
  name: string;
  template: string;
  messages: { role: string; content: string }[];
  text: string;
}
const corpus: { bos_token: string; eos_token: string; cases: Case[] } = JSON.parse(
  fs.readFileSync('tests/data/templates.json', 'utf8'),
);
const { bos_token, eos_token } = corpus;
const messages = [{ role: 'user', content: 'Hi' }];

function render(template: string): string {
  return renderTemplate({ template, messages, bos_token, eos_token });
}

describe('equal to Jinja2', () => {
  expect(corpus.cases.length).toBeGreaterThan(20);
  test.each(corpus.cases)('$name', ({ template, messages, text }) => {
    expect(renderTemplate({ template, messages, bos_token, eos_token })).toBe(text);
  });
});

describe('a hostile template ends as template_error', () => {
  const spread = "{% set ns = namespace(s='ab') %}";
  const hostile: Record<string, string> = {
    'a huge range': '{% for i in range(1000000000) %}x{% endfor %}',
    'nested loops':
      '{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}' +
      '{% endfor %}{% endfor %}{% endfor %}',
    'doubling text': `${spread}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}`,
    'replace that squares': `${spread}{% for i in range(99) %}{% set ns.s = ns.s | replace('a', ns.s) %}{% endfor %}`,
    'doubling lists':
      '{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}',
    'endless recursion': '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}',
    'exponential recursion':
      '{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(99) }}',
    'a deep expression': `{{ ${'('.repeat(50_000)}1${')'.repeat(50_000)} }}`,
    'a long source': 'x'.repeat(256 * 1024 + 1),
    'long output':
      '{% for i in range(100000) %}{{ "x" * 1 }}0123456789012345678901234567890123456789012345678901234567890123456789{% endfor %}',
    'no end': '{% for m in messages %}',
    'an unknown filter': '{{ messages | nope }}',
    'its own refusal': "{{ raise_exception('only two roles') }}",
    'a method of JavaScript': "{{ messages.constructor.constructor('return 1')() }}",
    'an endless range': '{{ range(0, 10, 0) }}',
  };
  test.each(Object.entries(hostile))('%s', (_name, template) => {
    const started_ms = performance.now();
    expect(() => render(template)).toThrow(expect.objectContaining({ code: 'template_error' }));
    expect(performance.now() - started_ms).toBeLessThan(10_000);
  });
});

test('raise_exception is quoted', () => {
  expect(() => render("{{ raise_exception('only two roles') }}")).toThrow(
    'The chat template refuses these messages (only two roles).',
  );
});

describe('a refusal is a sentence of ours or of the library', () => {
  const open_end = /does not parse \((it ends within|Unexpected end of input).*\)\.$/;
  const cases: Record<string, [template: string, sentence: RegExp]> = {
    'no endfor': [
      '{% for m in messages %}x',
      /does not parse \(it ends within a block or an expression\)\.$/,
    ],
    'no endif': ['{% if messages %}{{ 1 }}', open_end],
    'half a block': ['{% if messages', open_end],
    'a block that ends in an operator': ['{% if 1 +', open_end],
    'half a list': ['{{ [1,', open_end],
    'half a word': ['{{ messages', open_end],
    'no loop variable': ['{% for %}', /parse \(Unexpected token: CloseStatement\)\.$/],
    'no such block': ['{% nope %}', /parse \(Unknown statement type: nope\)\.$/],
    'another end': ['{% if 1 }}', /parse \(Expected closing statement token\. \w+ !== \w+\)\.$/],
    brackets: [`{{ ${'('.repeat(50_000)}`, /parse \(it is nested too deeply\)\.$/],
    'break outside of a loop': [
      '{% break %}',
      /failed \(it leaves a loop where there is none\)\.$/,
    ],
    'no such filter': ['{{ messages | nope }}', /failed \(Unknown ArrayValue filter: nope\)\.$/],
    'a call of text': ["{{ 'a'(1) }}", /failed \(.* not a function: got StringValue\)\.$/],
  };
  test.each(Object.entries(cases))('%s', (_name, [template, sentence]) => {
    expect(() => render(template)).toThrow(sentence);
  });
});

test('dates are those of the C locale', () => {
  const date = new Date(2026, 10, 3, 4, 5, 6);
  expect(formatDate(date, '%d %b %Y, %A %B %H:%M:%S %% %y')).toBe(
    '03 Nov 2026, Tuesday November 04:05:06 % 26',
  );
  expect(render("{{ strftime_now('%Y') }}")).toMatch(/^20\d\d$/);
});
