// The chat page in Chromium: loads, streams, stops, says what went wrong, and stays within its policy.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { ask, kTinyModel, loadModel, openPage, temporaryFolder } from './support.mjs';

const tiny = ['--model', kTinyModel];

test('a tiny model: progress, a streamed reply, figures, no console errors', async (t) => {
  const { page, problems } = await openPage(t, tiny);
  assert.match(await page.textContent('#model'), /llama_tied\.gguf \(0\.2 MB\)/);
  await loadModel(page);
  assert.match(
    await page.textContent('#figures'),
    /ready on cpu-relaxed, \d+ threads?\. Relaxed SIMD/,
  );
  const pieces = await page.evaluate(() => {
    const counted = { count: 0 };
    globalThis.counted = counted;
    new MutationObserver((records) => (counted.count += records.length)).observe(
      document.querySelector('#log'),
      { childList: true, subtree: true },
    );
    return counted.count;
  });
  assert.equal(pieces, 0);
  const text = await ask(page, 'Hello');
  assert.ok(text.length > 0);
  assert.ok((await page.evaluate(() => globalThis.counted.count)) > 4, 'the reply came in pieces');
  assert.match(await page.textContent('#figures'), /tokens\/s · first token after \d+ ms/);
  assert.deepEqual(problems, []);
});

test('stop ends a reply, and the next one works', async (t) => {
  const { page, problems } = await openPage(t, ['--model', 'smollm2-135m-instruct']);
  await loadModel(page);
  await page.fill('#prompt', 'Write a very long story about the sea.');
  await page.press('#prompt', 'Enter');
  await page.waitForFunction(
    () => (document.querySelector('.assistant')?.textContent ?? '') !== '',
  );
  await page.click('#stop');
  await page.waitForSelector('#send:not([hidden])');
  assert.match(await page.textContent('#figures'), /ended: abort/);
  assert.ok((await ask(page, 'Say hello.')).length > 0);
  assert.equal(await page.locator('#log li').count(), 4);
  assert.deepEqual(problems, []);
});

/** How far the conversation's end is below what is seen. */
const belowTheFold = (page) =>
  page.evaluate(() => {
    const main = document.querySelector('main');
    return main.scrollHeight - main.clientHeight - main.scrollTop;
  });

test('the end of a reply is in view, and who scrolls up is left there', async (t) => {
  const viewport = { width: 360, height: 560 };
  const { page } = await openPage(t, ['--model', 'smollm2-135m-instruct'], { viewport });
  await loadModel(page);
  const length = () => page.evaluate(() => document.querySelector('#log').textContent.length);
  const moreThan = (count) =>
    page.waitForFunction(
      (limit) => document.querySelector('#log').textContent.length > limit,
      count,
    );
  const ask_for_story = async () => {
    await page.fill('#prompt', 'Write a very long story about the sea.');
    await page.press('#prompt', 'Enter');
    await moreThan((await length()) + 400);
  };
  await ask_for_story();
  assert.ok((await belowTheFold(page)) < 2);
  // Then the figures that come, in large type, make the footer higher.
  await page.evaluate(() => {
    const figures = document.querySelector('#figures');
    figures.textContent = '';
    figures.style.fontSize = '1.4rem';
  });
  await moreThan((await length()) + 20);
  await page.click('#stop');
  await page.waitForSelector('#send:not([hidden])');
  const hidden = await belowTheFold(page);
  assert.ok(hidden < 2, `${hidden} pixels are hidden`);
  await ask_for_story();
  await page.evaluate(() => (document.querySelector('main').scrollTop = 0));
  await moreThan((await length()) + 100);
  assert.equal(await page.evaluate(() => document.querySelector('main').scrollTop), 0);
  await page.click('#stop');
  await page.waitForSelector('#send:not([hidden])');
});

test('stop before the first token takes the question back', async (t) => {
  const { page, problems } = await openPage(t, ['--model', 'smollm2-135m-instruct']);
  await loadModel(page);
  assert.match(await page.textContent('#figures'), /^smollm2-135m-instruct: ready on/);
  const text = 'sea '.repeat(3000).trim(); // seconds of reading
  await page.fill('#prompt', text);
  await page.press('#prompt', 'Enter');
  await page.click('#stop');
  await page.waitForSelector('#send:not([hidden])');
  assert.equal(await page.locator('#log li').count(), 0);
  assert.equal(await page.inputValue('#prompt'), text);
  const [, read] = /^(\d+) tokens read, 0 written/.exec(await page.textContent('#figures'));
  assert.ok(Number(read) < 3000, `${read} of more than 3000 tokens`);
  assert.ok((await ask(page, 'Say hello.')).length > 0);
  assert.equal(await page.locator('#log li').count(), 2);
  assert.deepEqual(problems, []);
});

test('a question that is too long comes back with the reason', async (t) => {
  const { page, problems } = await openPage(t, tiny);
  await loadModel(page);
  const text = 'sea '.repeat(20_000).trim();
  await page.fill('#prompt', text);
  await page.press('#prompt', 'Enter');
  await page.waitForSelector('#problem:not([hidden])');
  assert.match(await page.textContent('#problem'), /^The prompt has \(\d+\) tokens, the context/);
  await page.waitForSelector('#send:not([hidden])');
  assert.equal(await page.locator('#log li').count(), 0);
  assert.equal(await page.inputValue('#prompt'), text);
  assert.deepEqual(problems, []);
});

test('the page is isolated, and its policy is in force', async (t) => {
  const { page, response, problems } = await openPage(t, tiny);
  assert.match(
    response.headers()['content-security-policy'],
    /script-src 'self' 'wasm-unsafe-eval'/,
  );
  assert.equal(await page.evaluate(() => globalThis.crossOriginIsolated), true);
  const violations = await page.evaluate(async () => {
    const seen = [];
    const both = new Promise((resolve) => {
      document.addEventListener('securitypolicyviolation', (event) => {
        if (seen.push(event.effectiveDirective) === 2) resolve();
      });
    });
    const inline = document.createElement('script');
    inline.textContent = 'globalThis.inlineRan = true';
    document.head.append(inline);
    const foreign = document.createElement('script');
    foreign.src = 'https://example.invalid/x.js';
    document.head.append(foreign);
    await both;
    return { seen, ran: globalThis.inlineRan === true };
  });
  assert.equal(violations.ran, false);
  assert.deepEqual(violations.seen, ['script-src-elem', 'script-src-elem']);
  assert.equal(problems.length, 2, 'only the two violations are reported');
});

test('a broken model is explained on the page, and another try is possible', async (t) => {
  const file = path.join(temporaryFolder(t), 'broken.gguf');
  fs.copyFileSync(kTinyModel, file);
  const { page } = await openPage(t, ['--model', file]);
  fs.truncateSync(file, 5000); // after the program has looked at it
  await page.click('#load');
  await page.waitForSelector('#problem:not([hidden])');
  assert.match(await page.textContent('#problem'), /^Model ".*broken\.gguf": .*\.$/);
  assert.equal(await page.isEnabled('#load'), true);
});

/** What sticks out of the page, and of the part that scrolls. */
const overflow = (page) =>
  page.evaluate(() =>
    [document.documentElement, document.querySelector('main')].map(
      (part) => part.scrollWidth - part.clientWidth,
    ),
  );

for (const width of [320, 360]) {
  test(`a phone of ${width} pixels: nothing is wider than the screen`, async (t) => {
    const { page } = await openPage(t, tiny, {
      viewport: { width, height: 640 },
      isMobile: true,
      hasTouch: true,
    });
    assert.deepEqual(await overflow(page), [0, 0]);
    await loadModel(page);
    await ask(
      page,
      'A_word_that_is_much_longer_than_any_line_of_a_phone_could_ever_be_in_this_world',
    );
    assert.deepEqual(await overflow(page), [0, 0]);
  });
}

test('a phone: the name and the size of a model fit', async (t) => {
  const { page } = await openPage(t, tiny, { viewport: { width: 360, height: 640 } });
  const spare = await page.evaluate(() => {
    const select = document.querySelector('#model');
    const style = getComputedStyle(select);
    const canvas = document.createElement('canvas').getContext('2d');
    canvas.font = style.font;
    const needed = canvas.measureText('smollm2-135m-instruct (98 MB)').width;
    return select.clientWidth - parseFloat(style.paddingLeft) * 2 - needed;
  });
  assert.ok(spare > 0, `${spare} pixels are left`);
});

test('keys and names: the prompt has focus, buttons and fields are labelled', async (t) => {
  const { page } = await openPage(t, tiny);
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'model');
  await loadModel(page);
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'prompt');
  for (const [role, name] of [
    ['textbox', 'Your message'],
    ['button', 'Send'],
    ['list', 'Conversation'],
  ]) {
    assert.equal(await page.getByRole(role, { name }).count(), 1, name);
  }
});
