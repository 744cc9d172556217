#!/usr/bin/env python3
"""Compares the tables and models of two folders of runs, byte for byte, whichever population trained an agent.

    compare.py RUNS OTHER_RUNS      for example reproduce/runs of a cluster and of one machine

Exit code 0: all the same. 1: some differ, or are in one folder only; it says which.
"""

import pathlib
import sys


def results(runs):
    """«task/agent/file» -> bytes, of every table and model."""
    found = {}
    for path in sorted(pathlib.Path(runs).glob("*/*/agents/*/*")):
        if path.suffix in (".csv", ".safetensors"):
            name = f"{path.parts[-5]}/{path.parts[-2]}/{path.name}"
            if name in found:
                sys.exit(f"{runs} has {name} twice")
            found[name] = path.read_bytes()
    return found


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    one, other = (results(runs) for runs in sys.argv[1:])
    bad = [f"{name}: only in one" for name in sorted(one.keys() ^ other.keys())]
    bad += [f"{name}: differs" for name in sorted(one.keys() & other.keys()) if one[name] != other[name]]
    print("\n".join(bad[:20] + (["…"] if len(bad) > 20 else [])), end="\n" if bad else "")
    tables = sum(name.endswith(".csv") for name in one)
    outcome = f"{len(bad)} DIFFERENT" if bad or not one else "all the same"
    print(f"{tables} tables and {len(one) - tables} models, {sum(map(len, one.values()))} bytes: {outcome}")
    sys.exit(1 if bad or not one else 0)


if __name__ == "__main__":
    main()
