"""Traces: what programs asked for, from a file or from arrays."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _command, _native
from ._checks import listed, switch, whole
from ._columns import column, writes
from ._native import OptionError


class Trace:
    """Requests in memory. Make one with ``Trace.open``, ``Trace.from_arrays`` or ``Trace.from_arrow``.

    It is an Arrow table to whoever asks (``pyarrow.table(trace)``, ``polars.DataFrame(trace)``, DuckDB): the columns
    ``time_ns``, ``process``, ``device``, ``file``, ``offset`` and ``bytes`` (bytes), ``op`` (R or W), ``took_ns``, ``file_bytes`` (the
    size of the file, on the first row of each file of which it is known). What a recording says of its machine is metadata of the
    schema, ``forerun.about.KEY``. These are the names of Forerun's Parquet files.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Trace) -> None:
        self._native = native

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        columns: str | None = None,
        skip_bad: bool = False,
        limit: int | None = None,
    ) -> Trace:
        """Reads a trace file of any format that ``forerun trace info --help`` lists, found by its content; .gz, .xz and .zst
        are unpacked.

        ``columns`` says what the columns of a CSV of your own are ("time=0:us,offset=3:sectors,bytes=4,op=2"), ``skip_bad``
        passes over malformed records and counts them in ``skipped``, ``limit`` stops after so many records.

        Raises ``TraceError`` with the place in the file and the remedy.
        """
        skip_bad = switch("skip_bad", skip_bad)
        limit = None if limit is None else whole("limit", limit, 1)
        native = _native.Trace.open(
            os.fsdecode(path), format=format, columns=columns, skip_bad=skip_bad, limit=limit
        )
        return cls(native)

    @classmethod
    def from_arrays(
        cls,
        offset: Any,
        size: Any,
        *,
        time: Any = None,
        op: Any = None,
        context: Any = None,
        name: str = "arrays",
    ) -> Trace:
        """Makes a trace of columns of one length: numpy arrays, columns of pandas, polars or pyarrow, ``array.array`` or any sequence of
        integers.

        ``offset`` and ``size`` are bytes, ``time`` nanoseconds from the trace's own zero, ``op`` "R" and "W" (or "r" and "w", or bytes of
        these) or 0 and 1 (1, like ``True``, writes; all read where it is left out), ``context`` numbers of the processes that ask. Reports
        call it ``name``.

        Raises ``OptionError`` for columns of different lengths or of something else than whole numbers from 0, for an ``op`` that is none of
        these, and for a request that ends beyond 2^64 bytes.
        """
        optional = [None if numbers is None else column(what, numbers) for what, numbers in (("time", time), ("context", context))]
        write = None if op is None else writes(op)
        native = _native.Trace.from_columns(name, column("offset", offset), column("size", size), optional[0], write, optional[1])
        return cls(native)

    @classmethod
    def from_arrow(cls, table: Any, *, name: str = "table") -> Trace:
        """Makes a trace of a table that has Arrow's stream: of pyarrow, polars, pandas 2.2 and later, DuckDB, or another ``Trace``.

        A row is a request, under the names that ``to_arrow`` gives: ``offset`` and ``bytes`` (bytes, in every row), and where they are
        there ``time_ns`` and ``took_ns`` (nanoseconds), ``op`` ("R" or "W"; all read without it), ``process``, ``device`` and ``file``
        (text), and ``file_bytes`` (on any row of a file; the greatest counts). Whole numbers may be of any width, text may be categories; other columns are not looked at. The columns are read
        from where they are. Reports call it ``name``.

        Raises ``OptionError`` for what is no such table, with the column and what was wrong with it.
        """
        return cls(_native.Trace.from_table(name, table))

    @property
    def name(self) -> str:
        """What reports call it: the path, or the name that it was given."""
        return self._native.name

    @property
    def sha256(self) -> str:
        """Hash of the file's bytes, or of the columns' numbers."""
        return self._native.sha256

    @property
    def skipped(self) -> int:
        """Malformed records that were passed over."""
        return self._native.skipped

    def info(self) -> dict[str, Any]:
        """What is in it: requests, bytes, footprint, sizes, how sequential. As ``forerun trace info --json``."""
        return json.loads(self._native.info_json())

    def patterns(self, *, by: str | None = None, threshold: int | None = None) -> dict[str, Any]:
        """How it is read: shares of sequential, looping, strided, reverse and random blocks, ``by`` "process" or "file" with
        a row for each. ``threshold`` is how many blocks of 4 KiB a run must exceed. As ``forerun trace patterns --json``.
        """
        threshold = None if threshold is None else whole("threshold", threshold)
        return json.loads(self._native.patterns_json(by, threshold))

    def cut(
        self,
        *,
        from_: float | None = None,
        until: float | None = None,
        process: str | Sequence[str] = (),
        sample: float | None = None,
        seed: int = 1,
        name: str | None = None,
    ) -> Trace:
        """A part of it: requests ``from_`` this second on and before the second ``until``, of this ``process`` or of several, or
        a ``sample`` of this share of all places, which keeps reuse; each narrows. As ``forerun trace cut``. Reports call it
        ``name``; without one the trace's own with " (cut)" behind it.

        Raises ``OptionError`` where nothing says what to keep, or nothing is kept.
        """
        processes = [process] if isinstance(process, str) else list(process)
        seed = whole("seed", seed)
        part = self._native.cut(
            name or f"{self.name} (cut)", from_s=from_, until_s=until, process=processes, sample=sample, seed=seed
        )
        return Trace(part)

    def __getitem__(self, requests: slice) -> Trace:
        """``trace[1000:2000]``: these requests, counted in the order of the trace, as a trace whose times begin where it does."""
        if not isinstance(requests, slice):  # typed so, and whoever runs through a trace comes here too
            raise TypeError(f"a trace has parts, as in trace[1000:2000], and no {requests!r}; to_arrow() gives its requests as rows")
        from_, until, step = requests.indices(len(self))
        if step != 1:
            raise OptionError(f"a part of a trace has no step, and {step} was given")
        return Trace(self._native.stretch(from_, max(from_, until)))

    @classmethod
    def record(
        cls,
        command: Sequence[str | os.PathLike[str]] = (),
        *,
        files: bool = False,
        dir: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        device: str | os.PathLike[str] | None = None,
        seconds: int | None = None,
        read_ahead: str = "keep",
        name: str | None = None,
    ) -> Trace:
        """Records what a command and its children read and write on devices, or with ``files=True`` what they read of files: what
        ``forerun trace record`` does, which it runs. ``command`` is a list of words, as of ``subprocess``; ``device`` records
        all that reaches it, for so many ``seconds``. Needs root and a kernel with tracepoints.

        A command that fails is recorded all the same, and warned of. Ctrl-C ends the recording and the command. Raises
        ``UnsupportedError`` where the kernel or a right is missing, and ``ForerunError`` for anything else.
        """
        said = [os.fsdecode(word) for word in listed("command", command, '["ls", "-l"]')]
        files = switch("files", files)
        with tempfile.TemporaryDirectory(prefix="forerun-") as folder:
            path = Path(folder) / "recording.parquet"
            line = ["trace", "record", "--output", str(path), f"--read-ahead={read_ahead}"]
            line += ["--files"] if files else []
            line += [f"--dir={os.fsdecode(one)}" for one in ([dir] if isinstance(dir, (str, os.PathLike)) else dir)]
            line += [] if device is None else [f"--device={os.fsdecode(device)}"]
            line += [] if seconds is None else [f"--seconds={seconds}"]
            line += ["--", *said] if said else []
            _command.recorded(line, path)
            label = name or " ".join(said) or os.fsdecode(device or "")
            return cls(_native.Trace.open(str(path)).named(label))

    def write(self, path: str | os.PathLike[str], *, format: str | None = None) -> None:
        """Writes it to a file, as ``forerun trace convert`` does: in the format that its ending means (.parquet, .csv, .lirs, .spc, with
        .gz, .xz or .zst behind it; Parquet without one), or in a ``format`` that ``forerun trace convert --help`` calls written.

        A file appears when it is whole. What the format does not hold is warned of, each with a ``UserWarning``; Parquet and CSV hold
        all. Raises ``OptionError`` for an ending or a format that is not written.
        """
        for loss in self._native.write(os.fsdecode(path), format):
            warnings.warn(f"{os.fsdecode(path)}: not in it: {loss}", UserWarning, stacklevel=2)

    def to_arrow(self) -> Any:
        """As a ``pyarrow.Table``, of the same memory. Needs pyarrow."""
        import pyarrow

        return pyarrow.table(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return repr(self._native)
