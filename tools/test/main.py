"""./test: runs the tiers, prints a table of counts and times, and one closing line."""

import argparse
import signal
import sys
import time
import traceback

from counts import Counts, check
from process import LOGS
from tiers import TIERS, set_up


def parse(words):
    parser = argparse.ArgumentParser(prog="./test", description="Tests Nonstop.")
    parser.add_argument("--full", action="store_true", help="everything, for up to an hour")
    parser.add_argument("--only", action="append", metavar="TIER", help=", ".join(TIERS))
    parser.add_argument("--list", action="store_true", help="name the tiers and stop")
    options = parser.parse_args(words)
    unknown = [name for name in options.only or [] if name not in TIERS]
    if unknown:
        parser.error(f"There is no tier ({', '.join(unknown)}); there are: {', '.join(TIERS)}.")
    return options


def run_tier(name, full):
    print(f"\n== {name}", flush=True)
    try:
        return TIERS[name](full)
    except Exception:  # A broken tier is a failure; the other tiers still run.
        traceback.print_exc(file=sys.stdout)
        return check(False, f"tier {name} ran to its end")


def main():
    options = parse(sys.argv[1:])
    if options.list:
        print("\n".join(TIERS))
        return 0
    try:
        LOGS.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"ERROR: The folder ({error.filename}) cannot be written ({error.strerror}).\n")
        print("0 passed, 1 failed", flush=True)
        return 1
    if options.only and "setup" not in options.only and not set_up().ok:
        print("Set-up failed; its messages are above.\n\n0 passed, 1 failed", flush=True)
        return 1
    rows = []
    for name in options.only or TIERS:
        start = time.monotonic()
        counts = run_tier(name, options.full)
        rows.append((name, counts, time.monotonic() - start))
        print(f"-- {name}: {counts} in {rows[-1][2]:.1f} s", flush=True)
    total = sum((counts for _, counts, _ in rows), Counts())
    print("\ntier        passed  failed  seconds")
    for name, counts, seconds in rows:
        print(f"{name:10} {counts.passed:7} {counts.failed:7} {seconds:8.1f}")
    print(f"{'':10} {total.passed:7} {total.failed:7} {sum(row[2] for row in rows):8.1f}\n")
    print(total, flush=True)
    return 0 if total.failed == 0 and total.passed > 0 else 1


def stop(number, _frame):
    """SystemExit lets the children's process groups be ended (process.py), within a limit of its
    own; a second signal must not cut that (coreutils' `timeout` sends two)."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: None)
    sys.exit(128 + number)


if __name__ == "__main__":
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, stop)
    sys.exit(main())
