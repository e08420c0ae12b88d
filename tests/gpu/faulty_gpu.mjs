// Preloaded (node --import) before the command line: the GPU of npm "webgpu" with one fault, which
// NONSTOP_TEST_FAULT names. Workers preload it too. Everything else is the real device's.
//   hidden      the adapter does not tell that it is software; no fault
//   buffers:N   the device is lost when buffer N is made
//   submits:N   the device is lost at submission N
//   compile     no pipeline compiles but that of the self-test
//   compute     the self-test's results are wrong: its loop is short
import { workerData } from 'node:worker_threads';

// Only there: a worker that is ended while it loads Dawn takes the program along.
const is_engine = workerData?.role === 'nonstop-engine';
const { globals } = is_engine ? await import('webgpu') : {};
if (is_engine) injectFault();

function injectFault() {
  const [kind, text] = (process.env.NONSTOP_TEST_FAULT ?? '').split(':');
  const last = Number(text);
  const { GPU, GPUDevice, GPUQueue } = globals;

  function before(type, name, action) {
    const { [name]: original } = type.prototype;
    type.prototype[name] = function (...given) {
      return original.apply(this, action(this, given) ?? given);
    };
  }

  // Dawn's own adapters cannot be changed, so they are stood for.
  const kInfo = {
    vendor: 'test',
    architecture: 'hidden',
    description: '',
    isFallbackAdapter: false,
  };
  const { requestAdapter } = GPU.prototype;
  GPU.prototype.requestAdapter = async function (options) {
    const adapter = await requestAdapter.call(this, options);
    const { features, limits } = adapter;
    const requestDevice = (descriptor) => adapter.requestDevice(descriptor);
    return { info: kInfo, features, limits, requestDevice };
  };

  const devices = new WeakMap();
  let count = 0;
  if (kind === 'buffers') {
    before(GPUDevice, 'createBuffer', (device, [{ label }]) => {
      if (label && ++count === last) device.destroy();
    });
  }
  if (kind === 'submits') {
    before(GPUDevice, 'createBuffer', (device) => devices.set(device.queue, device) && undefined);
    before(GPUQueue, 'submit', (queue) => {
      if (++count === last) devices.get(queue)?.destroy();
    });
  }
  if (kind === 'compile') {
    before(GPUDevice, 'createShaderModule', (_device, [descriptor]) => {
      return descriptor.label ? [{ ...descriptor, code: 'fn broken( {' }] : undefined;
    });
  }
  if (kind === 'compute') {
    before(GPUDevice, 'createShaderModule', (_device, [descriptor]) => {
      const code = descriptor.code.replace('i < params.rounds', 'i < min(params.rounds, 65535u)');
      return [{ ...descriptor, code }];
    });
  }
}
