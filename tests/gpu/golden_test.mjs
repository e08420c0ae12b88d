// The real models and the tiny ones on WebGPU (Node on lavapipe), teacher-forced on the same reference logits as
// the CPU; and replies whose tokens the GPU chooses, against those that the CPU gives.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import * as golden from '../golden/compare.mjs';
import { lavapipeEnvironment } from './device.mjs';

const full = process.env.NONSTOP_FULL === '1';
const environment = lavapipeEnvironment();
const tiny = path.join(golden.kRoot, 'tests/data/tiny');

async function checkReal(model, file, kv, pick, more = []) {
  const cases = golden.readGolden(file, true).filter(pick);
  assert.ok(cases.length > 0);
  const options = ['--device', 'webgpu', '--activations', 'f32', '--kv', kv, ...more];
  const runs = await golden.scoreCases({
    model,
    cases: cases.map(golden.toCase),
    options,
    environment,
  });
  const totals = cases.map((one, i) => golden.compareSteps(one.steps, runs[i]));
  const bounds = golden.boundsFor('f32', kv);
  totals.forEach((one, i) =>
    assert.equal(golden.findFault(one, bounds), undefined, cases[i].prompt),
  );
  const all = golden.sumUp(totals);
  console.log(
    `${model}, ${kv} cache: ${all.steps} steps, top-1 ${all.decisive - all.wrong}/${all.decisive}, ` +
      `max diff ${all.diff.toFixed(4)}`,
  );
}

// With one workgroup, which runs here too.
const kResident = ['--plan', 'resident-1'];

const sky = ({ prompt }) => prompt === 'Why is the sky blue?';
const short = (one) => !one.long;

test('SmolLM2-135M, f32 cache', () =>
  checkReal('smollm2-135m-instruct', 'smollm2', 'f32', full ? short : sky));
if (full) {
  test('SmolLM2-135M, f16 cache', () => checkReal('smollm2-135m-instruct', 'smollm2', 'f16', sky));
  // The cache must fit one binding of this driver.
  test('SmolLM2-135M, f16 cache, the resident plan', () =>
    checkReal('smollm2-135m-instruct', 'smollm2', 'f16', sky, [...kResident, '--context', '512']));
  test('Gemma 3 270M, f16 cache', () => checkReal('gemma-3-270m', 'gemma3', 'f16', sky));
}

// One of each way that attention gets its rows.
const some = ['llama_tied', 'gemma3', 'phi3'];
const names = full
  ? fs
      .readdirSync(tiny)
      .filter((name) => name.endsWith('.json'))
      .map((name) => name.slice(0, -5))
  : some;

for (const name of names) {
  test(`${name}: llama.cpp's logits`, () => {
    const reference = JSON.parse(fs.readFileSync(path.join(tiny, `${name}.json`), 'utf8'));
    const options = ['--device', 'webgpu'];
    return golden.compareTiny(path.join(tiny, `${name}.gguf`), reference, { options, environment });
  });
}

// The models that it serves (lowering_test.cc has the same list): biases, both orders of rotation, rope factors,
// each type.
const served = full
  ? names.filter((name) => /^(llama|qwen2|mistral|type_(q[458]_[01k]|q6_k|mix_k))/.test(name))
  : ['qwen2', 'type_mix_k'];
for (const name of served) {
  test(`${name}, the resident plan: llama.cpp's logits`, () => {
    const reference = JSON.parse(fs.readFileSync(path.join(tiny, `${name}.json`), 'utf8'));
    const options = ['--device', 'webgpu', ...kResident];
    return golden.compareTiny(path.join(tiny, `${name}.gguf`), reference, { options, environment });
  });
}

test('the resident plan, past a page of the cache and in many ranges: the logits of the chain', async () => {
  const ids = Array.from({ length: 400 }, (_, i) => 1 + ((i * 37) % 250));
  const cases = [
    { ids: ids.slice(0, 380), continue: ids.slice(380) },
    { ids: ids.slice(0, 250), continue: ids.slice(250, 262) },
  ];
  const run = (plan, kv) =>
    golden.scoreCases({
      model: path.join(tiny, 'llama_tied.gguf'),
      cases,
      options: ['--device', 'webgpu', '--context', '512', '--kv', kv, ...plan],
      environment,
    });
  for (const kv of full ? ['f32', 'f16'] : ['f16']) {
    const diff = golden.largestDifference(await run([], kv), await run(kResident, kv));
    assert.ok(diff <= 1e-3, `${kv}: ${diff}`);
  }
});

// With two threads this driver runs two workgroups at a time: those that wait for others give up, and the trial
// sees it.
test('the resident plan where workgroups do not run side by side: an error, and no hang', async () => {
  const model = path.join(tiny, 'llama_tied.gguf');
  const options = ['--device', 'webgpu', '--plan', 'resident'];
  const cases = [{ ids: [1, 2], continue: [3] }];
  const two = { ...environment, LP_NUM_THREADS: '2' };
  const score = golden.scoreCases({ model, cases, options, environment: two, limit_s: 120 });
  await assert.rejects(score, /resident plan does not serve/);
});

test('the resident plan where it does not serve: an error that says so', async () => {
  const model = path.join(tiny, 'gemma3.gguf');
  const options = ['--device', 'webgpu', ...kResident];
  const cases = [{ ids: [1, 2], continue: [3] }];
  await assert.rejects(
    golden.scoreCases({ model, cases, options, environment }),
    /resident plan does not serve/,
  );
});

/** A reply's ids and what a token of it cost. */
function reply(device, words) {
  const model = path.join(tiny, 'llama_tied.gguf');
  const fixed = '--ids 1,2,3 --max-tokens 40 --activations f32 --kv f32 --json --device'.split(' ');
  const out = execFileSync(
    golden.kNode24,
    [golden.kCli, '--model', model, ...fixed, device, ...words.trim().split(' ')],
    { env: { ...process.env, ...environment }, stdio: ['ignore', 'pipe', 'ignore'] },
  );
  return JSON.parse(out);
}

for (const words of [
  '--temperature 0 --ignore-eos',
  '--seed 5 --ignore-eos',
  '--seed 6 --ignore-eos --repeat-penalty 1.3 --frequency-penalty 0.2',
  '--seed 7 --temperature 2 --top-k 64 --top-p 1 --min-p 0 --logit-bias 22=-100',
  '--seed 3 --ignore-eos --top-k 0',
  '--temperature 0 --ignore-eos --plan resident-1',
  '--seed 5 --ignore-eos --plan resident-1',
]) {
  test(`the tokens of the CPU: ${words}`, () => {
    const cpu = reply('cpu', words.replace(kResident.join(' '), ''));
    const gpu = reply('webgpu', words);
    assert.deepEqual(gpu.token_ids, cpu.token_ids);
    assert.equal(gpu.finish_reason, cpu.finish_reason);
    assert.equal(gpu.backend, 'webgpu');
    // A list longer than 64 is the host's to choose from: logits come back, tokens one by one.
    const is_chosen_there = !words.includes('--top-k 0');
    assert.equal(gpu.submits_per_token, 1);
    assert.ok(is_chosen_there ? gpu.uploads_per_token < 0.2 : gpu.uploads_per_token === 1);
    assert.equal(gpu.readback_bytes_per_token === 16, is_chosen_there);
    if (words.includes('resident')) assert.equal(gpu.dispatches_per_token, 5);
  });
}
