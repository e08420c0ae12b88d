// Random templates, from shuffled pieces of real ones and from damaged real ones: each gives a text
// within the limits or `template_error`, nothing else, and the same again the second time.
import fs from 'node:fs';
import { expect, test } from 'vitest';
import { EngineError } from '../wasm/error.js';
import { renderTemplate, type TemplateLimits } from './template_render.js';

const kRounds = process.env['NONSTOP_FULL'] === '1' ? 20_000 : 2_000;
const kLimits: TemplateLimits = {
  source_chars: 4096,
  text_chars: 8192,
  list_items: 500,
  steps: 20_000,
  time_ms: 500,
};
const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Hi {{ 1 }} {% raw %}' },
];

/** A reproducible sequence (the 64-bit mixer of SplitMix, in 32 bits). */
function makeRandom(seed: number): (bound: number) => number {
  let state = seed >>> 0;
  return (bound) => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) % bound;
  };
}

const kPieces = [
  ...[
    '{% for m in messages %}',
    '{% endfor %}',
    '{% if ',
    '{% elif x %}',
    '{% else %}',
    '{% endif %}',
  ],
  ...[
    '{% set x = ',
    '{% set ns = namespace(n=0) %}',
    '{% set ns.n = ns.n + 1 %}',
    '{% macro f(a) %}',
  ],
  ...['{% endmacro %}', '{{ f(f) }}', '{{ ', ' }}', ' %}', '{#', '#}', '{%-', '-%}', '{{-', '-}}'],
  ...[
    'm.content',
    "m['role']",
    'messages[0]',
    'messages[-1]',
    'messages[1:]',
    'loop.index0',
    'range(9)',
  ],
  ...[
    ' | trim',
    ' | tojson',
    ' | join(",")',
    ' | length',
    ' | upper',
    ' | default("")',
    ' | items',
  ],
  ...[
    ' == ',
    ' != ',
    ' in ',
    ' not in ',
    ' and ',
    ' or ',
    ' + ',
    ' ~ ',
    ' * 999 ',
    ' % 0 ',
    ' is defined',
  ],
  ...[
    '(',
    ')',
    '[',
    ']',
    '{',
    '}',
    ',',
    ':',
    '.',
    "'",
    '"',
    '\\',
    '\n',
    '1e999',
    '-1',
    'none',
    'true',
  ],
  ...[
    'raise_exception("no")',
    'strftime_now("%Y")',
    'bos_token',
    'x',
    'a'.repeat(300),
    '💥',
    '\u0000',
  ],
  ...[
    '.__class__',
    '.constructor',
    '["__proto__"]',
    '.split("")',
    '.strip()',
    'cycler',
    '{% break %}',
  ],
];

function outcome(template: string): string {
  try {
    const input = { template, messages, bos_token: '<s>', eos_token: '</s>' };
    const text = renderTemplate(input, kLimits);
    expect(typeof text).toBe('string');
    expect(text.length).toBeLessThanOrEqual(kLimits.text_chars);
    return `text ${text}`;
  } catch (thrown) {
    if (!(thrown instanceof EngineError)) throw thrown;
    expect(thrown.code).toBe('template_error');
    expect(thrown.message).toMatch(/^The chat template .{5,}\.$/u);
    // What the JavaScript engine says of the library's own code helps nobody.
    expect(thrown.message).not.toMatch(
      /\(reading '|call stack|is not a function\)|(parse|failed) \(\)/,
    );
    return 'template_error';
  }
}

function checkAll(makeTemplate: (random: (bound: number) => number) => string): void {
  let texts = 0;
  for (let round = 0; round < kRounds; ++round) {
    const template = makeTemplate(makeRandom(round));
    const first = outcome(template);
    expect(outcome(template), `round ${round}: ${template}`).toBe(first);
    if (first !== 'template_error') ++texts;
  }
  // A fuzzer whose every input fails at the first character would test nothing.
  expect(texts).toBeGreaterThan(kRounds / 50);
}

test('shuffled pieces', () => {
  checkAll((random) => {
    let template = '';
    for (let count = 1 + random(12); count > 0; --count)
      template += kPieces[random(kPieces.length)];
    return template;
  });
}, 120_000);

test('damaged templates', () => {
  const corpus: { cases: { template: string }[] } = JSON.parse(
    fs.readFileSync('tests/data/templates.json', 'utf8'),
  );
  checkAll((random) => {
    let template = corpus.cases[random(corpus.cases.length)]?.template ?? '';
    for (let count = 1 + random(3); count > 0; --count) {
      const at = random(template.length + 1);
      const cut = random(3) === 0 ? random(20) : 0;
      const piece = random(2) === 0 ? (kPieces[random(kPieces.length)] ?? '') : '';
      template = template.slice(0, at) + piece + template.slice(at + cut);
    }
    return template;
  });
}, 120_000);
