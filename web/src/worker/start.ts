// Starts an engine module: the one for WebGPU with its player, or one for the CPU with its threads.
import type { AdapterReport, OpenedDevice } from '../gpu/adapter.js';
import { GpuPlayer } from '../gpu/player.js';
import { chooseBuild, type BuildChoice } from '../wasm/choose.js';
import { EngineCore } from '../wasm/core.js';
import { EngineError, toEngineError } from '../wasm/error.js';
import {
  compileModule,
  instantiateMain,
  moduleFileName,
  type EngineInstance,
} from '../wasm/instance.js';
import { canShareMemory, coreCount } from '../wasm/platform.js';
import { probeCapabilities } from '../wasm/probe.js';
import { ThreadPool } from '../wasm/threads.js';
import type { OpenParams } from './protocol.js';

export interface Started {
  core: EngineCore;
  choice: BuildChoice;
  threads: ThreadPool | undefined;
  player: GpuPlayer | undefined;
}

/** Resolves when the threads have ended and the GPU has no more to say. */
export async function stop({ core, threads, player }: Started): Promise<void> {
  const ended = Promise.all([threads?.terminate(), player?.close()]);
  core.destroy();
  await ended;
}

/** On the CPU. Threads that do not start cost threads, not the reply. */
export async function startOnCpu(params: OpenParams, worker_url: URL): Promise<Started> {
  const wanted = chooseBuild(
    { ...probeCapabilities(), memory_sharable: canShareMemory(), core_count: coreCount() },
    { build: params.build, thread_count: params.reference ? 1 : params.thread_count },
  );
  try {
    return await startBuild(params, wanted, worker_url);
  } catch (thrown) {
    // An option that the engine refuses is refused with any number of threads.
    const { code, message } = toEngineError(thrown);
    if (!wanted.shared || code === 'invalid_argument') throw thrown;
    const reason = `${wanted.reason} But they failed, so one is used: ${message}`;
    return startBuild(params, { ...wanted, shared: false, thread_count: 1, reason }, worker_url);
  }
}

async function startBuild(
  params: OpenParams,
  choice: BuildChoice,
  worker_url: URL,
): Promise<Started> {
  const url = new URL(moduleFileName(choice), worker_url);
  const instance = await instantiateMain(await compileModule(url), choice.shared);
  const core = new EngineCore(instance);
  const backend = params.reference ? 'cpuReference' : 'cpu';
  core.create({ ...params, backend, thread_count: choice.thread_count });
  const threads = choice.shared
    ? await ThreadPool.start(instance, choice.thread_count, worker_url)
    : undefined;
  return { core, choice, threads, player: undefined };
}

/** On the GPU; the device is the player's from here on, and destroyed with it. */
export async function startOnGpu(
  params: OpenParams,
  choice: BuildChoice,
  opened: OpenedDevice,
  report: AdapterReport,
  worker_url: URL,
): Promise<Started> {
  let instance: EngineInstance | undefined;
  let core: EngineCore | undefined;
  const memory = () => {
    if (!instance) throw new EngineError('internal', 'The engine has no memory yet.');
    return instance.memory;
  };
  const player = new GpuPlayer(opened.device, memory, {
    pipelineDone: (pipeline, is_ready) => core?.gpuPipelineDone(pipeline, is_ready),
    ticketDone: (ticket) => core?.gpuTicketDone(ticket),
    failed: (error) => {
      if (core && !core.broken) core.gpuError(error);
    },
  });
  try {
    const module = await compileModule(new URL(moduleFileName(choice), worker_url));
    instance = await instantiateMain(module, false, player.imports());
    core = new EngineCore(instance);
    core.gpuAdapter(report, opened);
    core.create({ ...params, backend: 'webGpu', thread_count: choice.thread_count });
    return { core, choice, threads: undefined, player };
  } catch (thrown) {
    await player.close();
    throw thrown;
  }
}
