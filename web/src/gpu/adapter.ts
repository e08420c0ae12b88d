// What WebGPU there is: the entry point (a browser's, or Node's npm package), the adapter with what it can
// do, and a device with all of the limits and features that we use. Whether it is taken is decided in
// choose.ts.
import { EngineError } from '../wasm/error.js';
import { isNode, withTimeout } from '../wasm/platform.js';
import { nodeGpu } from './node_gpu.js';

export type GpuEntry = { gpu: GPU } | { missing: string };

const kFeatures = ['shader-f16', 'subgroups', 'timestamp-query'] as const;
export type GpuFeature = (typeof kFeatures)[number];

/** The engine's limits by their names in WebGPU. */
const kLimits = {
  max_buffer_size_bytes: 'maxBufferSize',
  max_storage_binding_size_bytes: 'maxStorageBufferBindingSize',
  max_storage_buffers_per_stage: 'maxStorageBuffersPerShaderStage',
  max_workgroup_storage_bytes: 'maxComputeWorkgroupStorageSize',
  max_workgroup_invocations: 'maxComputeInvocationsPerWorkgroup',
  min_storage_offset_alignment: 'minStorageBufferOffsetAlignment',
  max_workgroups_per_dimension: 'maxComputeWorkgroupsPerDimension',
} as const;
export type GpuLimits = Record<keyof typeof kLimits, number>;

export interface AdapterReport {
  vendor: string;
  architecture: string;
  description: string;
  limits: GpuLimits;
  f16: boolean;
  subgroups: boolean;
  /** Lanes of the smallest and of the largest subgroup; 0: not told. */
  subgroup_min_size: number;
  subgroup_max_size: number;
  timestamps: boolean;
  /** Why it is a software adapter; null for a real GPU. */
  software: string | null;
}

export interface GpuWish {
  /** Asks for no more than WebGPU's default limits, for comparisons. */
  default_limits: boolean;
  /** Features that are not used although they are there, for comparisons. */
  without: readonly GpuFeature[];
}

export interface FoundAdapter {
  adapter: GPUAdapter;
  report: AdapterReport;
}

const kRequestLimitMs = 10_000;

async function findEntry(): Promise<GpuEntry> {
  if (isNode) return nodeGpu();
  const gpu = globalThis.navigator?.gpu;
  return gpu ? { gpu } : { missing: 'this browser has no WebGPU in workers' };
}

/** The adapter, or why there is none; within a bound. */
export async function findAdapter(): Promise<FoundAdapter | { missing: string }> {
  try {
    const entry = await findEntry();
    if ('missing' in entry) return entry;
    const adapter = await withTimeout(
      entry.gpu.requestAdapter({ powerPreference: 'high-performance' }),
      kRequestLimitMs,
      `no adapter was given within ${kRequestLimitMs} ms`,
    );
    if (!adapter) return { missing: 'WebGPU has no adapter here' };
    return { adapter, report: describeAdapter(adapter) };
  } catch (thrown) {
    return { missing: `WebGPU failed (${thrown instanceof Error ? thrown.message : thrown})` };
  }
}

export interface AdapterLike {
  info: Pick<GPUAdapterInfo, 'vendor' | 'architecture' | 'description'> & {
    device?: string;
    subgroupMinSize?: number;
    subgroupMaxSize?: number;
    isFallbackAdapter?: boolean;
  };
  limits: GPUSupportedLimits;
  features: ReadonlySet<string>;
}

export function describeAdapter(adapter: AdapterLike): AdapterReport {
  const { vendor, architecture, description } = adapter.info;
  return {
    vendor,
    architecture,
    description,
    limits: readLimits(adapter.limits),
    f16: adapter.features.has('shader-f16'),
    subgroups: adapter.features.has('subgroups'),
    subgroup_min_size: adapter.info.subgroupMinSize ?? 0,
    subgroup_max_size: adapter.info.subgroupMaxSize ?? 0,
    timestamps: adapter.features.has('timestamp-query'),
    software: softwareSign(adapter),
  };
}

function readLimits(limits: GPUSupportedLimits): GpuLimits {
  return {
    max_buffer_size_bytes: limits[kLimits.max_buffer_size_bytes],
    max_storage_binding_size_bytes: limits[kLimits.max_storage_binding_size_bytes],
    max_storage_buffers_per_stage: limits[kLimits.max_storage_buffers_per_stage],
    max_workgroup_storage_bytes: limits[kLimits.max_workgroup_storage_bytes],
    max_workgroup_invocations: limits[kLimits.max_workgroup_invocations],
    min_storage_offset_alignment: limits[kLimits.min_storage_offset_alignment],
    max_workgroups_per_dimension: limits[kLimits.max_workgroups_per_dimension],
  };
}

const kSoftwareNames = /swiftshader|llvmpipe|lavapipe|microsoft basic render/i;

/** What tells that an adapter computes on the CPU: its own word, in both places, or its name. */
function softwareSign(adapter: AdapterLike): string | null {
  const { info } = adapter;
  const names = [info.vendor, info.architecture, info.device, info.description];
  const name = kSoftwareNames.exec(names.join(' '))?.[0];
  if (name !== undefined) return `its name has "${name}"`;
  const is_fallback =
    info.isFallbackAdapter ?? ('isFallbackAdapter' in adapter && adapter.isFallbackAdapter);
  return is_fallback ? 'it says that it is a fallback' : null;
}

export interface OpenedDevice {
  device: GPUDevice;
  /** What the device has, which may be less than the adapter. */
  limits: GpuLimits;
  f16: boolean;
  subgroups: boolean;
}

/** A device with the adapter's limits and those of our features that it has. */
export async function openDevice(adapter: GPUAdapter, wish: GpuWish): Promise<OpenedDevice> {
  const requiredFeatures = kFeatures.filter(
    (name) => adapter.features.has(name) && !wish.without.includes(name),
  );
  const requiredLimits: Record<string, number> = {};
  if (!wish.default_limits) {
    for (const name of Object.values(kLimits)) requiredLimits[name] = adapter.limits[name];
    const name = 'maxComputeWorkgroupSizeX';
    requiredLimits[name] = adapter.limits[name];
  }
  try {
    const device = await withTimeout(
      adapter.requestDevice({ label: 'nonstop', requiredFeatures, requiredLimits }),
      kRequestLimitMs,
      `no device was given within ${kRequestLimitMs} ms`,
    );
    return {
      device,
      limits: readLimits(device.limits),
      f16: device.features.has('shader-f16'),
      subgroups: device.features.has('subgroups'),
    };
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new EngineError('backend_failed', `The GPU gave no device (${text}).`, { cause });
  }
}
