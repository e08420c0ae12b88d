// Compares a real model with its reference logits and prints a table.
//   node tests/golden/run.mjs [--model smollm2|gemma3] [--host node24|node20|chromium]
//     [--device webgpu] [--activations q8|f32] [--kv f16|f32] [--build simd|relaxed] [--threads N] [--reference]
//     [--prefill-chunk N] [--case TEXT] [--short]
//     [--table]   f32 Gemma against the reference made with llama.cpp's GELU table
import { parseArgs } from 'node:util';
import * as golden from './compare.mjs';

const kModels = { smollm2: 'smollm2-135m-instruct', gemma3: 'gemma-3-270m' };

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'smollm2' },
    file: { type: 'string' },
    host: { type: 'string', default: 'node24' },
    device: { type: 'string' },
    activations: { type: 'string', default: 'q8' },
    kv: { type: 'string', default: 'f16' },
    build: { type: 'string' },
    threads: { type: 'string' },
    'prefill-chunk': { type: 'string' },
    reference: { type: 'boolean', default: false },
    case: { type: 'string' },
    table: { type: 'boolean', default: false },
    short: { type: 'boolean', default: false },
  },
});

function cliOptions() {
  const options = ['--activations', values.activations, '--kv', values.kv];
  if (values.host === 'chromium') options.push('--host', 'chromium');
  if (values.reference) options.push('--backend-reference');
  for (const name of ['build', 'threads', 'prefill-chunk', 'device']) {
    if (values[name] !== undefined) options.push(`--${name}`, values[name]);
  }
  return options;
}

const cases = golden
  .readGolden(values.model, values.activations === 'f32' && !values.table)
  .filter((one) => !(values.short && one.long))
  .filter((one) => values.case === undefined || one.prompt.includes(values.case));
const started_ms = performance.now();
const runs = await golden.scoreCases({
  model: values.file ?? kModels[values.model],
  cases: cases.map(golden.toCase),
  options: cliOptions(),
  node: values.host === 'node20' ? golden.kNode20 : golden.kNode24,
});

const bounds = golden.boundsFor(values.activations, values.kv);
let failed = 0;
console.log('case                          tokens  steps  top-1    max diff   mean KL');
const line = (name, token_count, totals, fault) =>
  console.log(
    [
      name.slice(0, 28).padEnd(28),
      String(token_count).padStart(7),
      String(totals.steps).padStart(6),
      `${totals.decisive - totals.wrong}/${totals.decisive}`.padStart(7),
      totals.diff.toFixed(4).padStart(10),
      totals.kl.toExponential(2).padStart(10),
      fault === undefined ? '' : `  FAILED: ${fault}`,
    ].join(' '),
  );
const totals = cases.map((one, i) => golden.compareSteps(one.steps, runs[i]));
cases.forEach((one, i) => {
  // The mean KL is bounded over all cases, the rest in each.
  const fault = golden.findFault(totals[i], { ...bounds, kl: Infinity });
  if (fault) failed += 1;
  line(one.prompt, one.prompt_ids.length, totals[i], fault);
});
const all = golden.sumUp(totals);
const fault = golden.findFault({ ...all, wrong: 0, missing: 0, diff: 0 }, bounds);
if (fault) failed += 1;
line('all', '', all, fault);
console.log(`${((performance.now() - started_ms) / 1000).toFixed(1)} s`);
console.log(`${cases.length + 1 - failed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
