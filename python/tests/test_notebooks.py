"""Notebooks run from top to bottom."""

import shutil
from pathlib import Path

import pytest

try:
    import nbformat
    from ipykernel import kernelspec  # noqa: F401
    from nbclient import NotebookClient
except ImportError as error:
    pytest.skip(
        f"SKIPPED: {error.name} is not installed (pip install nbclient nbformat ipykernel), so no notebook is run",
        allow_module_level=True,
    )

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
# What each imports beside this package and the standard library.
NEEDS = {
    "own_task.ipynb": ["matplotlib", "pandas", "stable_baselines3"],
    "reading_a_run.ipynb": ["matplotlib", "pandas"],
}
# A cell is given this long: many times what it takes on two cores that do nothing else.
SECONDS = 1_500


def test_every_notebook_is_known():
    assert sorted(path.name for path in FOLDER.glob("*.ipynb")) == sorted(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_notebooks_are_small_and_have_no_outputs(name):
    assert (FOLDER / name).stat().st_size < 60_000
    for cell in nbformat.read(FOLDER / name, as_version=4).cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None, f"strip the outputs of {name} before you commit it"


@pytest.mark.parametrize("name", NEEDS)
def test_notebooks_run(name, tmp_path, monkeypatch):
    for package in NEEDS[name]:
        pytest.importorskip(package, reason=f"SKIPPED: {package} is not installed, so {name} is not run")
    shutil.copy(FOLDER / name, tmp_path)
    # Temporary folders of the notebook end up here too.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = nbformat.read(tmp_path / name, as_version=4)
    client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    errors = [out for cell in code for out in cell.outputs if out.output_type == "error"]
    assert not errors
