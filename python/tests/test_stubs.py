"""The type stubs say what the native module has."""

import subprocess
import sys

import pytest
from run_fixtures import PATIENCE

pytest.importorskip("mypy", reason="SKIPPED: mypy is not installed")


def test_stubs_match_the_module():
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "spectral_rl._native"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
