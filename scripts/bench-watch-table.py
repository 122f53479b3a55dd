#!/usr/bin/env python3
"""Measures what each way of reading ahead earns of whole programs on an emulated device, and prints a table with its means.

    scripts/bench-watch-table.py [--models ssd] [--systems ext4,aged,xfs,btrfs] [--works 'PostMark,rustc'] [--rounds 3] [--bin DIR]

As root, on Linux 6.12 or later, on devices as scripts/bench_rig.py makes them, each run from cold. All gains are over the kernel at 128 KiB (*alone*, seconds):
*best* is the kernel at that one of five windows of the device at which this very work is quickest (*KiB*), which nobody knows beforehand; *flashy* the daemon with `--scheme flashy(poll=250ms)`;
*first* and *again* a first run under `forerun watch -- CMD` and the next one; *ideal* what nobody beats who reads all of it in the order of the device: a run from memory, or a replay with nobody beside
it, whichever is longer. *waited* is what the threads of the first run waited for reads, *now* those of the next, seconds; *used* of what was read ahead for that, *cover* the part of what the work
loads that was read ahead for it, *own* the same of flashy; *bytes* what the device moved for it compared with alone; *CPU* seconds of Forerun.

`aged` is ext4 that was filled, thinned out and filled again before the files came. Works that write do so in files of their own, which they remove.
"""
import contextlib
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

import bench_rig
import bench_watch_works as works_of
from bench_rig import Daemon, run

WINDOWS = [16, 512, 2048, 8192]
@contextlib.contextmanager
def limited(limit):
    """What a command has to be to run in a cgroup that may have so many bytes of memory; as it is where there is no limit."""
    if not limit:
        yield lambda words: words
        return
    with bench_rig.group("memory") as folder:
        if not folder:
            sys.exit("bench-watch-table: no cgroup of memory can be made here")
        first = folder / "memory.limit_in_bytes"
        (first if first.exists() else folder / "memory.max").write_text(str(limit))
        yield lambda words: ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh", *words]


def age(mount):
    """Fills a file system with files of many sizes, and removes most of them in an order that has nothing to do with their places."""
    folder = mount / "old"
    folder.mkdir()
    sizes = [(number * 7919 % 61 + 1) * 16384 for number in range(100_000)]
    kept = []
    with contextlib.suppress(OSError):
        for number, size in enumerate(sizes):
            path = folder / f"f{number}"
            path.write_bytes(bytes([number % 251]) * size)
            kept.append(path)
    os.sync()
    for number, path in enumerate(kept):
        if number * 2654435761 % 7 != 0:
            path.unlink()
    os.sync()


def make_image(image, mount, system, wanted, mib):
    bench_rig.format_image(image, mib, system="ext4" if system == "aged" else system)
    with bench_rig.mounted(image, mount):
        if system == "aged":
            age(mount)
        return works_of.make(mount, wanted)


class Bench:
    """One file system under one model."""

    def __init__(self, rig, forerun, state):
        self.rig, self.forerun, self.state = rig, forerun, state

    def run(self, work, how=(), daemon=None, cold=True):
        """One run; seconds, bytes of the device, what Forerun said at the end."""
        with limited(work.limit) as within:
            if cold:
                self.rig.cold()
            words = within([*map(str, how), *work.words])
            # Whoever reads ahead for a program with a limit has that limit too.
            more = ["--charge", "reader"] if work.limit else []
            beside = Daemon(self.forerun, self.rig.mount, self.state, more=["--scheme", daemon, *more]) if daemon else None
            before = self.rig.stats()["bytes"]
            begun = time.monotonic()
            done = subprocess.run(words, cwd=work.folder, capture_output=True, text=True)
            took = time.monotonic() - begun
            moved = self.rig.stats()["bytes"] - before
            if done.returncode not in (0, 1):
                sys.exit(f"bench-watch-table: {work.name}: {done.stderr}")
            told = json.loads(done.stdout.strip().rsplit("\n", 1)[-1]) if how else {}
            told = beside.end()[-1] if beside else told
            return {"took": took, "bytes": moved, "told": told}

    def replay(self):
        """Seconds until all that is known of the work is in memory, with nobody beside it, and without a limit."""
        self.rig.cold()
        known = sorted(self.state.glob("*.manifest"))
        words = [str(self.forerun), "manifest", "replay", "--json", str(known[0])] if known else ["true"]
        begun = time.monotonic()
        subprocess.run(words, check=True, capture_output=True)
        return time.monotonic() - begun

    def measure(self, work, rounds):
        watch = [self.forerun, "watch", "--state", self.state, "--json", "--"]
        found = {}
        note = lambda way, one: found.setdefault(way, []).append(one)
        for _ in range(rounds):
            shutil.rmtree(self.state, ignore_errors=True)
            note("alone", self.run(work))
            for window in WINDOWS:
                self.rig.set_window(window)
                note(window, self.run(work))
            self.rig.set_window(128)
            note("flashy", self.run(work, daemon="flashy(poll=250ms)"))
            shutil.rmtree(self.state, ignore_errors=True)
            note("first", self.run(work, watch))
            note("again", self.run(work, watch))
            note("memory", self.run(work, cold=False))
            note("replay", {"took": self.replay(), "bytes": 0, "told": {}})
        return found


def row_of(model, system, work, found):
    middle = lambda way, of=lambda one: one["took"]: statistics.median(of(one) for one in found[way])
    told = lambda way, name: middle(way, lambda one: one["told"].get(name) or 0)
    alone = middle("alone")
    best = min([128, *WINDOWS], key=lambda window: middle(window) if window in found else alone)
    ideal = max(middle("memory"), middle("replay"))
    gains = {"best": alone / middle(best) if best in found else 1.0, "flashy": alone / middle("flashy"), "first": alone / middle("first"),
             "again": alone / middle("again"), "ideal": alone / ideal}
    needed = middle("alone", lambda one: one["bytes"]) / 4096
    issued = told("again", "replayed_pages") - told("again", "replayed_metadata_pages")
    part = lambda a, b: f"{100 * a / b:.0f}%" if b > 0 else "–"
    # What a run loads that was read ahead for it: what was used, and metadata, which nobody sees used.
    used = told("again", "used_pages") + told("again", "replayed_metadata_pages") + told("again", "wished_used_pages")
    row = {"model": model, "fs": system, "work": work.name, "alone": f"{alone:.2f}", "KiB": str(best)}
    row |= {name: f"{gain:.2f}×" for name, gain in gains.items()}
    row |= {"waited": f"{told('first', 'waited_ns') / 1e9:.2f}", "now": f"{told('again', 'waited_ns') / 1e9:.2f}",
            "used": part(told("again", "used_pages"), issued), "cover": part(min(used, needed), needed),
            "own": part(told("flashy", "pattern_pages_read"), needed),
            "bytes": f"{middle('again', lambda one: one['bytes']) / max(1, needed * 4096):.2f}", "CPU": f"{told('again', 'cpu_ns') / 1e9:.2f}"}
    return row, gains, told("flashy", "pattern_pages_read") / needed if needed else 0


def means(kept):
    """Geometric means of the gains and the mean of what flashy covers, by model and file system, and of the works of the slides."""
    groups = {}
    for model, system, work, gains, own in kept:
        groups.setdefault((model, system, "all works"), []).append((gains, own))
        if work.of_slides:
            groups.setdefault((model, system, "of the slides"), []).append((gains, own))
    rows = []
    for (model, system, which), all_of in groups.items():
        row = {"model": model, "fs": system, "work": which, "works": str(len(all_of))}
        for name in all_of[0][0]:
            row[name] = f"{math.exp(statistics.fmean(math.log(gains[name]) for gains, _ in all_of)):.2f}×"
        lowest = min(gains["again"] for gains, _ in all_of)
        row |= {"lowest first": f"{min(gains['first'] for gains, _ in all_of):.2f}×", "lowest again": f"{lowest:.2f}×",
                "own": f"{100 * statistics.fmean(own for _, own in all_of):.0f}%"}
        rows.append(row)
    return rows


def main():
    said = bench_rig.options("measures what each way of reading ahead earns of whole programs (root, Linux 6.12)", models="ssd",
                             systems=("ext4", "of aged, ext4, xfs, btrfs"), rounds=3, mib=(4096, "MiB of the image"),
                             works=("", f"only these of {', '.join(works_of.NAMES)}"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wanted = [name for name in said.works.split(",") if name]
    known = {"--works": works_of.NAMES, "--systems": ["aged", *bench_rig.SYSTEMS]}
    for option, names in (("--works", wanted), ("--systems", said.systems.split(","))):
        if unknown := [name for name in names if name not in known[option]]:
            sys.exit(f"bench-watch-table: {option} {unknown[0]}: there is none; known are {', '.join(known[option])}")
    loads, rows, kept = [os.getloadavg()[0]], [], []
    for system in said.systems.split(","):
        with bench_rig.work_folder("bench-watch-table") as work:
            every = make_image(work / "image", work / "mount", system, wanted, said.mib)

            def each(rig):
                bench = Bench(rig, said.bin / "forerun", work / "state")
                for one in every:
                    row, gains, own = row_of(rig.model, system, one, bench.measure(one, said.rounds))
                    kept.append((rig.model, system, one, gains, own))
                    yield row

            rows += bench_rig.on_rigs(said.models.split(","), work, said, each, loads)
    print(bench_rig.head(loads, said.way, f"cold; medians of {said.rounds}; alone, waited, now and CPU in seconds"))
    print(bench_rig.table(rows, left=("model", "fs", "work")))
    print("\nGeometric means\n")
    print(bench_rig.table(means(kept), left=("model", "fs", "work")))


if __name__ == "__main__":
    main()
