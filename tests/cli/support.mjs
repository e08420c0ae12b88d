// Runs the built command line and reads what it says.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export const kRoot = path.resolve(import.meta.dirname, '../..');
export const kCli = path.join(kRoot, 'apps/cli/dist/cli.mjs');
export const kNode24 = path.join(kRoot, '.deps/node24/bin/node');
export const kNode20 = path.join(kRoot, '.deps/node20/bin/node');
export const kTiny = path.join(kRoot, 'tests/data/tiny');
export const kTinyModel = path.join(kTiny, 'llama_tied.gguf');

const kLimitMs = 60_000;

/**
 * Starts the program; `child` to signal it, `done` with what came of it. Its stdin gets `input` and ends,
 * or stays open where that is null. `detached`: in a process group of its own.
 */
export function start(words, settings = {}) {
  const { node = kNode24, node_options = [], cli = kCli, env = {} } = settings;
  const { input, limit_ms = kLimitMs, detached = false } = settings;
  const child = spawn(node, [...node_options, cli, ...words], {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached,
  });
  if (input !== null) child.stdin.end(input ?? '');
  const started_ms = performance.now();
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
  const timer = setTimeout(() => child.kill('SIGKILL'), limit_ms);
  const done = new Promise((resolve) => {
    child.on('close', (status, signal) => {
      clearTimeout(timer);
      resolve({ status, signal, stdout, stderr, time_ms: performance.now() - started_ms });
    });
  });
  return { child, done };
}

export function run(words, settings) {
  return start(words, settings).done;
}

/** Runs with --json: exactly one object on stdout. */
export async function runJson(words, settings) {
  const result = await run([...words, '--json'], settings);
  const lines = result.stdout.split('\n');
  if (lines.length !== 2 || lines[1] !== '') {
    throw new Error(`stdout is not one line:\n${result.stdout}\n${result.stderr}`);
  }
  return { ...result, json: JSON.parse(lines[0]) };
}

/** A folder that is gone after the test. */
export function temporaryFolder(context) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'nonstop-test-'));
  context.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Resolves when the child has written something that matches to stdout. */
export function waitForOutput(child, pattern) {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
      const match = pattern.exec(text);
      if (match) resolve(match);
    });
    child.on('close', () => reject(new Error(`The program ended; it wrote:\n${text}`)));
  });
}
