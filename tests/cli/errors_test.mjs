// Bad input: each case ends with one clear sentence, its code and its exit status, and nothing hangs.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { describe, test } from 'node:test';
import { kCli, kNode24, kTiny, kTinyModel, run, runJson, temporaryFolder } from './support.mjs';

const kStatus = { invalid_argument: 2, not_found: 4, network: 4, storage: 4, context_overflow: 5 };
const statusOf = (code) => {
  if (code in kStatus) return kStatus[code];
  if (code === 'template_error' || code === 'no_template') return 6;
  if (code === 'busy' || code === 'timeout') return 7;
  return code === 'backend_failed' ? 8 : 3;
};

/** Checks both forms of an error: the sentence on stderr, and the object on stdout. */
async function fails(words, code, pattern, settings) {
  const plain = await run(words, settings);
  assert.equal(plain.status, statusOf(code), plain.stderr);
  assert.equal(plain.stdout, '');
  const [line, ...rest] = plain.stderr.trimEnd().split('\n');
  assert.doesNotMatch(line, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  assert.ok(line.length < 2000);
  assert.deepEqual(rest, [], 'one line');
  assert.match(line, new RegExp(`^ERROR \\(${code}\\): .*[.?]$`));
  assert.match(line, pattern);
  const { json, status } = await runJson(words, settings);
  assert.equal(status, statusOf(code));
  assert.deepEqual(Object.keys(json), ['error']);
  assert.deepEqual(Object.keys(json.error), ['code', 'message']);
  assert.equal(json.error.code, code);
  assert.match(json.error.message, pattern);
}

const good = fs.readFileSync(kTinyModel);

/** Writes a file and asks it something. */
async function refuses(context, name, bytes, code, pattern) {
  const file = path.join(temporaryFolder(context), name);
  fs.writeFileSync(file, bytes);
  await fails(['hi', '--model', file, '--max-tokens', '1'], code, pattern);
}

function patched(offset, bytes) {
  const copy = Buffer.from(good);
  copy.set(bytes, offset);
  return copy;
}

/** Where the text `needle` lies in the good model. */
function find(needle) {
  const at = good.indexOf(needle);
  assert.ok(at > 0, `the model contains ${needle}`);
  return at;
}

describe('model files', { concurrency: 2 }, () => {
  test('empty', (t) => refuses(t, 'm.gguf', '', 'not_gguf', /empty/i));
  test('wrong magic', (t) => refuses(t, 'm.gguf', patched(0, [0x58]), 'not_gguf', /GGUF/));
  test('HTML', (t) =>
    refuses(t, 'm.gguf', '<!DOCTYPE html><html><body>Sign in</body></html>', 'not_gguf', /HTML/));
  test('a Git LFS pointer', (t) =>
    refuses(
      t,
      'm.gguf',
      `version https://git-lfs.github.com/spec/v1\noid sha256:${'0'.repeat(64)}\nsize 98362432\n`,
      'not_gguf',
      /LFS/,
    ));
  for (const size of [1, 3]) {
    test(`cut after ${size} bytes`, (t) =>
      refuses(t, 'm.gguf', good.subarray(0, size), 'truncated', /./));
  }
  for (const size of [4, 8, 20, 24, 1000, good.length - 70_000, good.length - 1]) {
    test(`cut after ${size} bytes`, (t) =>
      refuses(t, 'm.gguf', good.subarray(0, size), 'truncated', /./));
  }
  test('version 99', (t) => refuses(t, 'm.gguf', patched(4, [99]), 'unsupported_version', /99/));
  test('a huge tensor count', (t) =>
    refuses(t, 'm.gguf', patched(8, [255, 255, 255, 255, 255, 255, 255, 127]), 'malformed', /\d/));
  test('a huge metadata count', (t) =>
    refuses(t, 'm.gguf', patched(16, [255, 255, 255, 255, 255, 255, 255, 127]), 'malformed', /\d/));
  test('an unknown architecture', (t) => {
    const at = find('general.architecture') + 'general.architecture'.length + 4 + 8;
    return refuses(
      t,
      'm.gguf',
      patched(at, Buffer.from('lxxma')),
      'unsupported_architecture',
      /lxxma/,
    );
  });
  test('a missing tensor', (t) => {
    const at = find('blk.0.ffn_up.weight');
    const bytes = patched(at, Buffer.from('blk.9'));
    return refuses(t, 'm.gguf', bytes, 'missing_tensor', /blk\.0\.ffn_up\.weight/);
  });
  test('an unknown tensor type', (t) => {
    const at = find('blk.0.ffn_up.weight') + 'blk.0.ffn_up.weight'.length + 4 + 2 * 8;
    const bytes = patched(at, [200]);
    return refuses(t, 'm.gguf', bytes, 'unsupported_type', /blk\.0\.ffn_up\.weight/);
  });
  test('a tensor that begins past the end', (t) => {
    const at = find('blk.0.ffn_up.weight') + 'blk.0.ffn_up.weight'.length + 4 + 2 * 8 + 4;
    const bytes = patched(at, [0, 0, 0, 64, 0, 0, 0, 0]);
    return refuses(t, 'm.gguf', bytes, 'truncated', /blk\.0\.ffn_up\.weight.*past the end/);
  });
  test('a tensor that lies on another', (t) => {
    const at = find('blk.0.ffn_up.weight') + 'blk.0.ffn_up.weight'.length + 4 + 2 * 8 + 4;
    const bytes = patched(at, [0, 0, 0, 0, 0, 0, 0, 0]);
    return refuses(t, 'm.gguf', bytes, 'malformed', /blk\.0\.ffn_up\.weight/);
  });
  test('NaN in the weights', (t) => {
    const bytes = Buffer.from(fs.readFileSync(path.join(kTiny, 'type_f32.gguf')));
    for (let i = 1; i <= 512; i++) bytes.writeUInt32LE(0x7fc00000, bytes.length - 4 * i);
    return refuses(t, 'm.gguf', bytes, 'bad_weights', /./);
  });
  test('a file that is not there', () =>
    fails(['hi', '--model', '/nowhere/m.gguf'], 'not_found', /nowhere/));
  const pipe = (t) => {
    const file = path.join(temporaryFolder(t), 'pipe');
    execFileSync('mkfifo', [file]);
    return file;
  };
  test('a link to itself', async (t) => {
    const file = path.join(temporaryFolder(t), 'loop');
    fs.symlinkSync('loop', file);
    await fails(['hi', '--model', file], 'storage', /loop" cannot be reached \(ELOOP\)/);
    await fails(['hi', '--model', kTinyModel, '--template', file], 'storage', /ELOOP/);
  });
  test('a name that no file can have', () =>
    fails(['hi', '--model', 'm'.repeat(300)], 'storage', /ENAMETOOLONG/));
  test('a pipe', (t) => fails(['hi', '--model', pipe(t)], 'not_found', /not a file/));
  test('a pipe as a template', (t) =>
    fails(['hi', '--model', kTinyModel, '--template', pipe(t)], 'not_found', /not a file/));
  test('an endless device as cases', () =>
    fails(['score', '--model', kTinyModel, '--cases', '/dev/zero'], 'not_found', /not a file/));
  test('an endless device as a prompt', () => {
    const zeros = fs.openSync('/dev/zero', 'r');
    const words = [kCli, '-', '--model', kTinyModel];
    const { status, stderr } = spawnSync(kNode24, words, { stdio: [zeros, 'pipe', 'pipe'] });
    fs.closeSync(zeros);
    assert.equal(status, 2);
    assert.match(String(stderr), /Standard input has more than \(67108864\) bytes/);
  });
  test('a URL that is none', () =>
    fails(['hi', '--model', 'http://'], 'invalid_argument', /is no URL/));
  test('a URL with a secret, which is not repeated', () =>
    fails(
      ['hi', '--model', 'http://me:secret@127.0.0.1:9/m.gguf'],
      'invalid_argument',
      /^((?!secret).)*$/,
    ));
  test('a folder', (t) => fails(['hi', '--model', temporaryFolder(t)], 'not_found', /not a file/));
  test('serve offers what is a model only', async (t) => {
    const folder = temporaryFolder(t);
    const empty = path.join(folder, 'empty.gguf');
    fs.writeFileSync(empty, '');
    const serve = (model) => ['serve', '--port', '0', '--model', model];
    await fails(serve(folder), 'not_found', /not a file/);
    await fails(serve(empty), 'not_gguf', /empty/);
    await fails(serve(path.join(folder, 'none.gguf')), 'not_found', /no file/);
    fs.copyFileSync(
      path.join(kTiny, 'split-00001-of-00003.gguf'),
      path.join(folder, 'm-00001-of-00003.gguf'),
    );
    await fails(serve(path.join(folder, 'm-00001-of-00003.gguf')), 'not_found', /m-00002-of-00003/);
  });
  test('one part of a split model is missing', async (t) => {
    const folder = temporaryFolder(t);
    for (const part of [1, 3]) {
      const name = `split-0000${part}-of-00003.gguf`;
      fs.copyFileSync(path.join(kTiny, name), path.join(folder, name));
    }
    const model = path.join(folder, 'split-00001-of-00003.gguf');
    await fails(['hi', '--model', model], 'not_found', /split-00002-of-00003\.gguf/);
  });
  test('a split model under another name', async (t) => {
    const model = path.join(temporaryFolder(t), 'renamed.gguf');
    fs.copyFileSync(path.join(kTiny, 'split-00001-of-00003.gguf'), model);
    await fails(['hi', '--model', model], 'invalid_argument', /renamed\.gguf/);
  });
});

describe('the command line', { concurrency: 2 }, () => {
  const tiny = ['--model', kTinyModel];
  test('an unknown option', () =>
    fails(['hi', '--tempature', '1'], 'invalid_argument', /--temperature/));
  test('a number that is none', () =>
    fails(['hi', '--seed', 'x'], 'invalid_argument', /--seed.*\(x\)/));
  test('a number out of range', () =>
    fails(['hi', '--top-p', '2'], 'invalid_argument', /from 0 to 1/));
  test('a value that is missing', () =>
    fails(['hi', '--stop'], 'invalid_argument', /needs a value/));
  test('two prompts', () => fails(['hi', 'you'], 'invalid_argument', /quotes/));
  test('an empty prompt of ids', () => fails(['--ids', '', ...tiny], 'invalid_argument', /./));
  test('an empty id between others', () =>
    fails(['--ids', '1,,2', ...tiny], 'invalid_argument', /--ids.*\(2\) is empty/));
  test('nothing as a model', () =>
    fails(['hi', '--model', ''], 'invalid_argument', /--model" is empty/));
  test('more rows of a step than the engine takes', () =>
    fails(['hi', '--prefill-chunk', '4097', ...tiny], 'invalid_argument', /4096, not \(4097\)/));
  test('an id outside the vocabulary', () =>
    fails(['--ids', '1,999999', ...tiny], 'invalid_argument', /999999/));
  test('an id outside the vocabulary, to text', () =>
    fails(['tokenize', '--ids', '1,999999', ...tiny], 'invalid_argument', /999999.*vocabulary/));
  test('a biased id outside the vocabulary', () =>
    fails(['--ids', '1', '--logit-bias', '999999=1', ...tiny], 'invalid_argument', /999999/));
  test('score without ids', () => fails(['score', ...tiny], 'invalid_argument', /--continue/));
  test('score without a token to list', () =>
    fails(
      ['score', '--ids', '1', '--continue', '2', '--logprobs', '0', ...tiny],
      'invalid_argument',
      /at least one token of each step, not \(0\)/,
    ));
  for (const cases of [
    '[{"ids":[4294967298],"continue":[3]}]',
    '[{"ids":[3],"continue":[-4e9]}]',
  ]) {
    test(`cases with an id of more than 32 bits (${cases})`, (t) => {
      const file = path.join(temporaryFolder(t), 'cases.json');
      fs.writeFileSync(file, cases);
      const words = ['score', '--cases', file, ...tiny];
      return fails(words, 'invalid_argument', /\((4294967298|-4000000000)\) is no whole number/);
    });
  }
  test('cases that are no JSON', (t) => {
    const file = path.join(temporaryFolder(t), 'cases.json');
    fs.writeFileSync(file, '{');
    return fails(['score', '--cases', file, ...tiny], 'invalid_argument', /cases\.json/);
  });
  test('a plan of another name', () =>
    fails(['plan', '--plan', 'no', ...tiny], 'invalid_argument', /\(no\)/));
  test('a prompt longer than the context', () =>
    fails(
      ['--ids', Array(40).fill('5').join(','), '--context', '32', ...tiny],
      'context_overflow',
      /\(40\).*\(32\)/,
    ));
  test('a GPU where there is none', () =>
    fails(['hi', '--device', 'webgpu', ...tiny], 'backend_failed', /WebGPU/));
  test('a system message without a template', () =>
    fails(['hi', '--system', 'x', ...tiny], 'no_template', /no chat template/));
});

describe('chat templates', { concurrency: 2 }, () => {
  const hostile = {
    'endless loops':
      '{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}',
    'a slow lexer': `x${' '.repeat(250_000)}{% if x %}`,
    'doubling text':
      "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    'its own refusal': "{{ raise_exception('no such role') }}",
    'its own refusal, with control characters':
      "{{ raise_exception('\x1b[2J\x07\u202e' ~ '\\n' ~ 'ERROR (ok): fine') }}",
    'its own refusal, at length':
      "{% set ns = namespace(s='ab') %}{% for i in range(19) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}" +
      '{{ raise_exception(ns.s) }}',
    'no text': '{# nothing #}',
    'a syntax error': '{% for %}',
    'a long source': 'x'.repeat(300_000),
  };
  for (const [name, template] of Object.entries(hostile)) {
    test(name, async (t) => {
      const file = path.join(temporaryFolder(t), 'chat.jinja');
      fs.writeFileSync(file, template);
      const words = ['hi', '--template', file, '--model', kTinyModel];
      await fails(words, 'template_error', /[Tt]emplate/);
    });
  }
  test('a file that is not there', () =>
    fails(['hi', '--template', '/nowhere/x', '--model', kTinyModel], 'not_found', /nowhere/));
});

describe('network and disk', () => {
  async function serve(t, handler) {
    const server = http.createServer(handler);
    t.after(() => {
      server.close();
      server.closeAllConnections();
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${server.address().port}/m.gguf`;
  }
  const sendModel = (_request, response) => response.end(good);

  test('nobody answers', async (t) => {
    const server = http.createServer();
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${server.address().port}/m.gguf`;
    await new Promise((resolve) => server.close(resolve));
    const env = { XDG_CACHE_HOME: temporaryFolder(t) };
    const pattern = /after \(4\) attempts: connect ECONNREFUSED/;
    await fails(['hi', '--model', url], 'network', pattern, { env });
  });
  for (const extra of [[], ['--no-cache']]) {
    test(`a redirect to a file is not followed, nor tried again ${extra}`, async (t) => {
      let count = 0;
      const url = await serve(t, (_request, response) => {
        count += 1;
        response.writeHead(302, { location: 'file:///etc/passwd' }).end();
      });
      const env = { XDG_CACHE_HOME: temporaryFolder(t) };
      const pattern = /redirects to what is neither http: nor https:/;
      await fails(['hi', '--model', url, ...extra], 'network', pattern, { env });
      assert.equal(count, 2); // `fails` runs the program twice
    });
  }
  test('another scheme', () =>
    fails(['hi', '--model', 'ftp://h/m.gguf'], 'invalid_argument', /scheme \(ftp:\)/));
  test('no file at the URL', async (t) => {
    const url = await serve(t, (_request, response) => response.writeHead(404).end());
    await fails(['hi', '--model', url, '--no-cache'], 'not_found', /HTTP 404/);
  });
  test('a page in place of a model', async (t) => {
    const url = await serve(t, (_request, response) => response.end('<html>Sign in</html>'));
    const env = { XDG_CACHE_HOME: temporaryFolder(t) };
    await fails(['hi', '--model', url], 'not_gguf', /HTML/, { env });
  });
  test('a cache folder that cannot be written', async (t) => {
    const url = await serve(t, sendModel);
    const file = path.join(temporaryFolder(t), 'file');
    fs.writeFileSync(file, '');
    await fails(['hi', '--model', url], 'storage', /XDG_CACHE_HOME.*--no-cache/, {
      env: { XDG_CACHE_HOME: file },
    });
  });
  test('a cache folder in a file system that refuses', async (t) => {
    const url = await serve(t, sendModel);
    await fails(['hi', '--model', url], 'storage', /XDG_CACHE_HOME/, {
      env: { XDG_CACHE_HOME: '/proc/nowhere' },
    });
  });
  test('a full disk behind the output', async () => {
    const full = fs.openSync('/dev/full', 'w');
    const words = [kCli, '--ids', '262', '--max-tokens', '2', '--model', kTinyModel, '--json'];
    const { status, stderr } = spawnSync(kNode24, words, { stdio: ['ignore', full, 'pipe'] });
    fs.closeSync(full);
    assert.equal(status, 4);
    assert.equal(String(stderr), 'ERROR (storage): The output cannot be written (ENOSPC).\n');
  });
  test('a full disk behind the figures leaves the reply whole', async () => {
    const full = fs.openSync('/dev/full', 'w');
    // A note about the base model comes before the reply.
    const words = [kCli, 'hi', '--max-tokens', '8', '--temperature', '0', '--model', kTinyModel];
    const whole = spawnSync(kNode24, words);
    const { status, stdout } = spawnSync(kNode24, words, { stdio: ['ignore', 'pipe', full] });
    fs.closeSync(full);
    assert.equal(status, 0);
    assert.ok(whole.stdout.length > 1);
    assert.deepEqual(stdout, whole.stdout);
  });
  test('a model by URL, cached, and without a cache', async (t) => {
    const url = await serve(t, sendModel);
    const folder = temporaryFolder(t);
    const words = ['--ids', '262', '--max-tokens', '2', '--temperature', '0', '--model', url];
    const first = await runJson(words, { env: { XDG_CACHE_HOME: folder } });
    assert.equal(first.status, 0, first.stdout);
    const [model] = fs.readdirSync(path.join(folder, 'nonstop/models'));
    const kept = fs.readFileSync(path.join(folder, 'nonstop/models', model, 'm.gguf'));
    assert.ok(kept.equals(good));
    const direct = await runJson([...words, '--no-cache'], { env: { XDG_CACHE_HOME: '/nowhere' } });
    assert.deepEqual(direct.json.token_ids, first.json.token_ids);
  });
  test('a model that came cut is not kept', async (t) => {
    let bytes = good.subarray(0, -1000);
    const url = await serve(t, (_request, response) => response.end(bytes));
    const env = { XDG_CACHE_HOME: temporaryFolder(t) };
    const pattern = /deleted from the cache; the next run downloads it anew\.$/;
    await fails(['--ids', '262', '--model', url], 'truncated', pattern, { env });
    await fails(['serve', '--port', '0', '--model', url], 'truncated', pattern, { env });
    assert.deepEqual(fs.readdirSync(env.XDG_CACHE_HOME), []);
    bytes = good;
    const words = ['--ids', '262', '--max-tokens', '1', '--model', url];
    assert.equal((await runJson(words, { env })).status, 0);
  });
  test('a port in use', async (t) => {
    const url = await serve(t, sendModel);
    const pattern = /Port \(\d+\) is in use; choose another with --port\.$/;
    await fails(['serve', '--port', new URL(url).port], 'busy', pattern);
  });
});
