// Several replies at once on WebGPU (Node on lavapipe): the ids that each has alone, whatever their number and
// however unlike their lengths.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { kRoot, kTinyModel, temporaryFolder } from '../cli/support.mjs';
import { lavapipeEnvironment } from './device.mjs';

const kLimitMs = 400_000;

/** For each of `counts`, the ids of so many replies at once; and the dispatches that a token took. */
function replies(t, { plan, maxSequences, counts }) {
  const script = `
    import { Engine } from ${JSON.stringify(path.join(kRoot, 'web/dist/nonstop.mjs'))};
    const model = { kind: 'file', path: ${JSON.stringify(kTinyModel)} };
    const engine = await Engine.load(model, {
      device: 'webgpu', plan: '${plan}', maxSequences: ${maxSequences}, contextLength: 300,
    });
    // Up to 251 tokens: the longest goes on past a page of the cache.
    const prompt = (k) => Array.from({ length: 6 + 35 * k }, (_, i) => 1 + ((i + k) * 37) % 250);
    const ask = (k) => engine.generate({ ids: prompt(k), max_tokens: 12 + k, ignore_eos: true, temperature: 0 });
    const all = [];
    for (const count of ${JSON.stringify(counts)}) {
      const ids = [];
      let dispatches;
      if (${maxSequences} === 1) {
        for (let k = 0; k < count; k++) ids.push((await ask(k).result).token_ids);
      } else {
        const results = await Promise.all(Array.from({ length: count }, (_, k) => ask(k).result));
        ids.push(...results.map(({ token_ids }) => token_ids));
        dispatches = results[0].gpu_per_token.dispatches;
      }
      all.push({ ids, dispatches });
    }
    await engine.close();
    console.log(JSON.stringify(all));`;
  const file = path.join(temporaryFolder(t), 'together.mjs');
  fs.writeFileSync(file, script);
  const env = { ...process.env, ...lavapipeEnvironment() };
  const { status, stdout, stderr } = spawnSync(process.execPath, [file], {
    ...{ env, encoding: 'utf8', timeout: kLimitMs },
  });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

const counts = [1, 2, 3, 5, 8, 1];

test('replies at once are what each is alone, by the chain and by the resident plan', (t) => {
  const [alone] = replies(t, { plan: 'fused', maxSequences: 1, counts: [8] });
  assert.equal(new Set(alone.ids.map(String)).size, 8);
  for (const plan of ['fused', 'resident-1']) {
    const together = replies(t, { plan, maxSequences: 8, counts });
    together.forEach(({ ids, dispatches }, i) => {
      assert.deepEqual(ids, alone.ids.slice(0, counts[i]), `${plan}, ${counts[i]} replies`);
      // Of a layer in place of five of them.
      if (plan === 'resident-1') assert.ok(dispatches <= 5, `${dispatches}`);
    });
  }
});
