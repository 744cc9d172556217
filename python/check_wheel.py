"""Checks what is in a wheel of the package: its name and tags, all of the package and nothing else, no paths of the builder.

Usage: python check_wheel.py WHEEL [--platform manylinux_2_28_x86_64] [--absent TEXT...]
"""

import argparse
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A wheel that is larger has probably kept its debug information.
MAX_BYTES = 25_000_000


def faults(wheel, platform, absent):
    """Everything that is wrong with the wheel, one line each."""
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    name = re.fullmatch(r"spectral_rl-(.+)-cp310-abi3-(.+)\.whl", wheel.name)
    if name is None:
        yield f"its name is not that of an abi3 wheel for Python 3.10 and later: {wheel.name}"
        return
    if name[1] != version:
        yield f"its version is {name[1]}, and that of the source is {version}"
    if platform is not None and platform not in name[2].split("."):
        yield f"it is for {name[2]}, not for {platform}"
    if wheel.stat().st_size > MAX_BYTES:
        yield f"it has {wheel.stat().st_size:,} bytes, more than {MAX_BYTES:,}"

    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "python/spectral_rl"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    source = {path.removeprefix("python/") for path in listed.stdout.split("\n") if path and (ROOT / path).exists()}
    info = f"spectral_rl-{version}.dist-info"
    wanted = source | {
        "spectral_rl/py.typed",
        "spectral_rl/_native.abi3.so",
        *(f"{info}/{file}" for file in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")),
        *(f"{info}/licenses/{file}" for file in ("LICENSE-MIT", "LICENSE-APACHE")),
    }
    with zipfile.ZipFile(wheel) as archive:
        there = {file for file in archive.namelist() if not file.endswith("/")}
        yield from (f"{file} is missing" for file in sorted(wanted - there))
        yield from (f"{file} does not belong into it" for file in sorted(there - wanted))
        for file in archive.namelist():
            contents = archive.read(file)
            yield from (f"{file} has the text {text!r}" for text in absent if text.encode() in contents)


def main():
    """Prints what is wrong and exits with 1, or says that all is well."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--platform", help="the platform that the wheel must be for")
    parser.add_argument("--absent", nargs="*", default=[], help="texts that no file may have, such as the builder's paths")
    args = parser.parse_args()
    found = list(faults(args.wheel, args.platform, args.absent))
    for fault in found:
        print(f"{args.wheel.name}: {fault}", file=sys.stderr)
    if found:
        sys.exit(1)
    print(f"{args.wheel.name}: {args.wheel.stat().st_size:,} bytes, all of the package and nothing else")


if __name__ == "__main__":
    main()
