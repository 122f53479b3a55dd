"""Whoever checks types strictly finds every public name typed, and nothing wrong with the examples of the docs and the notebooks."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import forerun

DOCS = Path(__file__).parents[3] / "docs"


def pyright(*words):
    pytest.importorskip("pyright")
    # It looks for packages where the first python of the PATH does.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    words = [sys.executable, "-m", "pyright", *words]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tempfile.gettempdir(), env=dict(os.environ, PATH=path))
    return done.returncode, done.stdout + done.stderr


def test_every_public_name_is_typed():
    code, said = pyright("--verifytypes", "forerun", "--ignoreexternal")
    assert code == 0 and "completeness score: 100%" in said, said


def examples():
    """Each example by its place: blocks of pages, and notebooks as one program."""
    for page in ("python.md", "sweeps.md"):
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S)):
            yield f"{page.removesuffix('.md')}_{number}.py", block
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        # The last expression of a cell is its picture.
        yield f"{path.stem.replace('-', '_')}.py", "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")


def test_examples_pass_the_strict_check(tmp_path):
    for module in ("numpy", "altair", "pandas", "polars"):
        pytest.importorskip(module)
    for name, text in examples():
        (tmp_path / name).write_text(text)
    # A picture at the end of a cell is shown, and numpy and pandas type their own as far as they do.
    loose = dict.fromkeys(("reportUnusedExpression", "reportUnknownMemberType", "reportUnknownVariableType", "reportUnknownArgumentType"), False)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", **loose}))
    code, said = pyright("--pythonpath", sys.executable, "--project", str(tmp_path))
    assert code == 0, said
    (tmp_path / "wrong.py").write_text("import forerun\nforerun.compare(7, bounds='no')\n")
    assert pyright("--pythonpath", sys.executable, "--project", str(tmp_path))[0] != 0, "it refuses nothing"


def test_every_public_name_has_its_docstring():
    bare = []
    for name in forerun.__all__:
        thing = getattr(forerun, name)
        bare += [name] if not (thing.__doc__ or "").strip() else []
        if isinstance(thing, type):
            members = (member for key, member in vars(thing).items() if not key.startswith("_") and callable(getattr(thing, key)))
            bare += [f"{name}.{getattr(member, '__name__', member)}" for member in members if not getattr(member, "__doc__", None)]
    assert not bare, bare
