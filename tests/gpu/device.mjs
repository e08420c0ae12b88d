// A real WebGPU device for tests in Node: npm "webgpu" (Dawn) on lavapipe of the set-up group "mesa",
// or on the driver that VK_DRIVER_FILES names. Its limits are WebGPU's defaults, so that a kernel which
// needs more fails here.
import fs from 'node:fs';
import path from 'node:path';

export const kRoot = path.resolve(import.meta.dirname, '../..');
const kLavapipe = path.join(kRoot, '.deps/mesa/lvp_icd.json');
const kFeatures = ['shader-f16', 'subgroups', 'timestamp-query'];
const kept = [];

/** What a program on lavapipe needs in its environment. `subgroup_size`: 4, 8 or 16. */
export function lavapipeEnvironment(subgroup_size) {
  const cache = path.join(kRoot, 'build/mesa-cache');
  fs.mkdirSync(cache, { recursive: true });
  const width = subgroup_size === undefined ? {} : { LP_NATIVE_VECTOR_WIDTH: 32 * subgroup_size };
  return {
    VK_DRIVER_FILES: process.env.VK_DRIVER_FILES || kLavapipe,
    MESA_SHADER_CACHE_DIR: cache,
    XDG_RUNTIME_DIR: process.env.XDG_RUNTIME_DIR || cache,
    ...width,
  };
}

/** The adapter and a device with the default limits; to be called once in a process. */
export async function openDevice({ subgroup_size, features = kFeatures } = {}) {
  const environment = lavapipeEnvironment(subgroup_size);
  if (!fs.existsSync(environment.VK_DRIVER_FILES)) {
    throw new Error(`There is no Vulkan driver "${environment.VK_DRIVER_FILES}" (group "mesa").`);
  }
  Object.assign(process.env, environment); // before Dawn loads its driver
  const { create, globals } = await import('webgpu');
  Object.assign(globalThis, globals);
  const gpu = create(['backend=vulkan']);
  kept.push(gpu); // Dawn's objects do not keep its instance: collected, it takes their memory along
  const adapter = await gpu.requestAdapter();
  if (!adapter) throw new Error('Dawn finds no adapter on this driver.');
  const requiredFeatures = features.filter((name) => adapter.features.has(name));
  const device = await adapter.requestDevice({ requiredFeatures });
  return { gpu, adapter, device };
}
