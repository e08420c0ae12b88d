// Does this device compute what WGSL says? One small kernel with known sums: a long loop (a driver of 2022 cuts
// every loop at 65,535 rounds), unpacked halves and bytes, vector loads, workgroup memory behind a barrier, and
// parameters at a dynamic offset. The engine compares its own kernels besides.
import { EngineError } from '../wasm/error.js';
import { withTimeout } from '../wasm/platform.js';

const kLimitMs = 60_000;
const kRoundCount = 70_000;
const kUsage = { mapRead: 0x01, copySrc: 0x04, copyDst: 0x08, uniform: 0x40, storage: 0x80 };
const kCompute = 0x4;
const kReadMode = 1;

const kCode = `
struct Params { rounds: u32, factor: f32 }
@group(0) @binding(0) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
var<workgroup> parts: array<f32, 64>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) lane: u32) {
  let words = x[lane];
  let halves = unpack2x16float(words.x);
  let bytes = unpack4xU8(words.y);
  parts[lane] = halves.x * halves.y + f32(bytes.x + 2u * bytes.w) + bitcast<f32>(words.z);
  workgroupBarrier();
  for (var stride = 32u; stride > 0u; stride >>= 1u) {
    if (lane < stride) { parts[lane] += parts[lane + stride]; }
    workgroupBarrier();
  }
  if (lane == 0u) {
    var odd = 0u;
    for (var i = 0u; i < params.rounds; i++) { odd += i & 1u; }
    y[0] = parts[0] * params.factor;
    y[1] = f32(odd);
  }
}`;

/** Per lane: halves (1.5, lane), bytes (lane, 0, 0, 3), f32 -lane / 4; all sums are exact. */
function makeInput(): ArrayBuffer {
  const view = new DataView(new ArrayBuffer(64 * 16));
  for (let lane = 0; lane < 64; lane++) {
    const exponent = lane === 0 ? 0 : Math.floor(Math.log2(lane));
    const half = lane === 0 ? 0 : ((15 + exponent) << 10) | ((lane / 2 ** exponent - 1) * 1024);
    view.setUint16(16 * lane, 0x3e00, true);
    view.setUint16(16 * lane + 2, half, true);
    view.setUint8(16 * lane + 4, lane);
    view.setUint8(16 * lane + 7, 3);
    view.setFloat32(16 * lane + 8, -lane / 4, true);
  }
  return view.buffer;
}

const kLaneSum = (63 * 64) / 2;
const kExpected = [0.5 * (1.5 * kLaneSum + kLaneSum + 64 * 6 - kLaneSum / 4), kRoundCount / 2];

/** What is wrong with the device, or undefined. */
export async function selfTestFault(device: GPUDevice): Promise<string | undefined> {
  try {
    const found = await withTimeout(compute(device), kLimitMs, `no result within ${kLimitMs} ms`);
    if (found.every((value, i) => value === kExpected[i])) return undefined;
    return `its self-test gave (${found.join(', ')}) instead of (${kExpected.join(', ')})`;
  } catch (thrown) {
    return `its self-test failed (${thrown instanceof Error ? thrown.message : String(thrown)})`;
  }
}

async function compute(device: GPUDevice): Promise<number[]> {
  device.pushErrorScope('validation');
  const result = run(device);
  const error = await device.popErrorScope();
  if (error) throw new EngineError('backend_failed', error.message);
  return result;
}

async function run(device: GPUDevice): Promise<number[]> {
  const { mapRead, copySrc, copyDst, uniform, storage } = kUsage;
  const layout = device.createBindGroupLayout({
    entries: [
      { binding: 0, visibility: kCompute, buffer: { type: 'read-only-storage' } },
      { binding: 1, visibility: kCompute, buffer: { type: 'storage' } },
      { binding: 2, visibility: kCompute, buffer: { type: 'uniform', hasDynamicOffset: true } },
    ],
  });
  const pipeline = device.createComputePipeline({
    layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
    compute: { module: device.createShaderModule({ code: kCode }), entryPoint: 'main' },
  });
  const input = makeInput();
  const x = device.createBuffer({ size: input.byteLength, usage: storage | copyDst });
  const y = device.createBuffer({ size: 8, usage: storage | copySrc });
  const params = device.createBuffer({ size: 512, usage: uniform | copyDst });
  const read = device.createBuffer({ size: 8, usage: mapRead | copyDst });
  device.queue.writeBuffer(x, 0, input);
  device.queue.writeBuffer(params, 256, new Uint32Array([kRoundCount]));
  device.queue.writeBuffer(params, 260, new Float32Array([0.5]));
  const group = device.createBindGroup({
    layout,
    entries: [
      { binding: 0, resource: { buffer: x } },
      { binding: 1, resource: { buffer: y } },
      { binding: 2, resource: { buffer: params, size: 8 } },
    ],
  });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group, [256]);
  pass.dispatchWorkgroups(1);
  pass.end();
  encoder.copyBufferToBuffer(y, 0, read, 0, 8);
  device.queue.submit([encoder.finish()]);
  await read.mapAsync(kReadMode);
  const values = [...new Float32Array(read.getMappedRange())];
  for (const buffer of [x, y, params, read]) buffer.destroy();
  return values;
}
