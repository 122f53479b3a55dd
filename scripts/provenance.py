#!/usr/bin/env python3
"""Says how the files of a release were made, as JSON on stdout: commit, tools, settings, and the hash of each file.

Usage: scripts/provenance.py FOLDER. Whoever doubts a file checks the commit out, makes it with the same tools and compares; what has to be
the same for the same bytes stands in it. Nothing in it names the machine.
"""

import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


# Panics name source files, so the compiler writes their paths into the binary.
SAME_BYTES = [
    "commit, with a clean tree",
    "rustc, cc and libc as above; of the static binary musl's headers of the same Debian, too",
    "the path of the checkout, of CARGO_HOME and of CARGO_TARGET_DIR",
    "SOURCE_DATE_EPOCH where it is set; the packages have the time of the commit without it",
]


def said(*words):
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main():
    folder = pathlib.Path(sys.argv[1])
    manifest = (ROOT / "Cargo.toml").read_text()
    profile = re.search(r"^\[profile\.release\]\n((?:\S.*\n)+)", manifest, re.M)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in ("SHA256SUMS", "provenance.json"))
    told = {
        "version": re.search(r'^version = "(.*)"$', manifest, re.M)[1],
        "commit": said("git", "rev-parse", "HEAD"),
        "tree_is_clean": said("git", "status", "--porcelain") == "",
        "commit_time": said("git", "log", "-1", "--format=%cI"),
        "command": ".ci/release",
        "cargo_lock_sha256": sha256(ROOT / "Cargo.lock"),
        "rustc": said("rustc", "--version", "--verbose"),
        "cargo": said("cargo", "--version"),
        "cc": (said("cc", "--version") or "").splitlines()[:1],
        "libc": " ".join(platform.libc_ver()),
        "architecture": platform.machine(),
        "profile_release": profile[1].splitlines() if profile else [],
        "rustflags": os.environ.get("RUSTFLAGS", ""),
        "source_date_epoch": os.environ.get("SOURCE_DATE_EPOCH", ""),
        "same_bytes_need_the_same": SAME_BYTES,
        "files": {str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files},
    }
    print(json.dumps(told, indent=1))


main()
