// WebGPU in Node: the npm package "webgpu" (Dawn), where the user has installed it. The package's name is
// put together at run time, so that no bundler of a page looks for it.
import type { GpuEntry } from './adapter.js';

const kPackage = ['web', 'gpu'].join('');

interface DawnPackage {
  create(options: string[]): GPU;
}

function isDawnPackage(found: unknown): found is DawnPackage {
  return (
    typeof found === 'object' &&
    found !== null &&
    'create' in found &&
    typeof found.create === 'function'
  );
}

// Dawn ends badly when its entry is collected while objects of it live.
let entry: GPU | undefined;

export async function nodeGpu(): Promise<GpuEntry> {
  if (entry) return { gpu: entry };
  if (process.platform === 'linux' && !hasVulkanDriver(process.env)) {
    return { missing: 'there is no Vulkan driver (VK_DRIVER_FILES may name one)' };
  }
  let found: unknown;
  try {
    found = await import(/* @vite-ignore */ kPackage);
  } catch {
    return { missing: `the npm package "${kPackage}" is not installed or does not load` };
  }
  if (!isDawnPackage(found)) return { missing: `the npm package "${kPackage}" is another one` };
  entry = found.create([]);
  return { gpu: entry };
}

/**
 * Whether the Vulkan loader would find a driver's manifest: without one Dawn writes warnings to stderr.
 * The folders are those of the loader's documentation.
 */
export function hasVulkanDriver(environment: NodeJS.ProcessEnv): boolean {
  const { existsSync, readdirSync } = process.getBuiltinModule('node:fs');
  const list = (name: string) => (environment[name] ?? '').split(':').filter(Boolean);
  const named = [...list('VK_DRIVER_FILES'), ...list('VK_ICD_FILENAMES')];
  if (named.length > 0) return named.some((file) => existsSync(file));
  const home = environment['HOME'] ?? '';
  const folders = [
    ...(environment['XDG_CONFIG_DIRS'] ? list('XDG_CONFIG_DIRS') : ['/etc/xdg']),
    ...['/etc', '/usr/local/etc', environment['XDG_DATA_HOME'] || `${home}/.local/share`],
    ...(environment['XDG_DATA_DIRS'] ? list('XDG_DATA_DIRS') : ['/usr/local/share', '/usr/share']),
  ].map((folder) => `${folder}/vulkan/icd.d`);
  return [...list('VK_ADD_DRIVER_FILES'), ...folders].some((place) => {
    if (!existsSync(place)) return false;
    return place.endsWith('.json') || readdirSync(place).some((name) => name.endsWith('.json'));
  });
}
