"""The notebooks of the docs run from top to bottom, on small inputs, and show their pictures."""

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[3] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_its_picture(path, monkeypatch):
    for module in ("nbclient", "ipykernel", "altair", "optuna"):
        pytest.importorskip(module)
    import nbclient
    import nbformat

    monkeypatch.setenv("FORERUN_SMALL", "1")
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": path.parent}})
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [output for output in shown if "vega-lite" in output.get("data", {}).get("text/html", "")]
    assert len(pictures) == 1, shown


def test_there_are_notebooks():
    assert len(NOTEBOOKS) == 3
