"""Runs the programs under test: output is shown as it comes and kept for parsing.

Each child has its own process group and a time limit; whatever it started ends with it.
"""

import atexit
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
NODE24 = ROOT / ".deps/node24/bin/node"
NODE20 = ROOT / ".deps/node20/bin/node"
LOGS = ROOT / "build/test-logs"

NINJA_PROGRESS = re.compile(r"\[\d+/\d+\] (Building|Linking|Re-checking|Shrinking)")

END_LIMIT_S = 10

_groups = set()


def _end_group(group):
    _groups.discard(group)
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


@atexit.register
def _end_all():
    """Set-up and builds get a moment to tidy up."""
    for group in list(_groups):
        try:
            os.killpg(group, signal.SIGINT)
        except ProcessLookupError:
            continue
        limit = time.monotonic() + END_LIMIT_S
        while _is_there(group) and time.monotonic() < limit:
            time.sleep(0.05)
        _end_group(group)


def _is_there(group):
    try:
        os.waitpid(group, os.WNOHANG)
    except ChildProcessError:
        pass
    try:
        os.killpg(group, 0)
        return True
    except ProcessLookupError:
        return False


class Run:
    """What a finished program left: its status (None when it ran out of time) and its output."""

    def __init__(self, status, output):
        self.status = status
        self.output = output

    @property
    def ok(self):
        return self.status == 0

    def lines_with(self, *needles):
        return [line for line in self.output.splitlines() if any(n in line for n in needles)]


def run(command, limit_s=600, env=None, show="all"):
    """show: "all" prints the output as it comes; "failure" prints its end if the program fails."""
    command = [str(word) for word in command]
    environment = dict(os.environ, NO_COLOR="1", FORCE_COLOR="0")
    environment["PATH"] = f"{NODE24.parent}{os.pathsep}{environment.get('PATH', '')}"
    environment.update(env or {})
    try:
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        print(f"  `{' '.join(command)}` did not start ({error}).", flush=True)
        return Run(127, "")
    _groups.add(child.pid)
    late = threading.Event()

    def stop():
        late.set()
        _end_group(child.pid)

    timer = threading.Timer(limit_s, stop)
    timer.daemon = True  # the end of a stopped ./test does not wait for the limit
    timer.start()
    pieces = []
    for raw in child.stdout:
        line = raw.decode("utf-8", "replace")
        pieces.append(line)
        if show == "all":
            sys.stdout.write(f"  {line}")
            sys.stdout.flush()
    status = child.wait()
    timer.cancel()
    _end_group(child.pid)
    output = "".join(pieces)
    if late.is_set():
        status = None
        print(f"  `{' '.join(command)}` was ended after its limit of ({limit_s}) s.", flush=True)
    if show == "failure" and status != 0:
        lines = [line for line in output.splitlines() if not NINJA_PROGRESS.match(line)]
        for line in lines[-60:]:
            print(f"  {line}")
        print(f"  `{' '.join(command)}` ended with status ({status}).", flush=True)
    return Run(status, output)


def build(preset, *targets, limit_s=1500):
    """Configures a CMake preset where needed and builds its targets."""
    configured = run(["tools/configure", preset], show="failure")
    if not configured.ok:
        return configured
    command = ["cmake", "--build", "--preset", preset]
    return run([*command, *(["--target", *targets] if targets else [])], limit_s, show="failure")
