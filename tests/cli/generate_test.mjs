// What the command line promises: replies, figures, --json, Ctrl-C, the other verbs.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { describe, test } from 'node:test';
import {
  kNode20,
  kRoot,
  kTiny,
  kTinyModel,
  run,
  runJson,
  start,
  temporaryFolder,
  waitForOutput,
} from './support.mjs';

const tiny = ['--model', kTinyModel];
const greedy = ['--temperature', '0'];
const kIds = '15,20,208,237,189,187,24';

describe('a reply', () => {
  test('the first greedy token is the best of llama.cpp', async () => {
    const reference = JSON.parse(fs.readFileSync(path.join(kTiny, 'llama_tied.json'), 'utf8'));
    const chosen = reference.cases.find((one) => one.ids.join(',') === kIds);
    const best = chosen.steps.find((step) => step.pos === chosen.ids.length - 1).ids[0];
    const { json } = await runJson(['--ids', kIds, '--max-tokens', '3', ...greedy, ...tiny]);
    assert.equal(json.token_ids[0], best);
    assert.deepEqual(json.prompt_ids, chosen.ids);
  });

  test('the object has exactly the fields of the contract', async () => {
    const words = ['--ids', kIds, '--max-tokens', '5', '--logprobs', '3', '--ignore-eos', ...tiny];
    const { json, status, stderr } = await runJson(words);
    assert.equal(status, 0);
    assert.equal(stderr, '');
    assert.deepEqual(Object.keys(json), [
      ...['text', 'token_ids', 'prompt_ids', 'finish_reason', 'model', 'host', 'backend', 'reason'],
      ...['adapter', 'threads', 'dispatches_per_token', 'submits_per_token', 'waits_per_token'],
      ...['uploads_per_token', 'readback_bytes_per_token', 'barriers_per_token', 'load_ms'],
      ...['ttft_ms'],
      ...['prefill_tok_s', 'decode_tok_s', 'peak_memory_bytes', 'seed', 'logprobs'],
    ]);
    assert.equal(json.token_ids.length, 5);
    assert.equal(json.finish_reason, 'length');
    assert.equal(json.host, 'node');
    assert.equal(json.backend, 'cpu-relaxed');
    assert.equal(json.dispatches_per_token, null);
    assert.equal(json.adapter, null);
    assert.equal(json.logprobs.length, 5);
    for (const { top_ids, top_logprobs, top_logits } of json.logprobs) {
      assert.deepEqual([top_ids.length, top_logprobs.length, top_logits.length], [3, 3, 3]);
      assert.ok(top_logprobs[0] <= 0 && top_logprobs[0] >= top_logprobs[1]);
      // Log-probabilities and logits differ by one constant.
      const shift = top_logits[0] - top_logprobs[0];
      assert.ok(Math.abs(top_logits[2] - top_logprobs[2] - shift) < 1e-3);
    }
    assert.ok(json.peak_memory_bytes >= 16 * 1024 * 1024);
    assert.ok(json.load_ms > 0 && json.ttft_ms > 0 && json.decode_tok_s > 0);
  });

  test('the verb may be named', async () => {
    const words = ['hi', '--max-tokens', '3', ...greedy, ...tiny];
    const { json } = await runJson(['generate', ...words]);
    assert.deepEqual(json.token_ids, (await runJson(words)).json.token_ids);
  });

  test('a seed decides the reply; without one it is random and told', async () => {
    const words = [
      '--ids',
      kIds,
      '--max-tokens',
      '20',
      '--temperature',
      '2',
      '--ignore-eos',
      ...tiny,
    ];
    const first = await runJson([...words, '--seed', '7']);
    const again = await runJson([...words, '--seed', '7']);
    const free = await runJson(words);
    const repeated = await runJson([...words, '--seed', String(free.json.seed)]);
    assert.deepEqual(again.json.token_ids, first.json.token_ids);
    assert.deepEqual(repeated.json.token_ids, free.json.token_ids);
    assert.notDeepEqual(free.json.token_ids, first.json.token_ids);
  });

  test('text on stdout, one line of figures on stderr', async () => {
    const words = ['--ids', kIds, '--max-tokens', '4', ...greedy, ...tiny];
    const plain = await run(words);
    const { json } = await runJson(words);
    assert.equal(plain.stdout, `${json.text}\n`);
    assert.match(
      plain.stderr,
      /^\S*llama_tied\.gguf · cpu-relaxed, 1 thread · .* wrote \d+ at [^\n]*\n$/,
    );
  });

  test("the README's example is what the program prints", async () => {
    const readme = fs.readFileSync(path.join(kRoot, 'README.md'), 'utf8');
    const [, text, reply] = /\n\$ \.\/run --temperature 0 "(.*)"\n([^]*?)\n[^\n]* · stop\n```/.exec(
      readme,
    );
    assert.equal((await run([text, ...greedy])).stdout, `${reply}\n`);
  });

  test('a logit bias forbids and forces', async () => {
    const words = ['--ids', kIds, '--max-tokens', '1', ...greedy, ...tiny];
    const { json } = await runJson(words);
    const [best] = json.token_ids;
    const without = await runJson([...words, '--logit-bias', `${best}=-inf`]);
    assert.notEqual(without.json.token_ids[0], best);
    const forced = await runJson([...words, '--logit-bias', '77=1000']);
    assert.deepEqual(forced.json.token_ids, [77]);
    const biases = ['77=1000', '78=1000', '77=0', '78=-inf'].flatMap((bias) => [
      '--logit-bias',
      bias,
    ]);
    assert.deepEqual((await runJson([...words, ...biases])).json.token_ids, [77]);
  });

  test('a stop string ends the reply before it', async () => {
    const words = ['--ids', kIds, '--max-tokens', '30', '--ignore-eos', ...greedy, ...tiny];
    const { json } = await runJson(words);
    const stop = json.text.slice(3, 6);
    const cut = await runJson([...words, '--stop', stop]);
    assert.equal(cut.json.text, json.text.slice(0, json.text.indexOf(stop)));
    assert.equal(cut.json.finish_reason, 'stop');
  });

  test('a base model says that it continues the text; --raw does not', async () => {
    const base = await run(['hi', '--max-tokens', '1', ...tiny]);
    assert.match(base.stderr, /is a base model \(no chat template\): it continues the text/);
    const raw = await run(['hi', '--max-tokens', '1', '--raw', ...tiny]);
    assert.doesNotMatch(raw.stderr, /base model/);
    const ids = (await runJson(['hi', '--max-tokens', '1', ...tiny])).json.prompt_ids;
    assert.deepEqual(ids, (await runJson(['tokenize', 'hi', ...tiny])).json.ids);
  });

  test('a template of the caller, and a prompt from stdin', async (t) => {
    const file = path.join(temporaryFolder(t), 'chat.jinja');
    fs.writeFileSync(file, '{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}>');
    const words = ['-', '--template', file, '--system', 'S', '--max-tokens', '1', ...tiny];
    const { json } = await runJson(words, { input: 'hé' });
    const rendered = await runJson(['tokenize', '[system]S[user]hé>', ...tiny]);
    assert.deepEqual(json.prompt_ids, rendered.json.ids);
  });
});

/** The files that a process has open now. */
function openFiles(pid) {
  const folder = `/proc/${pid}/fd`;
  return fs.readdirSync(folder).flatMap((fd) => {
    try {
      return [fs.readlinkSync(`${folder}/${fd}`)];
    } catch {
      return []; // closed meanwhile
    }
  });
}

/** The process of the one Chromium whose profile lies in this folder. */
function chromiumOf(folder) {
  const [profile] = fs.readdirSync(folder).filter((name) => name.startsWith('nonstop-chromium-'));
  const lock = fs.readlinkSync(path.join(folder, profile, 'SingletonLock')); // HOST-PID
  return Number(/\d+$/.exec(lock)[0]);
}

async function until(condition) {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** A server without an answer yet, and the URL of a model on it; gone with the test. */
async function localServer(t) {
  const server = http.createServer();
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, url: `http://127.0.0.1:${server.address().port}/m.gguf` };
}

describe('Ctrl-C', () => {
  for (const words of [['-'], ['tokenize', '-']]) {
    test(`ends the wait for a prompt from stdin (${words.join(' ')})`, async () => {
      const { child, done } = start([...words, '--json', ...tiny], { input: null });
      // It has read this, and waits for the rest.
      await new Promise((resolve) => child.stdin.write('a'.repeat(1 << 20), resolve));
      child.kill('SIGINT');
      const { status, stdout } = await done;
      assert.equal(status, 130);
      assert.equal(JSON.parse(stdout).error.code, 'aborted');
    });
  }

  test('ends the tokens of a long text as an error', async (t) => {
    const bytes = fs.readFileSync(kTinyModel);
    const { server, url } = await localServer(t);
    const input = 'a'.repeat(4_000_000); // as many tokens: seconds of work
    const { child, done } = start(['tokenize', '-', '--model', url, '--no-cache', '--json'], {
      input,
    });
    // All but the file's last byte: the program reads the header, then hangs up and goes to work.
    await new Promise((resolve) =>
      server.once('request', (_request, response) => {
        response.writeHead(200, { 'content-length': bytes.length });
        response.write(bytes.subarray(0, -1));
        response.once('close', resolve);
      }),
    );
    child.kill('SIGINT');
    const { status, stdout } = await done;
    assert.equal(status, 130);
    assert.equal(JSON.parse(stdout).error.code, 'aborted');
  });

  test('a scoring that is stopped is an error, never half a result', async () => {
    const many = Array.from({ length: 4000 }, () => 5).join(',');
    const words = ['score', '--ids', '1', '--continue', many, '--logprobs', '1', '--json'];
    const { child, done } = start(words); // the real model: minutes of work
    const reads = () => openFiles(child.pid).some((file) => file.endsWith('.gguf'));
    await until(reads);
    await until(() => !reads()); // loaded: the scoring begins
    child.kill('SIGINT');
    const { status, stdout } = await done;
    assert.equal(status, 130);
    assert.equal(JSON.parse(stdout).error.code, 'aborted');
  });

  const long_reply = ['--ids', kIds, '--max-tokens', '0', '--ignore-eos', '--context', '2000'];
  // coreutils' `timeout` signals the program, and then its group.
  for (const signals of [['SIGINT'], ['SIGTERM', 'SIGINT'], ['SIGINT', 'SIGHUP', 'SIGTERM']]) {
    test(`ends the reply with its figures and status 130 (${signals.join(', ')})`, async () => {
      const { child, done } = start([...long_reply, ...tiny, '--backend-reference']);
      await new Promise((resolve) => child.stdout.once('data', resolve));
      for (const name of signals) child.kill(name);
      const { status, stderr } = await done;
      assert.equal(status, 130);
      assert.match(stderr, / · abort\n$/);
    });
  }

  test('while a model stalls on its way ends the wait, as an error', async (t) => {
    const bytes = fs.readFileSync(kTinyModel);
    const { server, url } = await localServer(t);
    const { child, done } = start(['hi', '--model', url, '--no-cache', '--json']);
    await new Promise((resolve) =>
      server.once('request', (_request, response) => {
        response.writeHead(200, { 'content-length': bytes.length });
        response.write(bytes.subarray(0, 100_000), resolve);
      }),
    );
    child.kill('SIGINT');
    const { status, stdout, time_ms } = await done;
    assert.equal(status, 130);
    assert.equal(JSON.parse(stdout).error.code, 'aborted');
    assert.ok(time_ms < 10_000);
  });
});

describe('other verbs', () => {
  test('score: one entry for each continued id', async () => {
    const words = ['score', '--ids', '15,20', '--continue', '208,237,189', '--logprobs', '8'];
    const { json } = await runJson([...words, '--activations', 'f32', '--kv', 'f32', ...tiny]);
    assert.equal(json.steps.length, 3);
    const reference = JSON.parse(fs.readFileSync(path.join(kTiny, 'llama_tied.json'), 'utf8'));
    const chosen = reference.cases.find((one) => one.ids.join(',') === kIds);
    const want = chosen.steps.find((step) => step.pos === 3);
    assert.deepEqual(json.steps[2].top_ids, want.ids);
  });

  test('score: nothing continued has no steps, and a step has five tokens unless told', async () => {
    const empty = await runJson(['score', '--ids', '1', '--continue', '', ...tiny]);
    assert.deepEqual([empty.status, empty.json.steps], [0, []]);
    const { json } = await runJson(['score', '--ids', '1', '--continue', '2,3', ...tiny]);
    assert.deepEqual(
      json.steps.map(({ top_ids }) => top_ids.length),
      [5, 5],
    );
  });

  test("tokenize: llama.cpp's ids of the default model, both ways", async () => {
    const golden = JSON.parse(
      fs.readFileSync(path.join(kRoot, 'tests/data/golden_tokens.json'), 'utf8'),
    );
    const tokens = golden.smollm2.tokens.filter(({ text }) => !text.startsWith('-'));
    for (const { text, ids, ids_special } of tokens.slice(0, 6)) {
      const special = await runJson(['tokenize', text]);
      assert.deepEqual(special.json.ids, ids_special, text);
      const plain = await runJson(['tokenize', '--no-special', text]);
      assert.deepEqual(plain.json.ids, ids, text);
      if (ids.length === 0) continue;
      const back = await runJson(['tokenize', '--ids', ids.join(',')]);
      assert.equal(back.json.text, text);
    }
  });

  test('tokenize: the piece of each id', async () => {
    const { json } = await runJson(['tokenize', '<|im_start|>é 🦙 words']);
    assert.equal(json.pieces.length, json.ids.length);
    assert.deepEqual([json.pieces[0], json.pieces.at(-1)], ['<|im_start|>', ' words']);
    const plain = await run(['tokenize', '<|im_start|>é 🦙 words']);
    const lines = json.ids.map((id, i) => `${id}\t${JSON.stringify(json.pieces[i])}\n`);
    assert.equal(plain.stdout, lines.join(''));
  });

  test('plan: graph, steps and memory from the header alone', async (t) => {
    const header = path.join(temporaryFolder(t), 'header.gguf');
    fs.copyFileSync(kTinyModel, header);
    for (const what of ['graph', 'steps', 'memory']) {
      const { stdout, status } = await run(['plan', '--model', header, '--what', what]);
      assert.equal(status, 0);
      assert.ok(stdout.length > 100, what);
    }
    const rows = await run(['plan', '--model', header, '--rows', '64', '--what', 'memory']);
    const one = await run(['plan', '--model', header, '--what', 'memory']);
    assert.notEqual(rows.stdout, one.stdout);
  });

  test('help names every verb', async () => {
    const { stdout, status } = await run(['--help']);
    assert.equal(status, 0);
    for (const verb of ['serve', 'score', 'tokenize', 'plan'])
      assert.match(stdout, new RegExp(`\\n  ${verb} `));
    for (const words of [
      ['--help', '--json'],
      ['two', 'words', '--nope', '--seed', 'x', '-h'],
    ]) {
      const other = await run(words);
      assert.deepEqual([other.status, other.stdout, other.stderr], [0, stdout, '']);
    }
  });

  test('serve: prints its URL, isolates the page, ends with Ctrl-C', async () => {
    const { child, done } = start(['serve', '--port', '0', ...tiny]);
    const url = await new Promise((resolve) =>
      child.stdout.once('data', (text) => resolve(String(text).trim())),
    );
    const page = await fetch(url);
    assert.match(await page.text(), /<title>Nonstop<\/title>/);
    assert.equal(page.headers.get('document-isolation-policy'), 'isolate-and-credentialless');
    const [first] = await (await fetch(`${url}models.json`)).json();
    assert.deepEqual(first, {
      name: 'llama_tied.gguf',
      url: '/models/0/llama_tied.gguf',
      size_bytes: fs.statSync(kTinyModel).size,
    });
    child.kill('SIGINT');
    assert.equal((await done).status, 0);
  });

  test('serve: each model is delivered under its own URL, whatever its name', async (t) => {
    const folder = temporaryFolder(t);
    const copy = (from, to) => {
      const file = path.join(folder, to);
      fs.copyFileSync(path.join(kTiny, from), file);
      return file;
    };
    /** Serves `model` and gives the first offered one with the bytes behind its URL. */
    const serve = async (model) => {
      const env = { XDG_CACHE_HOME: folder };
      const { child, done } = start(['serve', '--port', '0', '--model', model], { env });
      t.after(() => child.kill('SIGINT'));
      const [url] = await waitForOutput(child, /^http\S+/).catch(async () => {
        throw new Error((await done).stderr);
      });
      const [first] = await (await fetch(`${url}models.json`)).json();
      const get = async (at) => Buffer.from(await (await fetch(new URL(at, url))).arrayBuffer());
      return { first, get };
    };
    const good = fs.readFileSync(kTinyModel);
    // The name of the catalogue's file, and names that a URL would cut.
    const names = ['smollm2-135m-instruct.gguf', 'a #1? 100%25.gguf'];
    for (const name of names) {
      const { first, get } = await serve(copy('llama_tied.gguf', name));
      assert.deepEqual([first.name, first.size_bytes], [name, good.length]);
      assert.ok((await get(first.url)).equals(good), name);
    }
    const parts = [1, 2, 3].map((part) => `split-0000${part}-of-00003.gguf`);
    const [split] = parts.map((part) => copy(part, part));
    const { first, get } = await serve(split);
    const bytes = await Promise.all(
      parts.map((_, i) => get(first.url.replace('00001', `0000${i + 1}`))),
    );
    parts.forEach((part, i) => assert.ok(bytes[i].equals(fs.readFileSync(path.join(kTiny, part)))));
    assert.equal(first.size_bytes, Buffer.concat(bytes).length);
    const { server, url } = await localServer(t);
    server.on('request', (_request, response) => response.end(good));
    const remote = await serve(url);
    assert.equal(remote.first.name, 'm.gguf');
    assert.ok((await remote.get(remote.first.url)).equals(good));
  });

  test('serve --json: one object with the URL, and nothing else', async () => {
    const { child, done } = start(['serve', '--port', '0', '--json', ...tiny]);
    const line = await new Promise((resolve) => child.stdout.once('data', resolve));
    const { url, ...others } = JSON.parse(line);
    assert.deepEqual(others, {});
    assert.equal((await fetch(url)).status, 200);
    child.kill('SIGINT');
    const { status, stdout, stderr } = await done;
    assert.deepEqual([status, stdout, stderr], [0, `${JSON.stringify({ url })}\n`, '']);
  });
});

describe('hosts', () => {
  const words = ['--ids', kIds, '--max-tokens', '12', '--ignore-eos', ...greedy, ...tiny];
  test('the same greedy ids everywhere', async () => {
    const base = await runJson(words);
    const others = {
      'plain SIMD': await runJson([...words, '--build', 'simd']),
      'two threads': await runJson([...words, '--threads', '2']),
      'plain SIMD, two threads': await runJson([...words, '--threads', '2', '--build', 'simd']),
      'Node 20': await runJson(words, { node: kNode20 }),
      Chromium: await runJson([...words, '--host', 'chromium']),
    };
    for (const [name, { json }] of Object.entries(others)) {
      assert.deepEqual(json.token_ids, base.json.token_ids, name);
    }
    assert.equal(others['plain SIMD'].json.backend, 'cpu-simd');
    for (const name of ['two threads', 'plain SIMD, two threads']) {
      const { threads, barriers_per_token } = others[name].json;
      assert.equal(threads, 2);
      // Five steps in each of the two layers, and the head.
      assert.ok(barriers_per_token > 0 && barriers_per_token <= 11, `${barriers_per_token}`);
    }
    assert.equal(base.json.barriers_per_token, 0);
    assert.equal(others['Node 20'].json.backend, 'cpu-simd');
    assert.equal(others['Chromium'].json.host, 'chromium');
    assert.equal(others['Chromium'].json.backend, 'cpu-relaxed');
  });

  test("Node 20's wrong relaxed dot product is found by the self-test", async () => {
    const node_options = ['--experimental-wasm-relaxed-simd'];
    const { json } = await runJson(words, { node: kNode20, node_options });
    assert.equal(json.backend, 'cpu-simd');
    assert.match(json.reason, /failed its self-test \(dot of \(1, 1, 0\) gave 8 instead of 4\)/);
  });

  test('Chromium leaves nothing in the temporary folder, after an error either', async (t) => {
    const env = { TMPDIR: temporaryFolder(t) };
    for (const ids of ['262', '999999']) {
      const { json } = await runJson(
        ['--ids', ids, '--max-tokens', '1', '--host', 'chromium', ...tiny],
        { env },
      );
      assert.equal('error' in json, ids === '999999');
      assert.deepEqual(fs.readdirSync(env.TMPDIR), []);
    }
  });

  const endings = {
    'a reader that leaves': ({ stdout }) => stdout.destroy(),
    'a second Ctrl-C': (child, chromium) => {
      // What does not answer does not end at the first.
      process.kill(chromium, 'SIGSTOP');
      child.kill('SIGINT');
      setTimeout(() => child.kill('SIGINT'), 600); // sooner it would be the same stop
    },
  };
  for (const [name, end] of Object.entries(endings)) {
    test(`Chromium leaves nothing in the temporary folder after ${name}`, async (t) => {
      const env = { TMPDIR: temporaryFolder(t) };
      const long = ['--ids', kIds, '--max-tokens', '0', '--ignore-eos', '--host', 'chromium'];
      const { child, done } = start([...long, '--backend-reference', ...tiny], { env });
      await new Promise((resolve) => child.stdout.once('data', resolve));
      end(child, chromiumOf(env.TMPDIR));
      const { status, stderr } = await done;
      assert.equal(status, name === 'a second Ctrl-C' ? 130 : 0, stderr);
      assert.equal(stderr, '');
      assert.deepEqual(fs.readdirSync(env.TMPDIR), []);
    });
  }

  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    test(`${name} to the whole group ends a reply in Chromium with its figures`, async () => {
      const long = ['--ids', kIds, '--max-tokens', '0', '--ignore-eos', '--host', 'chromium'];
      const reference = ['--backend-reference', '--context', '2000'];
      const { child, done } = start([...long, ...reference, ...tiny], { detached: true });
      await new Promise((resolve) => child.stdout.once('data', resolve));
      process.kill(-child.pid, name);
      const { status, stderr } = await done;
      assert.equal(status, 130, stderr);
      assert.match(stderr, / · abort\n$/);
    });
  }

  test('Chromium reads a model from a plain server, split too', async (t) => {
    const { server, url } = await localServer(t);
    server.on('request', (request, response) => {
      const { pathname, search } = new URL(request.url, url);
      const file = path.join(kTiny, path.basename(pathname));
      if (search !== '?key=1' || !fs.existsSync(file)) response.writeHead(404).end();
      else response.end(fs.readFileSync(file));
    });
    for (const name of ['llama_tied.gguf', 'split-00001-of-00003.gguf']) {
      const some = ['--ids', kIds, '--max-tokens', '3', ...greedy, '--threads', '2'];
      const base = await runJson([...some, '--model', path.join(kTiny, name)]);
      const where = ['--no-cache', '--host', 'chromium'];
      const remote = new URL(`${name}?key=1`, url).href;
      const { json } = await runJson([...some, '--model', remote, ...where]);
      assert.deepEqual([json.token_ids, json.threads], [base.json.token_ids, 2]);
      const { json: none } = await runJson([...some, '--model', `${remote}0`, ...where]);
      assert.match(none.error.message, new RegExp(`no file at "${remote.replace('?', '.')}0"`));
      assert.equal(none.error.code, 'not_found');
    }
  });

  test('threads in Chromium, on the isolated page', async () => {
    const { json } = await runJson([...words, '--host', 'chromium', '--threads', '2']);
    assert.equal(json.threads, 2);
  });

  test('an error in Chromium is the same error', async () => {
    const { json, status } = await runJson(['--ids', '999999', '--host', 'chromium', ...tiny]);
    assert.equal(json.error.code, 'invalid_argument');
    assert.equal(status, 2);
  });
});
