"""The `spectral` command. It imports nothing but the native module, so that it starts at once."""

import os
import sys


def _find_nvrtc():
    """Lets the native module find the run-time compiler that the extra `cuda` installs."""
    for folder in sys.path:
        base = os.path.join(folder, "nvidia")
        for part in ("cu13", "cuda_nvrtc"):
            library = os.path.join(base, part, "lib")
            if os.path.isdir(library):
                return library
    return None


def main():
    """Runs the command with this process's arguments and exits with its code."""
    from spectral_rl._native import run_command

    sys.exit(run_command(["spectral", *sys.argv[1:]]))
