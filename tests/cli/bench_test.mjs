// ./run bench cpu on a tiny model: every row is there, finite and in its unit. What it measures there is
// of no interest.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { kRoot, kTinyModel, run, start, temporaryFolder } from './support.mjs';

const words = ['bench', 'cpu', '--quick', '--model', kTinyModel];

/** What the tiny model's 291 ids and short context leave of the quick plan, with the units. */
const kUnits = {
  read: ['GB/s'],
  'kernel-q8_0': ['GB/s', 'GOP/s'],
  'kernel-q8_0-x64': ['GOP/s'],
  'decode-0': ['GB/s', 'tok/s'],
  'prefill-32': ['tok/s'],
  'prefill-64': ['tok/s'],
  'prefill-430': ['tok/s'],
  'sequences-1': ['tok/s'],
  'sequences-8': ['tok/s'],
  facts: ['MB', 'MB bound', 'barriers/token'],
};
/** In both builds; the others in the one that is chosen. */
const kBothBuilds = ['decode-0', 'prefill-430'];
const kHosts = ['chromium', 'node'];

function expectedRows() {
  return Object.entries(kUnits).flatMap(([what, units]) => {
    const builds = kBothBuilds.includes(what) ? ['relaxed', 'simd'] : ['relaxed'];
    return units.flatMap((unit) =>
      kHosts.flatMap((host) => builds.map((build) => `${what} ${unit} ${host} ${build} 2`)),
    );
  });
}

describe('bench cpu', () => {
  test('a quick run on a tiny model has all rows, finite and in their units', async (context) => {
    const output = path.join(temporaryFolder(context), 'result.json');
    const result = await run([...words, '--threads', '2', '--json', output]);
    assert.equal(result.status, 0, result.stderr);
    const json = JSON.parse(fs.readFileSync(output, 'utf8'));
    assert.deepEqual([json.schema, json.complete, json.quick, json.rounds], [1, true, true, 3]);
    assert.deepEqual(json.failures, []);
    const found = json.rows.map(
      (row) => `${row.what} ${row.unit} ${row.host} ${row.build} ${row.threads}`,
    );
    assert.deepEqual(found.sort(), expectedRows().sort());
    for (const { what, median, min, max, samples, software, model } of json.rows) {
      assert.equal(samples.length, what === 'facts' ? 1 : 3);
      assert.ok(
        samples.every((value) => Number.isFinite(value) && value > 0),
        what,
      );
      assert.ok(min <= median && median <= max, what);
      assert.deepEqual([software, model], ['nonstop', 'llama_tied.gguf']);
    }
    // The kernels' share of plain reading, and memory against its bound.
    const shares = json.rows.filter(({ unit, what }) => unit === 'GB/s' && what !== 'read');
    for (const { ratios } of shares) assert.ok(ratios.some(({ to }) => to === 'read'));
    const [memory] = json.rows.filter(({ unit }) => unit === 'MB');
    assert.ok(memory.ratios[0].to === 'bound' && memory.ratios[0].median < 1);
    assert.match(json.versions.chromium, /^\d+(\.\d+)+$/);
    assert.ok(json.machine.cores > 0 && typeof json.machine.flags.avx2 === 'boolean');
    assert.match(result.stdout, /^model +what +subject +median +min +max +unit +of read/);
    assert.match(result.stderr, /round 1\/3: .* left/);
  });

  test('one thread, without Chromium, some measurements only, JSON on stdout', async () => {
    const some = ['--host', 'node', '--threads', '1', '--only', 'read,prefill-32', '--json', '-'];
    const { status, stdout, stderr } = await run([...words, ...some]);
    assert.equal(status, 0, stderr);
    const { rows, versions } = JSON.parse(stdout);
    assert.deepEqual(
      rows.map(({ what, threads }) => [what, threads]),
      [
        ['read', 1],
        ['prefill-32', 1],
      ],
    );
    assert.equal(versions.chromium, null);
    assert.match(stderr, /^model +what/m);
  });

  test('a subject that does not start is named, and the program ends', async (context) => {
    // The built program elsewhere, without the modules of the kernels.
    const root = temporaryFolder(context);
    for (const folder of ['apps/cli/dist', 'web/dist', 'bench/dist']) {
      fs.cpSync(path.join(kRoot, folder), path.join(root, folder), {
        recursive: true,
        filter: (file) => !/bench-[^/]*\.wasm$/.test(file),
      });
    }
    fs.mkdirSync(path.join(root, 'tools'));
    fs.copyFileSync(path.join(kRoot, 'tools/pins.json'), path.join(root, 'tools/pins.json'));
    fs.symlinkSync(path.join(kRoot, 'node_modules'), path.join(root, 'node_modules'));
    const some = ['--host', 'node', '--threads', '1', '--only', 'read', '--json', '-'];
    const cli = path.join(root, 'apps/cli/dist/cli.mjs');
    const { status, signal, stdout, stderr } = await run([...words, ...some], { cli });
    assert.deepEqual([status, signal], [1, null]);
    assert.match(stderr, /^FAILED: llama_tied\.gguf, start, .*bench-relaxed\.wasm/m);
    assert.equal(JSON.parse(stdout).failures.length, 1);
  });

  test('Ctrl-C ends it and keeps what there is', async (context) => {
    const output = path.join(temporaryFolder(context), 'result.json');
    const some = ['--host', 'node', '--only', 'read,kernel', '--json', output];
    const { child, done } = start([...words, ...some]);
    child.stderr.on('data', (text) => {
      if (/round 2/.test(text)) child.kill('SIGINT');
    });
    const { status, stderr } = await done;
    assert.equal(status, 130, stderr);
    const json = JSON.parse(fs.readFileSync(output, 'utf8'));
    assert.equal(json.complete, false);
    assert.ok(json.rows.length > 0 && json.rows.every(({ samples }) => samples.length < 3));
    assert.deepEqual(json.failures, []);
  });

  test('what is wrong is said before anything is measured', async () => {
    const cases = [
      [['bench'], /measures cpu or webgpu, not \(nothing\)/],
      [['bench', 'gpu'], /measures cpu or webgpu, not \(gpu\)/],
      [[...words, '--only', 'decoding'], /\(decoding\) is none of those/],
      [[...words, '--json', '/nowhere/x.json'], /folder "\/nowhere" cannot be written/],
      [['bench', 'cpu', '--model', 'nothing.gguf'], /There is no file "nothing.gguf"/],
      [[...words, '--pack', 'x'], /"--pack" does not belong to "bench cpu"/],
      [['bench', 'webgpu', '--pack', 'x', '--quick'], /"--quick" does not go with "--pack"/],
      [['bench', 'webgpu', '--threads', '2'], /"--threads" does not belong to "bench webgpu"/],
      [[...words, '--seed', '1'], /"--seed" belongs to "generate", not to "bench"/],
    ];
    for (const [line, message] of cases) {
      const { status, stderr, stdout } = await run(line);
      assert.match(stderr, message);
      assert.ok(status > 1, `${line} ends with ${status}`);
      assert.equal(stdout, '');
    }
  });
});
