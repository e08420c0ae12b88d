// Whether the GPU computes here, and why (not): the adapter, its device and its self-test.
import type { EngineError } from '../wasm/error.js';
import { toEngineError } from '../wasm/error.js';
import {
  findAdapter,
  openDevice,
  type AdapterReport,
  type FoundAdapter,
  type GpuWish,
  type OpenedDevice,
} from './adapter.js';
import { selfTestFault } from './device_check.js';

export interface GpuChoice {
  /** Undefined: not used, and the reason says why. */
  opened: OpenedDevice | undefined;
  report: AdapterReport | null;
  /** The middle of a sentence: "WebGPU is not used: …". */
  why: string;
}

export function adapterName({ vendor, architecture, description }: AdapterReport): string {
  return description || `${vendor} ${architecture}`.trim() || 'an adapter without a name';
}

/** What is known before a device is opened. `forced`: software adapters are taken too. */
export function adapterObstacle(
  found: Pick<FoundAdapter, 'report'> | { missing: string },
  forced: boolean,
): string | undefined {
  if ('missing' in found) return found.missing;
  const { software } = found.report;
  if (software === null || forced) return undefined;
  return `${adapterName(found.report)} is a software adapter (${software})`;
}

export async function chooseGpu(forced: boolean, wish: GpuWish): Promise<GpuChoice> {
  const found = await findAdapter();
  const report = 'missing' in found ? null : found.report;
  const obstacle = adapterObstacle(found, forced);
  if ('missing' in found || obstacle !== undefined) {
    return { opened: undefined, report, why: obstacle ?? '' };
  }
  try {
    const opened = await openDevice(found.adapter, wish);
    const fault = await selfTestFault(opened.device);
    const name = adapterName(found.report);
    if (fault === undefined) return { opened, report, why: `${name} passed its self-test` };
    opened.device.destroy();
    return { opened: undefined, report, why: `on ${name} ${fault}` };
  } catch (thrown) {
    const { message }: EngineError = toEngineError(thrown);
    return { opened: undefined, report, why: message.replace(/\.$/, '') };
  }
}
