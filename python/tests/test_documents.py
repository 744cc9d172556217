"""The Python of the documents runs as it is printed."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("SPECTRAL_SOURCE", Path(__file__).parents[2]))


@pytest.mark.parametrize("page", ["README.md", "docs/python/README.md"])
def test_examples_run(page, tmp_path, monkeypatch):
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks, page
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page}, block {number + 1}", "exec"), names)
    assert list((tmp_path / "report").glob("*.html"))
