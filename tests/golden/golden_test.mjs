// The two real models through the command line, teacher-forced on exact reference logits, on every host.
// NONSTOP_FULL adds all cases on all hosts and the slow modes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as golden from './compare.mjs';

const full = process.env.NONSTOP_FULL === '1';
const kModels = { smollm2: 'smollm2-135m-instruct', gemma3: 'gemma-3-270m' };

async function check({ model, pick, activations = 'q8', kv = 'f16', options = [], node }) {
  const cases = golden.readGolden(model, activations === 'f32').filter(pick);
  assert.ok(cases.length > 0);
  const runs = await golden.scoreCases({
    model: kModels[model],
    cases: cases.map(golden.toCase),
    options: ['--activations', activations, '--kv', kv, ...options],
    node,
  });
  const totals = cases.map((one, i) => golden.compareSteps(one.steps, runs[i]));
  const bounds = golden.boundsFor(activations, kv);
  totals.forEach((one, i) =>
    assert.equal(golden.findFault(one, { ...bounds, kl: Infinity }), undefined, cases[i].prompt),
  );
  const all = golden.sumUp(totals);
  assert.equal(golden.findFault(all, bounds), undefined, 'all cases');
  console.log(
    `${model} ${activations}/${kv}: ${all.steps} steps, top-1 ${all.decisive - all.wrong}/${all.decisive}, ` +
      `max diff ${all.diff.toFixed(4)}, mean KL ${all.kl.toExponential(2)}`,
  );
}

const every = () => true;
const short = (one) => !one.long;
const few = (one) => !one.long && one.prompt_ids.length < 16 && !/gravity|Japan/.test(one.prompt);
const one = (prompt) => (found) => found.prompt === prompt;
// Past Gemma's window of 512 tokens, but not the longest.
const middle = (found) => found.prompt_ids.length < 800;
const sky = one('Why is the sky blue?');

for (const model of ['smollm2', 'gemma3']) {
  test(`${model}, Node 24: all cases with the default types`, () => check({ model, pick: every }));
  test(`${model}, Node 24: f32 activations and KV`, () =>
    check({ model, pick: full ? every : few, activations: 'f32', kv: 'f32' }));
  test(`${model}, Node 24: f32 activations, f16 KV`, () =>
    check({ model, pick: full ? middle : sky, activations: 'f32' }));
  test(`${model}, Node 24: the plain SIMD build`, () =>
    check({ model, pick: full ? short : sky, options: ['--build', 'simd'] }));
  test(`${model}, Node 24: two threads`, () =>
    check({ model, pick: full ? every : sky, options: ['--threads', '2'] }));
  test(`${model}, Node 24: the reference kernels`, () =>
    check({
      model,
      pick: full ? short : sky,
      activations: 'f32',
      kv: 'f32',
      options: ['--backend-reference'],
    }));
  test(`${model}, Node 20`, () => check({ model, pick: full ? short : sky, node: golden.kNode20 }));
  test(`${model}, Chromium`, () =>
    check({ model, pick: full ? every : sky, options: ['--host', 'chromium'] }));
}

test('a prompt read in one step, in several, and token by token gives the same logits', async () => {
  for (const model of ['smollm2', 'gemma3']) {
    const pick = ({ prompt }) =>
      prompt.startsWith('Summarize') || (full && prompt.startsWith('List'));
    const cases = golden.readGolden(model).filter(pick).map(golden.toCase);
    const run = (chunk) =>
      golden.scoreCases({
        model: kModels[model],
        cases,
        options: ['--activations', 'f32', '--prefill-chunk', String(chunk)],
      });
    const whole = await run(1024);
    for (const chunk of [1, 7]) {
      const diff = golden.largestDifference(whole, await run(chunk));
      assert.ok(diff <= 1e-3, `${model}: chunks of ${chunk} differ by ${diff}`);
    }
  }
});

test('one model, one set of weights: greedy ids agree on every host where the margin decides', async () => {
  const cases = [golden.toCase(golden.readGolden('smollm2').find(sky))];
  const model = kModels.smollm2;
  const hosts = [
    { options: [] },
    { options: ['--build', 'simd'] },
    { options: [], node: golden.kNode20 },
    { options: ['--host', 'chromium'] },
  ];
  const runs = [];
  for (const host of hosts) runs.push((await golden.scoreCases({ model, cases, ...host }))[0]);
  let compared = 0;
  runs[0].forEach((step, i) => {
    if (step.top_logprobs[0] - step.top_logprobs[1] < 0.5) return;
    compared += 1;
    for (const run of runs) assert.equal(run[i].top_ids[0], step.top_ids[0], `step ${i}`);
  });
  assert.ok(compared >= 10);
});
