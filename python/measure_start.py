"""How long the `spectral` command of an installed wheel takes to start, next to the bare binary.

Usage: python measure_start.py BARE WHEELS [--limit MILLISECONDS], for example
target/release/spectral ~/.cache/spectral/python-3.13/bin/spectral
"""

import argparse
import statistics
import subprocess
import sys
import time


def milliseconds(command):
    """The time that one `--version` takes."""
    begun = time.perf_counter()
    subprocess.run([command, "--version"], check=True, stdout=subprocess.DEVNULL)
    return 1000 * (time.perf_counter() - begun)


def main():
    """Prints medians of alternating starts; exits with 1 if the difference is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bare", help="the binary that cargo builds")
    parser.add_argument("wheels", help="the command of a virtual environment in which the wheel is installed")
    parser.add_argument("--starts", type=int, default=41)
    parser.add_argument("--limit", type=float, default=50, help="the difference that is allowed")
    args = parser.parse_args()
    milliseconds(args.bare), milliseconds(args.wheels)
    times = [(milliseconds(args.bare), milliseconds(args.wheels)) for _ in range(args.starts)]
    bare, wheels = (statistics.median(column) for column in zip(*times, strict=True))
    # What others do on the machine only ever adds.
    least = min(wheel for _, wheel in times) - min(bare for bare, _ in times)
    print(f"median of {args.starts} starts: bare {bare:.1f} ms, wheel {wheels:.1f} ms, {wheels - bare:.1f} ms more")
    print(f"fastest start: {least:.1f} ms more")
    if least > args.limit:
        sys.exit(f"that is more than {args.limit:g} ms")


if __name__ == "__main__":
    main()
