"""What was measured: a table to read, rows to work with, a page to send."""

from __future__ import annotations

import html
import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from . import _native


class Comparison:
    """Runs side by side. ``print`` shows the command's table, a notebook the report's page.

    It is an Arrow table to whoever asks (``pyarrow.table(runs)``, ``polars.DataFrame(runs)``, DuckDB): a row for each run, with
    the columns of ``forerun compare --csv``. Sizes are in bytes, times in nanoseconds (``…_ns``), rates in bytes per second,
    ratios from 0 to 1.
    """

    def __init__(self, native: _native.Runs) -> None:
        self._native = native

    @cached_property
    def runs(self) -> list[dict[str, Any]]:
        """The whole report of each run, as in the command's JSON."""
        return json.loads(self.to_json())["runs"]

    @property
    def remarks(self) -> list[str]:
        """What was assumed, and what would turn the verdict: a sentence each."""
        return self._native.remarks

    @property
    def failures(self) -> list[tuple[str, str, BaseException | None]]:
        """Runs of policies of your own that raised: scheme, input, and what was raised, with its traceback."""
        return self._native.failures

    def to_json(self) -> str:
        """What the command prints with ``--json``, byte for byte."""
        return self._native.json()

    def to_arrow(self) -> Any:
        """As a ``pyarrow.Table``, of the same memory. Needs pyarrow."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> Any:
        """As a ``pandas.DataFrame``. Needs pandas and pyarrow."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """As a ``polars.DataFrame``, of the same memory. Needs polars."""
        import polars

        return polars.DataFrame(self)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Writes the report: one HTML file that needs nothing else. Returns its path."""
        Path(path).write_text(self._native.html(), encoding="utf-8")
        return Path(path)

    def plot(self) -> Any:
        """Throughput of each scheme as an ``altair.Chart``, a row of bars for each input. Needs altair and pyarrow."""
        import altair

        rows = [
            {"input": run["input"], "scheme": run["scheme"], "MiB/s": run["throughput_bytes_per_s"] / 2**20}
            for run in self.runs
            if run["scheme"] != "bound"
        ]
        chart = altair.Chart(altair.Data(values=rows)).mark_bar()
        return chart.encode(
            x=altair.X("MiB/s:Q", title="throughput, MiB/s"),
            y=altair.Y("scheme:N", sort=None, title=None),
            row=altair.Row("input:N", title=None),
            tooltip=["scheme:N", altair.Tooltip("MiB/s:Q", format=".1f")],
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self._native)

    def __str__(self) -> str:
        return self._native.table() + "".join(line + "\n" for line in self.remarks)

    def __repr__(self) -> str:
        schemes = dict.fromkeys(run["scheme"] for run in self.runs)
        return f"<forerun.Comparison of {len(self)} runs: {', '.join(schemes)}>"

    def _repr_html_(self) -> str:
        page = html.escape(self._native.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:42rem;border:0"></iframe>'
