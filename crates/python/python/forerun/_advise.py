"""What would make the reads of a trace faster on this machine."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from . import _command
from ._native import ForerunError
from ._trace import Trace


def advise(
    trace: Trace | str | os.PathLike[str],
    *,
    device: Any = None,
    html: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Says what would make these reads faster here, by how much, or to leave it: what ``forerun advise`` does, which it runs.

    ``trace`` is a file or a ``Trace``, ``device`` a preset, a preset file or a ``Device`` instead of what is assumed of this machine's;
    ``html`` writes the page. The answer is the command's JSON: ``advice`` has ``effects`` (``factor`` is how much faster, 1 as it
    is, with its ``interval``), ``pick`` (which of them is advised, ``None`` to leave it) and ``why``; ``do`` and ``undo`` are commands.

    Raises ``OptionError`` for a device that is none, and ``ForerunError`` for a trace that cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="forerun-") as folder:
        path = Path(folder) / "trace.parquet" if isinstance(trace, Trace) else Path(os.fsdecode(trace))
        if isinstance(trace, Trace):
            trace.write(path)
        words = ["--json", "advise", str(path)]
        words += [] if device is None else [f"--device={device}"]
        words += [] if html is None else [f"--html={os.fspath(html)}"]
        try:
            said: dict[str, Any] = json.loads(_command.told(words))
        except ForerunError as problem:
            if not isinstance(trace, Trace):
                raise
            # The file is gone when this is read; the trace is not.
            raise type(problem)(str(problem).replace(str(path), trace.name)) from None
    return {**said, "what": trace.name} if isinstance(trace, Trace) else said
