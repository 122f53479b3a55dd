"""A sweep on a Ray cluster: ``python -m forerun.sweep study.toml --address auto``.

The study, the cells, their lines and the results are those of ``forerun sweep``, byte for byte; Ray says where a cell runs. Cells go
out in batches of one input, as many as take about ``--batch`` seconds by what cells have taken so far; a trace file is put into
the object store once. A worker that dies has its batch tried again, and a driver that dies goes on where it was when it is started
again: lines are appended as batches come back.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from . import _native

Cell = tuple[str, list[tuple[str, str]], str]


def _batch(cells: list[Cell], data: bytes | None) -> tuple[list[str], float]:
    """Runs on a worker: the lines of some cells of one input, and the seconds that they took."""
    began = time.monotonic()
    return _native.sweep_cells(cells, data), time.monotonic() - began


class _Queue:
    """What is left to do, by input; and how long a cell takes there."""

    def __init__(self, cells: list[tuple[str, Cell]], seconds: float) -> None:
        self.left: dict[str, list[Cell]] = {}
        for given, cell in cells:
            self.left.setdefault(given, []).append(cell)
        self.seconds = seconds
        self.pace: dict[str, float] = {}

    def take(self) -> tuple[str, list[Cell]] | None:
        """The next batch; of an input whose cells nobody has timed yet, one cell."""
        for given, cells in self.left.items():
            if cells:
                many = int(self.seconds / self.pace[given]) if given in self.pace else 1
                taken, self.left[given] = cells[: max(many, 1)], cells[max(many, 1) :]
                return given, taken
        return None

    def timed(self, given: str, seconds: float, cells: int) -> None:
        """Batches took so long."""
        self.pace[given] = max(seconds / cells, 1e-6)


def run(study: str, folder: str, *, address: str | None = None, seconds: float = 2.0, quiet: bool = False) -> Path | None:
    """Runs what is left of a study on a cluster (``address``; none starts one on this machine). The path of the results.

    Raises what ``forerun sweep`` would refuse, and ``ImportError`` without Ray (``pip install forerun[ray]``).
    """
    sweep = _native.Sweep(study, folder)
    queue = _Queue(sweep.open_cells(), seconds)
    left = sum(map(len, queue.left.values()))
    if left:
        # Here, so that a study that cannot be read is said first, and one that is done needs no Ray.
        import ray

        if not ray.is_initialized():
            ray.init(address=address or "local", log_to_driver=False, configure_logging=False)
        _spread(ray, sweep, queue, left, quiet)
    return sweep.finish()


def _spread(ray: Any, sweep: _native.Sweep, queue: _Queue, left: int, quiet: bool) -> None:
    task = ray.remote(num_cpus=1, max_retries=5)(_batch)
    stored: dict[str, Any] = {}
    under_way: dict[Any, tuple[str, int]] = {}
    # Two for each core: one that runs and one that waits at its door.
    most = 2 * max(int(ray.cluster_resources().get("CPU", 1)), 1)
    began, done, spent = time.monotonic(), 0, 0.0
    while True:
        while len(under_way) < most and (batch := queue.take()) is not None:
            given, cells = batch
            if given not in stored:
                stored[given] = ray.put(Path(given).read_bytes()) if os.path.isfile(given) else None
            under_way[task.remote(cells, stored[given])] = (given, len(cells))
        if not under_way:
            return
        ended, _ = ray.wait(list(under_way), num_returns=1)
        for one in ended:
            given, cells_run = under_way.pop(one)
            lines, seconds = ray.get(one)
            sweep.append(lines)
            queue.timed(given, seconds, cells_run)
            done, spent = done + cells_run, spent + seconds
        if not quiet:
            rest = (left - done) / done
            said = f"{(time.monotonic() - began) * rest:.0f} s left, {spent * rest:.0f} s of one core"
            print(f"[{len(sweep) - left + done}/{len(sweep)}] {said}", file=sys.stderr)


def main(words: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m forerun.sweep", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", help="study file, as of forerun sweep")
    parser.add_argument("-o", "--output", help="folder of lines and results (default: the study's name with .sweep)")
    parser.add_argument("--address", help="of the Ray cluster; `auto` finds it, none starts one on this machine")
    parser.add_argument("--batch", type=float, default=2.0, metavar="SECONDS", help="how long a batch should take (2)")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")
    said = parser.parse_args(words)
    folder = said.output or str(Path(said.study).with_suffix(".sweep"))
    try:
        results = run(said.study, folder, address=said.address, seconds=said.batch, quiet=said.quiet)
    except (_native.ForerunError, ImportError) as problem:
        print(f"forerun.sweep: {problem}", file=sys.stderr)
        return 2 if isinstance(problem, _native.OptionError) else 1
    print(f"results in {results}" if results else "cells of other shards are left, so there are no results yet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
