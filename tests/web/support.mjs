// A Chromium with a fresh profile, and the served chat page. Console errors and page errors are
// collected: a test ends with none.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { start } from '../cli/support.mjs';

export * from '../cli/support.mjs';

const kArguments = [
  ...['--no-sandbox', '--no-first-run', '--disable-quic', '--disable-sync'],
  ...['--disable-background-networking', '--disable-component-update'],
];

/** Serves the page with `words` and opens it; everything is closed after the test. */
export async function openPage(context, words, settings = {}) {
  const { child, done } = start(['serve', '--port', '0', ...words]);
  const url = await new Promise((resolve, reject) => {
    child.stdout.once('data', (text) => resolve(String(text).trim()));
    done.then(({ stderr }) => reject(new Error(stderr)));
  });
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'nonstop-page-'));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.NONSTOP_CHROMIUM || '/usr/bin/chromium',
    headless: true,
    args: kArguments,
    ...settings,
  });
  const page = await browser.newPage();
  const problems = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(error.message));
  context.after(async () => {
    await browser.close();
    child.kill('SIGTERM');
    await done;
    fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  });
  const response = await page.goto(url);
  return { page, url, response, problems };
}

/** Loads the first offered model and waits until the page can be asked. */
export async function loadModel(page) {
  await page.click('#load');
  await page.waitForSelector('#ask:not([hidden])', { timeout: 60_000 });
}

/** Sends `text` and waits for the end of the reply; gives the reply's text. */
export async function ask(page, text) {
  await page.fill('#prompt', text);
  await page.press('#prompt', 'Enter');
  const reply = page.locator('#log li.assistant').last();
  await page.waitForSelector('#send:not([hidden])', { timeout: 120_000 });
  return reply.textContent();
}
