#!/usr/bin/env python3
"""Checks lists of what is in a release (CycloneDX): every part is one of Cargo.lock, what no release is without is there, and no path of
the machine that made them stands in them.

Usage: scripts/check-sbom.py FILE...
"""

import json
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Of each, what the program cannot be without.
ALWAYS = {"forerun-core", "forerun-sim", "parquet", "serde"}


def check(path, locked):
    text = path.read_text()
    parts = {(part["name"], part["version"]) for part in json.loads(text)["components"]}
    strangers = sorted(parts - locked)
    assert not strangers, f"{path}: not in Cargo.lock: {strangers}"
    missing = sorted(ALWAYS - {name for name, _ in parts})
    assert not missing, f"{path}: without {missing}"
    for place in (ROOT, pathlib.Path.home()):
        assert f"{place}/" not in text, f"{path}: names {place}"
    print(f"{path.name}: {len(parts)} parts, all of them in Cargo.lock")


def main():
    locked = {(package["name"], package["version"]) for package in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    for path in sys.argv[1:]:
        check(pathlib.Path(path), locked)


main()
