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

from ._native import ForerunError, UnsupportedError

UNSUPPORTED = 4
"""Its exit code where the kernel or a right is missing."""


def path() -> str:
    """Where it is: beside this interpreter, else on the PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "forerun"
    found = str(beside) if beside.is_file() else shutil.which("forerun")
    if found is None:
        raise ForerunError("the command forerun is not there; the wheel brings it, so install that again")
    return found


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
        why = next((line for line in reversed(said) if line.startswith("forerun: ")), f"ended with {code}, without a word")
        error = UnsupportedError if code == UNSUPPORTED else ForerunError
        raise error(why.removeprefix("forerun: "))
    if code:
        warnings.warn(f"the command that was recorded ended with {code}", RuntimeWarning, stacklevel=4)


def _hear(stream: IO[str] | None, said: list[str]) -> None:
    for line in stream or ():
        said.append(line.rstrip(os.linesep))
        if not line.startswith("forerun: "):
            sys.stderr.write(line)
