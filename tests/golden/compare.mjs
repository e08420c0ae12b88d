// How a run is compared with reference logits, and how runs are made: by the command line's own
// `score --cases`, which loads a model once for all cases.
//   top-1  the best id agrees wherever the reference's two best are over 0.5 nat apart
//   diff   the largest difference of a logit over the reference's 8 ids
//   KL     mean over all steps, over the 8 ids and one bucket for the rest
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export const kRoot = path.resolve(import.meta.dirname, '../..');
export const kCli = path.join(kRoot, 'apps/cli/dist/cli.mjs');
export const kNode24 = path.join(kRoot, '.deps/node24/bin/node');
export const kNode20 = path.join(kRoot, '.deps/node20/bin/node');

const kDecisiveNats = 0.5;
const kTopCount = 256;

/**
 * The cases of a model. Gemma's reference was made with llama.cpp's half-precision GELU table, which
 * moves single logits by up to 0.064; where differences of logits are bounded, `exact` takes the same
 * cases without the table (tools/reference/golden_logits.py).
 */
export function readGolden(model, exact = false) {
  const read = (name) => JSON.parse(fs.readFileSync(path.join(kRoot, 'tests/data', name), 'utf8'));
  const found = exact ? read('golden_logits_exact.json')[model] : undefined;
  return (found ?? read('golden_logits.json')[model]).cases;
}

/** Teacher-forced: step i is the distribution before the reference's greedy id i. */
export function toCase({ prompt_ids, greedy_ids }) {
  return { ids: prompt_ids, continue: greedy_ids };
}

/** Runs `score` over the cases and gives each case's steps. */
/** `environment` is added to this program's own. */
export async function scoreCases({
  model,
  cases,
  options = [],
  node = kNode24,
  environment = {},
  limit_s = 900,
}) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'nonstop-golden-'));
  const file = path.join(folder, 'cases.json');
  fs.writeFileSync(file, JSON.stringify(cases));
  const words = ['score', '--model', model, '--cases', file, '--logprobs', kTopCount, '--json'];
  try {
    const result = await runNode(
      node,
      [kCli, ...words.map(String), ...options],
      environment,
      limit_s,
    );
    return cases.length === 1 && result.steps ? [result.steps] : result.cases.map((c) => c.steps);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

function runNode(node, words, environment, limit_s) {
  const env = { ...process.env, ...environment };
  const settings = { timeout: limit_s * 1000, maxBuffer: 1 << 30, env };
  return new Promise((resolve, reject) => {
    execFile(node, words, settings, (error, stdout, stderr) => {
      const reply = stdout.trim() === '' ? undefined : JSON.parse(stdout);
      if (reply?.error) reject(new Error(`${reply.error.code}: ${reply.error.message}`));
      else if (error) reject(new Error(`${error.message}\n${stderr}`));
      else resolve(reply);
    });
  });
}

const kTinyBound = 2e-3;

/** A tiny model's logits after each position, as steps of a continuation of each case's first id. */
export async function compareTiny(model, reference, { options = [], node, environment }) {
  const cases = reference.cases.filter((one) => one.n_ctx === 256);
  const runs = await scoreCases({
    model,
    cases: cases.map(({ ids }) => ({ ids: ids.slice(0, 1), continue: [...ids.slice(1), 0] })),
    options: ['--activations', 'f32', '--kv', 'f32', '--context', '256', ...options],
    node,
    environment,
  });
  let compared = 0;
  cases.forEach((one, c) =>
    one.steps.forEach((want) => {
      const got = runs[c][want.pos];
      want.ids.forEach((id, i) => {
        const at = got.top_ids.indexOf(id);
        const diff = at < 0 ? Infinity : Math.abs(got.top_logits[at] - want.logits[i]);
        assert.ok(diff <= kTinyBound, `position ${want.pos}, id ${id}: differs by ${diff}`);
        compared += 1;
      });
    }),
  );
  assert.ok(compared > 0);
}

/** Compares one case's steps with the reference's. */
export function compareSteps(reference, steps) {
  if (steps.length !== reference.length) {
    throw new Error(`The run has (${steps.length}) steps, the reference (${reference.length}).`);
  }
  const totals = { steps: steps.length, decisive: 0, wrong: 0, diff: 0, kl: 0, missing: 0 };
  reference.forEach((want, index) => {
    const got = steps[index];
    if (want.top_logprobs[0] - want.top_logprobs[1] > kDecisiveNats) {
      totals.decisive += 1;
      if (got.top_ids[0] !== want.top_ids[0]) totals.wrong += 1;
    }
    compareStep(want, got, totals);
  });
  totals.kl /= steps.length;
  return totals;
}

function compareStep(want, got, totals) {
  let kl = 0;
  let want_rest = 1;
  let got_rest = 1;
  want.top_ids.forEach((id, i) => {
    const at = got.top_ids.indexOf(id);
    if (at < 0) totals.missing += 1;
    const logprob = at < 0 ? got.top_logprobs.at(-1) : got.top_logprobs[at];
    const p = Math.exp(want.top_logprobs[i]);
    kl += p * (want.top_logprobs[i] - logprob);
    want_rest -= p;
    got_rest -= Math.exp(logprob);
    if (at >= 0) {
      const diff = Math.abs(got.top_logits[at] - want.top_logits[i]);
      totals.diff = Math.max(totals.diff, Number.isFinite(diff) ? diff : Infinity);
    }
  });
  const floor = 1e-7;
  kl +=
    Math.max(want_rest, floor) * Math.log(Math.max(want_rest, floor) / Math.max(got_rest, floor));
  totals.kl += kl;
}

/** The bounds of issue 3, by how activations and KV are kept. */
export function boundsFor(activations, kv) {
  if (activations === 'q8') return { diff: Infinity, kl: 0.01 };
  return { diff: kv === 'f32' ? 0.05 : 0.15, kl: Infinity };
}

/** Sums up cases: the worst difference, the mean KL by steps. */
export function sumUp(list) {
  const sum = { steps: 0, decisive: 0, wrong: 0, diff: 0, kl: 0, missing: 0 };
  for (const one of list) {
    sum.kl += one.kl * one.steps;
    sum.diff = Math.max(sum.diff, one.diff);
    for (const key of ['steps', 'decisive', 'wrong', 'missing']) sum[key] += one[key];
  }
  sum.kl /= Math.max(sum.steps, 1);
  return sum;
}

/** Undefined when within the bounds, else what is not. */
export function findFault(totals, { diff, kl }) {
  if (totals.wrong > 0)
    return `top-1 differs at ${totals.wrong} of ${totals.decisive} decisive steps`;
  if (totals.missing > 0) return `${totals.missing} listed ids are not among the best ${kTopCount}`;
  if (!(totals.diff <= diff)) return `a logit differs by ${totals.diff.toFixed(4)} (bound ${diff})`;
  if (!(totals.kl <= kl)) return `mean KL is ${totals.kl.toFixed(5)} (bound ${kl})`;
  return undefined;
}

/** The largest difference of logits of two runs of the same cases, over ids that both list. */
export function largestDifference(first, second) {
  let largest = 0;
  first.forEach((steps, c) =>
    steps.forEach((step, s) => {
      const other = second[c][s];
      step.top_ids.slice(0, 64).forEach((id, i) => {
        const at = other.top_ids.indexOf(id);
        const diff = at < 0 ? Infinity : Math.abs(step.top_logits[i] - other.top_logits[at]);
        largest = Math.max(largest, Number.isNaN(diff) ? Infinity : diff);
      });
    }),
  );
  return largest;
}
