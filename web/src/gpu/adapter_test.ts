import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { describeAdapter, type AdapterLike } from './adapter.js';
import { adapterObstacle, chooseGpu } from './choose_gpu.js';
import { hasVulkanDriver } from './node_gpu.js';

const kLimits = {
  maxBufferSize: 2 ** 31,
  maxStorageBufferBindingSize: 2 ** 30,
  maxStorageBuffersPerShaderStage: 10,
  maxComputeWorkgroupStorageSize: 32_768,
  maxComputeInvocationsPerWorkgroup: 1024,
  minStorageBufferOffsetAlignment: 32,
  maxComputeWorkgroupsPerDimension: 65_535,
};

function adapter(
  info: Partial<AdapterLike['info']>,
  features: string[] = [],
  more: object = {},
): AdapterLike {
  const limits = kLimits as unknown as GPUSupportedLimits;
  const names = { vendor: '', architecture: '', description: '' };
  return { info: { ...names, ...info }, limits, features: new Set(features), ...more };
}

test('a real GPU is taken by auto', () => {
  const report = describeAdapter(
    adapter({ vendor: 'nvidia', architecture: 'hopper', subgroupMinSize: 32 }, [
      'shader-f16',
      'timestamp-query',
    ]),
  );
  expect(report).toEqual({
    vendor: 'nvidia',
    architecture: 'hopper',
    description: '',
    limits: {
      max_buffer_size_bytes: 2 ** 31,
      max_storage_binding_size_bytes: 2 ** 30,
      max_storage_buffers_per_stage: 10,
      max_workgroup_storage_bytes: 32_768,
      max_workgroup_invocations: 1024,
      min_storage_offset_alignment: 32,
      max_workgroups_per_dimension: 65_535,
    },
    f16: true,
    subgroups: false,
    subgroup_min_size: 32,
    subgroup_max_size: 0,
    timestamps: true,
    software: null,
  });
  expect(adapterObstacle({ report }, false)).toBeUndefined();
});

test.each([
  ['in its info', adapter({ vendor: 'x', isFallbackAdapter: true })],
  ['in the older place', adapter({ vendor: 'x' }, [], { isFallbackAdapter: true })],
  ['SwiftShader by name', adapter({ vendor: 'google', architecture: 'swiftshader' })],
  ['llvmpipe by name', adapter({ description: 'llvmpipe: Mesa 25 (LLVM 15)' })],
  ['lavapipe by name', adapter({ device: 'Lavapipe' })],
  ['Windows by name', adapter({ description: 'Microsoft Basic Render Driver' })],
  ['a name against its word', adapter({ vendor: 'SwiftShader', isFallbackAdapter: false })],
])('a software adapter is known: %s', (_where, found) => {
  const report = describeAdapter(found);
  expect(report.software).not.toBeNull();
  expect(adapterObstacle({ report }, false)).toContain('is a software adapter (');
  expect(adapterObstacle({ report }, true)).toBeUndefined();
});

test('the info is asked first: the older place does not overrule it', () => {
  const found = adapter({ isFallbackAdapter: false }, [], { isFallbackAdapter: true });
  expect(describeAdapter(found).software).toBeNull();
});

test('no adapter is an obstacle also where WebGPU is forced', () => {
  expect(adapterObstacle({ missing: 'there is none' }, true)).toBe('there is none');
});

test('a driver is where the Vulkan loader would find one', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vulkan-'));
  const nowhere = { HOME: folder, XDG_CONFIG_DIRS: folder, XDG_DATA_DIRS: folder };
  const icd = path.join(folder, 'vulkan/icd.d');
  const manifest = path.join(icd, 'x.json');
  fs.mkdirSync(icd, { recursive: true });
  expect(hasVulkanDriver({ ...nowhere, VK_DRIVER_FILES: manifest })).toBe(false);
  expect(hasVulkanDriver({ ...nowhere, VK_ADD_DRIVER_FILES: manifest })).toBe(false);
  fs.writeFileSync(manifest, '{}');
  expect(hasVulkanDriver(nowhere)).toBe(true);
  expect(hasVulkanDriver({ VK_DRIVER_FILES: manifest })).toBe(true);
  // A variable that names drivers is all that the loader looks at.
  expect(hasVulkanDriver({ ...nowhere, VK_DRIVER_FILES: '/nowhere.json' })).toBe(false);
  fs.rmSync(folder, { recursive: true });
});

test('without a driver the choice says what would help', async () => {
  const before = process.env['VK_DRIVER_FILES'];
  process.env['VK_DRIVER_FILES'] = '/nowhere.json';
  const wish = { default_limits: false, without: [] };
  expect(await chooseGpu(true, wish)).toEqual({
    opened: undefined,
    report: null,
    why: 'there is no Vulkan driver (VK_DRIVER_FILES may name one)',
  });
  if (before === undefined) delete process.env['VK_DRIVER_FILES'];
  else process.env['VK_DRIVER_FILES'] = before;
});
