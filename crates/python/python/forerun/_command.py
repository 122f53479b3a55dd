"""The command `forerun` that came with the module: for what it alone does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import warnings
from pathlib import Path
from typing import IO

from ._native import ForerunError, OptionError, UnsupportedError

USAGE, UNSUPPORTED = 2, 4
"""Its exit codes for words that it refuses, and where the kernel or a right is missing."""


def path() -> str:
    """Where it is: beside this interpreter, else on the PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "forerun"
    found = str(beside) if beside.is_file() else shutil.which("forerun")
    if found is None:
        raise ForerunError("the command forerun is not there; the wheel brings it, so install that again")
    return found


def told(words: list[str]) -> str:
    """Runs it: what it prints. What it refuses or cannot do is raised."""
    done = subprocess.run([path(), "--quiet", *words], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise _problem(done.returncode, done.stderr.splitlines())
    return done.stdout


def recorded(words: list[str], written: Path) -> None:
    """Runs it until it has written its recording. What it says goes to stderr; what it could not do is raised."""
    child = subprocess.Popen([path(), "--quiet", *words], stderr=subprocess.PIPE, text=True, errors="replace")
    said: list[str] = []
    listener = threading.Thread(target=_hear, args=(child.stderr, said), daemon=True)
    listener.start()
    try:
        code = child.wait()
    except KeyboardInterrupt:
        # A terminal has told it already; a notebook has not. A second word changes nothing.
        child.send_signal(signal.SIGINT)
        child.wait()
        raise
    finally:
        listener.join(timeout=1)
    if not written.exists():
        raise _problem(code, said)
    if code:
        warnings.warn(f"the command that was recorded ended with {code}", RuntimeWarning, stacklevel=4)


def _problem(code: int, said: list[str]) -> ForerunError:
    """What it said when it ended with this code, as an exception."""
    why = next((line for line in reversed(said) if line.startswith("forerun: ")), f"ended with {code}, without a word")
    error = {USAGE: OptionError, UNSUPPORTED: UnsupportedError}.get(code, ForerunError)
    return error(why.removeprefix("forerun: "))


def _hear(stream: IO[str] | None, said: list[str]) -> None:
    for line in stream or ():
        said.append(line.rstrip(os.linesep))
        if not line.startswith("forerun: "):
            sys.stderr.write(line)
