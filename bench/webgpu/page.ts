// The page of ./run bench webgpu: one engine, or plain reading.
import { servePage } from '../common/page_globals.js';
import { startEngine } from './page_engine.js';
import { GpuReadRunner } from './read_runner.js';

servePage(async (given) => {
  if (given.kind === 'engine') return startEngine(given.setup);
  if (given.kind === 'gpu read') return GpuReadRunner.start();
  throw new TypeError(`This page does not run "${given.kind}".`);
});
