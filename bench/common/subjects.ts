// Starts the subjects of one model: each setup becomes a runner that is ready. What differs between the
// benchmarks (kernels by themselves, their page, the browser's flags) each of them gives.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { kRoot } from '../../apps/cli/src/models.js';
import type { BenchModel } from './bench_model.js';
import type { Setup } from './cases.js';
import { Chromium } from './chromium.js';
import { EngineRunner, engineLoad } from './engine_runner.js';
import { LlamaCppRunner } from './llama_cpp.js';
import type { PageSetup } from './page_globals.js';
import {
  kLlamaScript,
  kPeerFolders,
  kPeerModels,
  kPeerPolicy,
  kPython,
  peerModelFile,
} from './peers.js';
import type { Runner } from './runner.js';

export const kWebDist = path.join(kRoot, 'web/dist');
export const kBenchDist = path.join(kRoot, 'bench/dist');
const kEngineWorker = pathToFileURL(path.join(kWebDist, 'worker.mjs')).href;

export interface SubjectKinds {
  /** Below bench/dist. */
  page: string;
  chromium_flags: readonly string[];
  startKernels(setup: Setup): Promise<Runner>;
  kernelPage(setup: Setup): PageSetup;
}

interface Sites {
  ours: string;
  peers: string;
}

/** Opens Chromium when it is first needed; one for all subjects of a model. */
export class Subjects {
  readonly #model: BenchModel;
  readonly #context_length: number;
  readonly #kinds: SubjectKinds;
  #chromium: Promise<{ browser: Chromium; sites: Sites }> | undefined;

  constructor(model: BenchModel, context_length: number, kinds: SubjectKinds) {
    this.#model = model;
    this.#context_length = context_length;
    this.#kinds = kinds;
  }

  start(setup: Setup): Promise<Runner> {
    switch (setup.software) {
      case 'nonstop':
        return setup.host === 'node' ? this.#startInNode(setup) : this.#startInPage(setup);
      case 'llama.cpp':
        return LlamaCppRunner.start({
          python: kPython,
          script: kLlamaScript,
          model: peerModelFile(this.#model, setup.weights),
          threads: setup.threads,
          context: this.#context_length,
        });
      default:
        return this.#startPeerPage(setup);
    }
  }

  /** Undefined when no subject needed it. */
  async chromiumVersion(): Promise<string | undefined> {
    const opened = await this.#chromium;
    return opened?.browser.version();
  }

  #startInNode(setup: Setup): Promise<Runner> {
    if (setup.kernels) return this.#kinds.startKernels(setup);
    const source = { kind: 'file' as const, path: this.#model.path };
    const load = engineLoad(setup, this.#context_length);
    return EngineRunner.start({ source, load }, kEngineWorker);
  }

  async #startInPage(setup: Setup): Promise<Runner> {
    const { browser, sites } = await this.#open();
    const url = new URL(`bench/${this.#kinds.page}`, sites.ours).href;
    if (setup.kernels) return browser.start(url, this.#kinds.kernelPage(setup));
    const file = encodeURIComponent(path.basename(this.#model.path));
    const source = { kind: 'url' as const, url: new URL(`model/${file}`, sites.ours).href };
    const load = engineLoad(setup, this.#context_length);
    return browser.start(url, { kind: 'engine', setup: { source, load } });
  }

  async #startPeerPage(setup: Setup): Promise<Runner> {
    const { browser, sites } = await this.#open();
    const { device, threads, software } = setup;
    if (software === 'transformers.js') {
      const given: PageSetup = {
        kind: 'transformers.js',
        setup: { model: `${this.#model.name}-onnx`, dtype: setup.weights, device, threads },
      };
      return browser.start(new URL('bench/transformers.html', sites.peers).href, given);
    }
    const file = peerModelFile(this.#model, setup.weights);
    const folder = path.dirname(file) === kPeerModels ? 'peer-models' : 'model';
    const model_url = new URL(`${folder}/${encodeURIComponent(path.basename(file))}`, sites.peers);
    return browser.start(new URL('bench/wllama.html', sites.peers).href, {
      kind: 'wllama',
      setup: { model_url: model_url.href, device, threads, context: this.#context_length },
    });
  }

  #open(): Promise<{ browser: Chromium; sites: Sites }> {
    const { chromium_flags } = this.#kinds;
    this.#chromium ??= openChromium(path.dirname(this.#model.path), chromium_flags);
    return this.#chromium;
  }

  async close(): Promise<void> {
    const opened = await this.#chromium?.catch(() => undefined);
    await opened?.browser.close();
  }
}

async function openChromium(model_folder: string, flags: readonly string[]) {
  const browser = await Chromium.open(flags);
  const folders = { '/bench/': kBenchDist, '/model/': model_folder };
  const ours = await browser.serve({ folders: { ...folders, '/nonstop/': kWebDist } });
  const peers = await browser.serve({
    folders: { ...folders, ...kPeerFolders },
    content_security_policy: kPeerPolicy,
  });
  return { browser, sites: { ours, peers } };
}
