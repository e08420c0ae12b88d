"""What every part of set-up shares: the error type, running commands, messages, hashes, paths.

Set-up talks on stderr only, so that `./run --json` can keep stdout for its one object.
"""

import hashlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPS = ROOT / ".deps"
DOWNLOADS = DEPS / "downloads"
END_LIMIT_S = 5
WAIT_S = 0.1


class SetupError(Exception):
    """One full sentence for the user; `tail` is the output of a command that failed, whose last
    lines are shown."""

    def __init__(self, message, tail=""):
        super().__init__(message)
        self.message = message
        self.tail = tail


def say(message):
    print(f"set-up: {message}", file=sys.stderr, flush=True)


def shown(command):
    return " ".join(str(word) for word in command)


# What pip, npm and apt say of a network that is not there, and what it means.
NETWORK_CLUES = (
    (
        r"name resolution|Name or service not known|Temporary failure resolving|Could not resolve"
        r"|ENOTFOUND|EAI_AGAIN|getaddrinfo",
        "the name of a server could not be resolved",
    ),
    (r"Network is unreachable|No route to host|ENETUNREACH|EHOSTUNREACH", "no network is reachable"),
    (
        r"Connection refused|ECONNREFUSED|Could not connect to|Cannot connect to proxy",
        "a server or proxy refused the connection",
    ),
    (r"timed out|ETIMEDOUT", "a server did not answer in time"),
)


def network_cause(output):
    """Why a download failed, where the network was the cause; else None."""
    for pattern, cause in NETWORK_CLUES:
        if re.search(pattern, output):
            return cause
    return None


def failure(purpose, status, output, downloads):
    cause = network_cause(output) if downloads else None
    if cause:
        return SetupError(
            f"{purpose} failed: {cause}. Set-up needs the network once; check the connection and "
            "the proxy settings, then try again."
        )
    return SetupError(
        f"{purpose} failed with status ({status}); .deps/setup.log has the command and its output.",
        output.strip(),
    )


def await_output(child):
    """In short waits: one without a limit can sleep through a signal that comes as it begins."""
    while True:
        try:
            return child.communicate(timeout=WAIT_S)[0]
        except subprocess.TimeoutExpired:
            pass


def output_of(child, whole):
    """A child in a process group of its own, which Ctrl-C does not reach: it is ended here, or
    awaited where it must not be cut."""
    try:
        return await_output(child)
    except KeyboardInterrupt:
        if whole:
            say("stopping after the step under way, which must not be cut …")
            await_output(child)
            raise
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.communicate(timeout=END_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
        raise


def run(command, purpose, cwd=ROOT, env=None, downloads=False, whole=False):
    """Runs a command quietly. Its output is kept in .deps/setup.log and shown if it fails. Ctrl-C
    ends it, or with `whole` waits for it."""
    command = [str(word) for word in command]
    environment = dict(os.environ)
    environment.update(env or {})
    try:
        child = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    except OSError as error:
        raise SetupError(f"{purpose} failed: `{shown(command)}` did not start ({error}).") from error
    output = output_of(child, whole).decode("utf-8", "replace")
    with (DEPS / "setup.log").open("a", encoding="utf-8") as log:
        log.write(f"$ {shown(command)}\n{output}(status {child.returncode})\n")
    if child.returncode != 0:
        raise failure(purpose, child.returncode, output, downloads)
    return output


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check_file(path, pin, name):
    """Raises unless the file has the pinned size and hash."""
    size_bytes = os.path.getsize(path)
    if size_bytes != pin["size_bytes"]:
        raise SetupError(
            f"{name} has ({size_bytes:,}) bytes, but tools/pins.json says ({pin['size_bytes']:,})."
        )
    found = sha256_of(path)
    if found != pin["sha256"]:
        raise SetupError(
            f"{name} has the sha256 ({found}), but tools/pins.json says ({pin['sha256']})."
        )


def megabytes(size_bytes):
    return f"{size_bytes / 1e6:.0f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.0f} kB"


class Step:
    """Announces a step that takes long, and says how long it took."""

    def __init__(self, message):
        self.message = message

    def __enter__(self):
        say(f"{self.message} …")
        self.start = time.monotonic()
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            say(f"{self.message}: done in {time.monotonic() - self.start:.1f} s")
        return False
