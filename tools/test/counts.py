"""Counts of passed and failed tests, and how to read them from each runner's output."""

import re


class Counts:
    def __init__(self, passed=0, failed=0):
        self.passed = passed
        self.failed = failed

    def __add__(self, other):
        return Counts(self.passed + other.passed, self.failed + other.failed)

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed"


def check(ok, what):
    """One test that is a plain condition."""
    print(f"  {'ok  ' if ok else 'FAIL'} {what}", flush=True)
    return Counts(int(ok), int(not ok))


def of_googletest(run):
    """A crash or a time-out counts as a failure of its own; so does a run without tests."""
    passed = re.findall(r"^\[  PASSED  \] (\d+) tests?\.", run.output, re.M)
    failed = re.findall(r"^\[  FAILED  \] (\d+) tests?, listed below", run.output, re.M)
    skipped = re.findall(r"^\[  SKIPPED \] (\d+) tests?, listed below", run.output, re.M)
    if skipped:
        print(f"  ({skipped[-1]}) tests were skipped, for the reasons above.")
    counts = Counts(int(passed[-1]) if passed else 0, int(failed[-1]) if failed else 0)
    if counts.passed + counts.failed == 0 or (not run.ok and counts.failed == 0):
        counts += check(False, f"GoogleTest ran to its end (status {run.status})")
    return counts


def of_kernel_cases(run):
    """tests/gpu/run_cases.mjs."""
    found = re.findall(r"^(\d+) passed, (\d+) failed, ", run.output, re.M)
    passed, failed = found[-1] if found else (0, 0)
    counts = Counts(int(passed), int(failed))
    if counts.passed + counts.failed == 0 or (not run.ok and counts.failed == 0):
        counts += check(False, f"the kernels' cases ran to their end (status {run.status})")
    return counts


def of_node_test(run):
    """node --test with the spec reporter."""
    passed = re.findall(r"^\S* ?pass (\d+)$", run.output, re.M)
    failed = re.findall(r"^\S* ?fail (\d+)$", run.output, re.M)
    counts = Counts(int(passed[-1]) if passed else 0, int(failed[-1]) if failed else 0)
    if counts.passed + counts.failed == 0 or (not run.ok and counts.failed == 0):
        counts += check(False, f"node --test ran to its end (status {run.status})")
    return counts


def of_vitest(run, report):
    """Vitest's JSON report, as a dictionary or None."""
    if report is None:
        return check(False, f"Vitest wrote its report (status {run.status})")
    counts = Counts(report["numPassedTests"], report["numFailedTests"])
    if not run.ok and counts.failed == 0:
        counts += check(False, f"Vitest ended well (status {run.status})")
    return counts


def of_unittest(run):
    total = re.findall(r"^Ran (\d+) tests?", run.output, re.M)
    bad = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", run.output))
    if not total or (not run.ok and bad == 0):
        return check(False, f"unittest ran to its end (status {run.status})")
    return Counts(int(total[-1]) - bad, bad)
