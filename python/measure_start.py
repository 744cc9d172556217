#!/usr/bin/env python3
"""How long the `spectral` command of an installed wheel takes to start, next to the bare binary.

Usage: python measure_start.py BARE WHEELS [--limit MILLISECONDS], for example
target/release/spectral ~/.cache/spectral/python-3.13/bin/spectral
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time


def milliseconds(command):
    """What one `--version` takes: by the clock, and of the processor."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([command, "--version"], check=True, stdout=subprocess.DEVNULL)
    elapsed, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1000 * elapsed, 1000 * worked


def main():
    """Prints medians of alternating starts; exits with 1 if the difference is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bare", help="the binary that cargo builds")
    parser.add_argument("wheels", help="the command of a virtual environment in which the wheel is installed")
    parser.add_argument("--starts", type=int, default=41)
    parser.add_argument("--limit", type=float, default=50, help="the difference in milliseconds that is allowed")
    args = parser.parse_args()
    milliseconds(args.bare), milliseconds(args.wheels)  # files come into memory
    times = [(milliseconds(args.bare), milliseconds(args.wheels)) for _ in range(args.starts)]
    more = {}
    for number, kind in enumerate(["by the clock", "of the processor"]):
        bare, wheels = (statistics.median(start[which][number] for start in times) for which in (0, 1))
        more[kind] = wheels - bare
        print(f"{kind}: bare {bare:.1f} ms, wheel {wheels:.1f} ms, {more[kind]:.1f} ms more (median of {args.starts} starts)")
    # A machine with other work to do makes the clock's figure meaningless; both agree on an idle one.
    if min(more.values()) > args.limit:
        sys.exit(f"that is more than {args.limit:g} ms")


if __name__ == "__main__":
    main()
