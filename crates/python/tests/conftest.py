"""What every test needs: the command that the wheel installed, and a small trace."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import forerun

COMMAND = Path(sys.prefix) / "bin" / "forerun"
HARDWARE = {"array": "raid5:5x128KiB", "device": "wd-7200", "cache": "16MiB"}
WORDS = ["--array", "raid5:5x128KiB", "--device", "wd-7200", "--cache", "16MiB"]
SMALL = "forward:processes=2,size=4MiB,block=4KiB"


@pytest.fixture(scope="session")
def command():
    """Runs the installed command: its stdout."""

    def run(*words: str) -> str:
        # Where Python has GNU readline loaded, that tells every child how wide the terminal is, and a table leaves columns out.
        environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
        done = subprocess.run([COMMAND, "--quiet", *words], capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> Path:
    """A trace in a file."""
    path = tmp_path_factory.mktemp("traces") / "small.parquet"
    offsets = [4096 * (n * 7 % 500) for n in range(1000)]
    trace = forerun.Trace.from_arrays(offsets, [4096] * 1000, time=range(0, 10**9, 10**6), context=[1, 2] * 500)
    trace.write(path)
    return path
