"""The Python of the documents runs as it is printed."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("SPECTRAL_SOURCE", Path(__file__).parents[2]))


@pytest.mark.parametrize(
    ("page", "leaves"),
    [("README.md", "report/*.html"), ("docs/python/README.md", "report/*.html"), ("docs/python/search.md", "searches/*/journal.log")],
)
def test_examples_run(page, leaves, tmp_path, monkeypatch):
    if "search" in page:
        pytest.importorskip("optuna", reason='SKIPPED: Optuna is not installed (pip install "spectral-rl[search]")')
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks, page
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page}, block {number + 1}", "exec"), names)
    assert list(tmp_path.glob(leaves))
