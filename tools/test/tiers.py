"""The tiers of ./test, in the order in which they run. Each returns Counts.

A tier never stops the others. What it needs and lacks is a failure, not a skip.
"""

import json
import os
import re
import time

from counts import Counts, check, of_googletest, of_kernel_cases, of_node_test, of_unittest
from counts import of_vitest
from process import LOGS, NODE20, NODE24, ROOT, build, run

ENSURE = ROOT / "tools/setup/ensure"
GROUPS = ["toolchain", "test-tools", "node", "node20", "npm", "model-smollm2", "model-gemma"]
GROUPS += ["chromium", "mesa"]
MODULES = ["simd", "relaxed", "simd-mt", "relaxed-mt", "webgpu"]
MODULE_LIMIT_BYTES = 300_000
# Suites with this prefix run real models: in the golden tier only, optimised.
GOLDEN_FILTER = "Golden*"


# Cases that are left to --full: lavapipe compiles for seconds at each of their kernels.
SLOW_KERNELS = (
    "attention .*(4x2x96|3x1x512|6x6x8|2x1x20|4x2x128)"
    "|product (parts F32|gate up Q4_K|long .*, [24] of|qkv, partial, biases)"
)


def tracked(*patterns):
    """Files under version control, and new ones that are not ignored."""
    listed = run(["git", "ls-files", "-co", "--exclude-standard", *patterns], show="none").output
    return sorted(name for name in listed.splitlines() if (ROOT / name).exists())


def set_up():
    return run([ENSURE, "ensure", *GROUPS], 1200)


def setup(_full):
    counts = check(set_up().ok, "set-up")
    start = time.monotonic()
    again = set_up()
    elapsed_s = time.monotonic() - start
    quiet = again.ok and not again.output.strip()
    counts += check(quiet, "a second set-up has nothing to do and says nothing")
    print(f"  the second set-up took {elapsed_s:.2f} s")
    unit = run(["/usr/bin/python3", "-B", "tools/setup/setup_test.py"], 120, show="failure")
    return counts + of_unittest(unit)


def format(_full):
    sources = tracked("*.cc", "*.h", "*.c")
    cpp = run(["clang-format-19", "--dry-run", "-Werror", *sources], show="none")
    unformatted = {line.split(":")[0] for line in cpp.lines_with("[-Wclang-format-violations]")}
    for name in sorted(unformatted):
        print(f"  not as clang-format-19 writes it: {name}")
    counts = check(cpp.ok, f"clang-format, {len(sources)} files")
    prettier = run([NODE24, "node_modules/prettier/bin/prettier.cjs", "--check", "."], show="none")
    for line in prettier.lines_with("[warn]", "[error]"):
        print(f"  {line}")
    return counts + check(prettier.ok, "prettier")


def modules(_full):
    """The five modules, their sizes, and where each validates."""
    counts = check(run(["tools/build_modules"], 1800).ok, "the five modules build")
    print("  module                      bytes    limit")
    for name in MODULES:
        path = ROOT / f"build/wasm-{name}/nonstop-{name}.wasm"
        size_bytes = path.stat().st_size if path.exists() else 0
        print(f"  nonstop-{name + '.wasm':18} {size_bytes:>9,} {MODULE_LIMIT_BYTES:>8,}")
        counts += check(0 < size_bytes < MODULE_LIMIT_BYTES, f"nonstop-{name}.wasm within its limit")
        for label, node in (("Node 24", NODE24), ("Node 20", NODE20)):
            script = "process.exit(WebAssembly.validate(fs.readFileSync(process.argv[1])) ? 0 : 1)"
            status = run([node, "-e", script, path], show="none").status if size_bytes else None
            wanted = label == "Node 24" or not name.startswith("relaxed")
            verb = "validates" if wanted else "is refused"
            counts += check(status == int(not wanted), f"nonstop-{name}.wasm {verb} in {label}")
    counts += check(run(["tools/build_modules", "--bench"], 1800).ok, "the benchmark's modules build")
    probe = ROOT / "build/wasm-simd-mt/malloc_lock_probe.wasm"
    built = build("wasm-simd-mt", "malloc_lock_probe").ok
    works = built and run([NODE24, "tools/test/malloc_lock.mjs", probe], 60).ok
    return counts + check(works, "four threads allocate at once")


def native(_full):
    """All unit tests under ASan and UBSan."""
    if not build("native-debug", "nonstop_tests").ok:
        return check(False, "the native tests build")
    env = {"UBSAN_OPTIONS": "print_stacktrace=1", "ASAN_OPTIONS": "detect_stack_use_after_return=1"}
    program = ROOT / "build/native-debug/nonstop_tests"
    return of_googletest(run([program, *gtest_flags()], 900, env, show="failure"))


def gtest_flags():
    return [f"--gtest_filter=-{GOLDEN_FILTER}", "--gtest_brief=1"]


def wasm(full):
    """The same tests as wasm: SIMD128 in Node 24; with --full also in Node 20, and relaxed SIMD."""
    runs = [("wasm-test", NODE24)]
    if full:
        runs += [("wasm-test", NODE20), ("wasm-test-relaxed", NODE24)]
    counts = Counts()
    for preset, node in runs:
        if not build(preset, "nonstop_tests").ok:
            counts += check(False, f"the tests build as {preset}")
            continue
        program = ROOT / f"build/{preset}/nonstop_tests.wasm"
        command = [node, "tools/run_wasm_test.mjs", program, *gtest_flags()]
        counts += of_googletest(run(command, 900, show="failure"))
    return counts


def ts(_full):
    """Generated files are current; the scripts build, type-check, and pass their unit tests."""
    current = run([NODE24, "tools/abi/generate.mjs", "--check"], show="failure").ok
    counts = check(current, "web/src/wasm/abi.gen.ts is what tools/abi/generate.mjs writes")
    counts += check(run([NODE24, "tools/build.mjs"], 300, show="failure").ok, "tools/build.mjs")
    tsc = run([NODE24, "node_modules/typescript/bin/tsc", "--noEmit", "-p", "."], show="failure")
    counts += check(tsc.ok, "tsc")
    report = LOGS / "vitest.json"
    report.unlink(missing_ok=True)
    command = [NODE24, "node_modules/vitest/vitest.mjs", "run", "--reporter=default"]
    vitest = run([*command, "--reporter=json", f"--outputFile={report}"], show="failure")
    found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
    return counts + of_vitest(vitest, found)


def stories(folder, full, limit_s):
    """tests/<folder>/*_test.mjs with Node's own test runner, one file after the other."""
    files = sorted((ROOT / "tests" / folder).glob("*_test.mjs"))
    if not files:
        return check(False, f"tests/{folder} holds a test")
    command = [NODE24, "--test", "--test-reporter=spec", "--test-concurrency=1", *files]
    return of_node_test(run(command, limit_s, {"NONSTOP_FULL": "1" if full else ""}))


def programs(bench=False):
    """What the stories run: the modules, with `bench` those of the benchmark too, and the scripts."""
    commands = [["tools/build_modules"], *([["tools/build_modules", "--bench"]] if bench else [])]
    commands.append([NODE24, "tools/build.mjs"])
    return check(all(run(command, 1800, show="failure").ok for command in commands), "it is built")


def gpu(full):
    """On lavapipe: the kernels' cases, with --full all of them and with subgroups of 4 and 16 lanes too; then
    the player, the real and tiny models, the benchmark."""
    if not build("native-debug", "webgpu_cases").ok:
        return check(False, "the kernels' cases build")
    folder = ROOT / "build/kernel-cases"
    folder.mkdir(parents=True, exist_ok=True)
    written = run([ROOT / "build/native-debug/webgpu_cases", folder], 300)
    counts = check(written.ok, "the kernels' cases are written")
    sizes = (4, 8, 16) if full else (8,)
    for size in sizes if written.ok else ():
        command = [NODE24, "tests/gpu/run_cases.mjs", folder, "--failures"]
        if not full:
            command.append(f"--filter=^(?!{SLOW_KERNELS})")
        counts += of_kernel_cases(run([*command, f"--subgroup-size={size}"], 900))
    return counts + stories("gpu", full, 1200 if full else 600)


def golden(full):
    """Real models against exact reference values: natively (optimised), then by ./run."""
    counts = Counts()
    if not build("native-release", "nonstop_tests").ok:
        counts += check(False, "the optimised native tests build")
    else:
        program = ROOT / "build/native-release/nonstop_tests"
        listed = run([program, f"--gtest_filter={GOLDEN_FILTER}", "--gtest_list_tests"], show="none")
        if "Golden" in listed.output:
            env = {"NONSTOP_FULL": "1" if full else ""}
            command = [program, f"--gtest_filter={GOLDEN_FILTER}", "--gtest_brief=1"]
            counts += of_googletest(run(command, 1200, env))
    return counts + programs() + stories("golden", full, 2400 if full else 900)


def cli(full):
    return programs(bench=True) + stories("cli", full, 1200 if full else 600)


def web(full):
    return programs() + stories("web", full, 1200 if full else 600)


def fuzz(full):
    """Each fuzzer for a short while, from its corpus (fuzz/corpus/NAME) and what it finds now."""
    if not build("native-debug", "nonstop_fuzzers").ok:
        return check(False, "the fuzzers build")
    programs = sorted((ROOT / "build/native-debug/fuzz").glob("*_fuzz"))
    sources = {os.path.basename(name)[:-3] for name in tracked("engine/*_fuzz.cc")}
    counts = check({p.name for p in programs} >= sources, f"({len(sources)}) fuzzers are built")
    for program in [program for program in programs if program.name in sources]:
        name = program.name.removesuffix("_fuzz")
        found = ROOT / "build/fuzz" / name
        found.mkdir(parents=True, exist_ok=True)
        corpus = ROOT / "fuzz/corpus" / name
        seconds = 90 if full else 8
        command = [program, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048"]
        command += [f"-artifact_prefix={found}/", "-print_final_stats=1", found]
        done = run([*command, *([corpus] if corpus.is_dir() else [])], seconds + 120, show="failure")
        executed = re.findall(r"stat::number_of_executed_units:\s*(\d+)", done.output)
        counts += check(done.ok, f"{program.name}: {executed[-1] if executed else 0} inputs")
    return counts


def tidy(full):
    """clang-tidy over the engine without its tests, only with --full: it takes minutes."""
    if not full:
        return Counts()
    if not build("native-debug", "nonstop_engine").ok:
        return check(False, "the engine builds natively")
    command = ["run-clang-tidy-19", "-quiet", "-j", os.cpu_count() or 2, "-p", "build/native-debug"]
    done = run([*command, r"/engine/(?!port/wasm)(?!.*_(test|fuzz|bench)\.cc).*\.cc$"], 1800, show="none")
    found = sorted(set(done.lines_with(": error: ", ": warning: ")))
    for line in found[:60]:
        print(f"  {line.replace(f'{ROOT}/', '')}")
    return check(done.ok and not found, f"clang-tidy ({len(found)} findings)")


TIERS = {
    tier.__name__: tier
    for tier in (setup, format, modules, native, wasm, ts, gpu, golden, cli, web, fuzz, tidy)
}
