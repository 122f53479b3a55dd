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


@pytest.mark.parametrize(("said", "shown"), [("", True), (", progress=False", False)])
def test_a_run_in_a_notebook_shows_its_bar_unasked(said, shown, tmp_path):
    for module in ("nbclient", "ipykernel", "tqdm"):
        pytest.importorskip(module)
    import nbclient
    import nbformat

    cell = f"import forerun\nrun = forerun.sim('random:size=1GiB,requests=300000', 'asp', device='wd-7200'{said})"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    outputs = notebook.cells[0].outputs
    bars = [output for output in outputs if "runs [" in output.get("text", "") or "widget" in str(output.get("data", ""))]
    assert bool(bars) == shown and "Warning" not in str(outputs), outputs


def test_there_are_notebooks():
    assert len(NOTEBOOKS) == 3
