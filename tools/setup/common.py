"""What every part of set-up shares: the error type, running commands, messages, hashes, paths.

Set-up talks on stderr only, so that `./run --json` can keep stdout for its one object.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPS = ROOT / ".deps"
DOWNLOADS = DEPS / "downloads"


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


def run(command, purpose, cwd=ROOT, env=None):
    """Runs a command quietly. Its output is kept in .deps/setup.log and shown if it fails."""
    command = [str(word) for word in command]
    environment = dict(os.environ)
    environment.update(env or {})
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        raise SetupError(f"{purpose} failed: `{shown(command)}` did not start ({error}).") from error
    output = done.stdout.decode("utf-8", "replace")
    with (DEPS / "setup.log").open("a", encoding="utf-8") as log:
        log.write(f"$ {shown(command)}\n{output}(status {done.returncode})\n")
    if done.returncode != 0:
        raise SetupError(
            f"{purpose} failed: `{shown(command)}` ended with status ({done.returncode}).",
            output.strip(),
        )
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
