// Stop signals: Ctrl-C, SIGTERM, or a terminal that closes. The first asks for an end, the second takes it.

const kSigintStatus = 130;
/** coreutils' `timeout` signals the program and then its whole group, which is one stop and not two. */
const kOneStopMs = 500;

/** What each signal calls. What comes within 0.5 s of the first is the same stop. */
export function makeInterrupt(
  stop: () => void,
  end: () => void,
  now_ms: () => number = () => performance.now(),
): () => void {
  let first_ms: number | undefined;
  return () => {
    if (first_ms === undefined) {
      first_ms = now_ms();
      stop();
    } else if (now_ms() - first_ms >= kOneStopMs) end();
  };
}

export function abortOnInterrupt(): AbortSignal {
  const stop = new AbortController();
  const interrupt = makeInterrupt(
    () => stop.abort(),
    () => process.exit(kSigintStatus),
  );
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, interrupt);
  return stop.signal;
}
