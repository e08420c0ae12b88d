// Native llama.cpp through a small program in Python (bench/peers/llama_cpp_runner.py) that keeps the
// model loaded: a line of JSON asks, a line of JSON answers.
import { spawn, type ChildProcess } from 'node:child_process';
import readline from 'node:readline';
import { EngineError } from '../../web/src/api/index.js';
import type { Case, Sample } from './cases.js';
import type { Runner } from './runner.js';
import { promptText } from './text.js';

export interface LlamaCppSetup {
  python: string;
  script: string;
  model: string;
  threads: number;
  context: number;
}

const kTailCharacters = 500;

export class LlamaCppRunner implements Runner {
  readonly #child: ChildProcess;
  #receive: (line: string) => void = () => {};
  #fail: (error: EngineError) => void = () => {};
  #errors = '';

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-kTailCharacters);
    });
    if (child.stdout) readline.createInterface(child.stdout).on('line', (at) => this.#receive(at));
    const end = (how: string) =>
      this.#fail(new EngineError('internal', `llama.cpp ended (${how}): ${this.#errors.trim()}`));
    child.on('error', (error) => end(error.message));
    child.on('exit', (code) => end(`status ${code}`));
  }

  static async start(setup: LlamaCppSetup): Promise<LlamaCppRunner> {
    const words = [setup.script, setup.model, String(setup.threads), String(setup.context)];
    // A group of its own: Ctrl-C is for us, and we end it.
    const child = spawn(setup.python, words, { stdio: 'pipe', detached: true });
    const runner = new LlamaCppRunner(child);
    try {
      await runner.#next(() => {});
      return runner;
    } catch (thrown) {
      await runner.close();
      throw thrown;
    }
  }

  async run(one: Case): Promise<Sample> {
    const ask = (request: object) => this.#child.stdin?.write(`${JSON.stringify(request)}\n`);
    if (one.kind === 'decode') {
      const prompt = promptText(Math.max(one.context, 1));
      const request = { prompt, prompt_tokens: Math.max(one.context, 1), tokens: one.tokens };
      return { 'tok/s': await this.#number(() => ask(request), 'decode_tok_s') };
    }
    if (one.kind === 'prefill') {
      const request = { prompt: promptText(one.tokens), prompt_tokens: one.tokens, tokens: 0 };
      return { 'tok/s': await this.#number(() => ask(request), 'prefill_tok_s') };
    }
    throw new TypeError(`llama.cpp is not measured in the case "${one.kind}".`);
  }

  async #number(ask: () => void, field: string): Promise<number> {
    const reply: unknown = JSON.parse(await this.#next(ask));
    if (typeof reply !== 'object' || reply === null) throw new TypeError('No object came back.');
    if ('error' in reply) throw new EngineError('internal', `llama.cpp: ${String(reply.error)}`);
    const value: unknown = Reflect.get(reply, field);
    if (typeof value !== 'number') throw new TypeError(`llama.cpp gave no "${field}".`);
    return value;
  }

  #next(ask: () => void): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#receive = resolve;
      this.#fail = reject;
      ask();
    });
  }

  async close(): Promise<void> {
    this.#fail = () => {};
    this.#child.stdin?.end();
    this.#child.kill('SIGKILL');
  }
}
