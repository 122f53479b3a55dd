"""The newcomer's lines of docs/python.md are run as they stand there; so are its other examples."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "python.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if PAGE.exists() else []


def test_the_first_lines_are_ten_at_most_and_give_a_table_and_a_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert len(BLOCKS[0].strip().splitlines()) <= 10
    assert BLOCKS[0] in (PAGE.parents[1] / "README.md").read_text(), "the README's lines are others"
    exec(compile(BLOCKS[0], "docs/python.md", "exec"), {})
    assert "was fastest" in capsys.readouterr().out
    assert "<svg" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("number", range(1, len(BLOCKS)))
def test_every_other_example_runs(number, tmp_path, monkeypatch):
    for name in ("numpy", "pyarrow", "polars", "pandas", "altair"):
        if name in BLOCKS[number]:
            pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[number], "docs/python.md", "exec"), {})
