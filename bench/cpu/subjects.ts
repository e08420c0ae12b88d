// Starts the subjects of one model: each setup becomes a runner that is ready.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { kRoot } from '../../apps/cli/src/models.js';
import { Chromium } from './chromium.js';
import type { Setup } from './cases.js';
import { EngineRunner } from './engine_runner.js';
import { KernelRunner } from './kernel_runner.js';
import { LlamaCppRunner } from './llama_cpp.js';
import type { BenchModel } from './models.js';
import type { PageSetup } from './page_globals.js';
import {
  kLlamaScript,
  kPeerFolders,
  kPeerModels,
  kPeerPolicy,
  kPython,
  peerModelFile,
} from './peers.js';
import { contextOf } from './plan.js';
import type { Runner } from './runner.js';

const kWebDist = path.join(kRoot, 'web/dist');
const kBenchDist = path.join(kRoot, 'bench/dist');
const kEngineWorker = pathToFileURL(path.join(kWebDist, 'worker.mjs')).href;
const kKernelWorker = pathToFileURL(path.join(kBenchDist, 'kernel_worker.mjs')).href;

interface Sites {
  ours: string;
  peers: string;
}

/** Opens Chromium when it is first needed; one for all subjects of a model. */
export class Subjects {
  readonly #model: BenchModel;
  #chromium: Promise<{ browser: Chromium; sites: Sites }> | undefined;

  constructor(model: BenchModel) {
    this.#model = model;
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
          context: contextOf(this.#model),
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

  #load({ threads, build, sequences }: Setup) {
    const chosen = build === 'default' ? {} : { build };
    const contextLength = contextOf(this.#model);
    return { threads, contextLength, maxSequences: sequences, ...chosen };
  }

  #startInNode(setup: Setup): Promise<Runner> {
    if (setup.kernels) return KernelRunner.start(kernelSetup(setup), kKernelWorker);
    const source = { kind: 'file' as const, path: this.#model.path };
    return EngineRunner.start({ source, load: this.#load(setup) }, kEngineWorker);
  }

  async #startInPage(setup: Setup): Promise<Runner> {
    const { browser, sites } = await this.#open();
    const url = new URL('bench/page.html', sites.ours).href;
    if (setup.kernels) return browser.start(url, { kind: 'kernels', setup: kernelSetup(setup) });
    const file = encodeURIComponent(path.basename(this.#model.path));
    const source = { kind: 'url' as const, url: new URL(`model/${file}`, sites.ours).href };
    return browser.start(url, { kind: 'engine', setup: { source, load: this.#load(setup) } });
  }

  async #startPeerPage(setup: Setup): Promise<Runner> {
    const { browser, sites } = await this.#open();
    const { threads, software } = setup;
    if (software === 'transformers.js') {
      const given: PageSetup = {
        kind: 'transformers.js',
        setup: { model: `${this.#model.name}-onnx`, dtype: setup.weights, threads },
      };
      return browser.start(new URL('bench/transformers.html', sites.peers).href, given);
    }
    const file = peerModelFile(this.#model, setup.weights);
    const folder = path.dirname(file) === kPeerModels ? 'peer-models' : 'model';
    const model_url = new URL(`${folder}/${encodeURIComponent(path.basename(file))}`, sites.peers);
    return browser.start(new URL('bench/wllama.html', sites.peers).href, {
      kind: 'wllama',
      setup: { model_url: model_url.href, threads, context: contextOf(this.#model) },
    });
  }

  #open(): Promise<{ browser: Chromium; sites: Sites }> {
    this.#chromium ??= openChromium(path.dirname(this.#model.path));
    return this.#chromium;
  }

  async close(): Promise<void> {
    const opened = await this.#chromium?.catch(() => undefined);
    await opened?.browser.close();
  }
}

async function openChromium(model_folder: string) {
  const browser = await Chromium.open();
  const folders = { '/bench/': kBenchDist, '/model/': model_folder };
  const ours = await browser.serve({ folders: { ...folders, '/nonstop/': kWebDist } });
  const peers = await browser.serve({
    folders: { ...folders, ...kPeerFolders },
    content_security_policy: kPeerPolicy,
  });
  return { browser, sites: { ours, peers } };
}

function kernelSetup({ build, threads }: Setup) {
  return { build: build === 'simd' ? ('simd' as const) : ('relaxed' as const), threads };
}
