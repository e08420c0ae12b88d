// The command line: parses, runs, reports. One place turns errors into a sentence (or with --json into
// an object) and an exit status.
import { EngineError, toEngineError } from '../../../web/src/api/index.js';
import { runBench } from '../../../bench/main.js';
import { exitStatus } from './exit.js';
import { helpText } from './help.js';
import { abortOnInterrupt } from './interrupt.js';
import { asksForHelp, parseArguments, type Arguments } from './parse.js';
import { runModelVerb } from './run.js';
import { serve } from './serve.js';

async function main(words: readonly string[]): Promise<number> {
  // What "bench" writes as JSON goes to a file.
  let as_json = words.includes('--json') && words[0] !== 'bench';
  try {
    checkNode();
    if (asksForHelp(words)) {
      process.stdout.write(`${helpText()}\n`);
      return 0;
    }
    const args: Arguments = parseArguments(words);
    as_json = args.flag('json');
    const signal = abortOnInterrupt();
    if (args.verb === 'bench') return await runBench(args, signal);
    return args.verb === 'serve' ? await serve(args, signal) : await runModelVerb(args, signal);
  } catch (thrown) {
    const { code, message } = toEngineError(thrown);
    if (as_json) process.stdout.write(`${JSON.stringify({ error: { code, message } })}\n`);
    else process.stderr.write(`ERROR (${code}): ${message}\n`);
    return exitStatus(code);
  }
}

function checkNode(): void {
  if (typeof process.getBuiltinModule === 'function') return;
  throw new EngineError(
    'backend_failed',
    `Node ${process.version} is too old; 20.16 or later works.`,
  );
}

// A reader that went away (./run … | head) is no fault; a full disk is one of the disk.
process.stdout.on('error', (error) => {
  const code = 'code' in error ? String(error.code) : error.message;
  if (code === 'EPIPE') process.exit(0);
  process.stderr.write(`ERROR (storage): The output cannot be written (${code}).\n`);
  process.exit(exitStatus('storage'));
});

// Nobody reads figures and notes then; the reply on stdout is still wanted.
process.stderr.on('error', () => {});

process.exitCode = await main(process.argv.slice(2));
