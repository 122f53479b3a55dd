#!/usr/bin/env python3
"""Runs a notebook of docs/notebooks from top to bottom and prints its picture as SVG: how the docs come to show it.

Usage: scripts/notebook-picture.py NAME, in an environment with the module, altair, vl-convert-python and optuna:
scripts/python-lab.sh makes one. What the notebook prints goes to stderr.
"""

import contextlib
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    path = ROOT / "docs/notebooks" / f"{sys.argv[1]}.ipynb"
    cells = json.loads(path.read_text())["cells"]
    known = {}
    os.chdir(path.parent)
    with contextlib.redirect_stdout(sys.stderr):
        for cell in cells:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), str(path), "exec"), known)
    import vl_convert

    print(vl_convert.vegalite_to_svg(known["picture"].to_json()))


main()
