#!/usr/bin/env python3
"""Measures what `forerun watch --charge reader` costs, on emulated devices, and prints a table.

    scripts/bench-watch-charge.py [--models ssd,cloud] [--rounds 5] [--files 2000] [--big 256] [--bin DIR]

As root, on Linux 6.12 or later, on devices as scripts/bench_rig.py makes them, each run from cold. A program that was recorded once runs in a cgroup of memory of its
own: *alone*, beside the daemon on whose account it is read ahead of (*ours*), and beside one with `--charge reader` (*reader's*). Ways take turns, the second before the
third in every other round; medians are printed. *MB of reader* is what was charged to the program's cgroup and is of files, *bytes* what the device moved compared with alone, *CPU* the
seconds of the daemon and of its processes that pay (by its own cgroup of processors, where the first generation has one, else of the daemon alone), and
*requests* what those were asked for. Of `git grep` many small files are read, of `cat` one large one.
"""
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import time

import bench_rig
from bench_rig import FIRST, Daemon, group

WAYS = {"alone": None, "ours": [], "reader's": ["--charge", "reader"]}


def join(folder):
    """What a child does to be in a cgroup from its beginning."""
    return (lambda: (folder / "cgroup.procs").write_text("0")) if folder else None


def of_files(folder):
    rows = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    return int(rows.get("cache") or rows.get("file") or 0)


class InGroup(Daemon):
    """The daemon, and what it and its payers took of the processors."""

    def __init__(self, forerun, mount, state, more):
        self.stack = contextlib.ExitStack()
        self.folder = self.stack.enter_context(group("cpuacct"))
        super().__init__(forerun, mount, state, FIRST, more)
        if self.folder:
            # Before anything is asked of it; its start is what both ways have.
            self.folder.joinpath("cgroup.procs").write_text(str(self.process.pid))

    def seconds(self, sums):
        usage = self.folder / "cpuacct.usage" if self.folder else None
        return int(usage.read_text()) / 1e9 if usage and usage.exists() else sums["cpu_ns"] / 1e9


def once(rig, forerun, way, words, folder, known):
    """One run from cold: seconds, bytes, what was charged to it, and what the daemon says."""
    state = rig.work / "state-of-the-daemon"
    shutil.rmtree(state, ignore_errors=True)
    shutil.copytree(known, state)
    rig.cold()
    daemon = InGroup(forerun, rig.mount, state, WAYS[way]) if WAYS[way] is not None else None
    with group("memory") as reader:
        before = rig.stats()["bytes"]
        begun = time.monotonic()
        # As it is called where it is recorded: a program is known by its words and its folder.
        done = subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, preexec_fn=join(reader), check=False)
        seconds = time.monotonic() - begun
        assert done.returncode in (0, 1), words
        found = {"seconds": seconds, "bytes": rig.stats()["bytes"] - before, "charged": of_files(reader), "cpu": 0, "requests": 0, "unpaid": 0}
        if daemon:
            lines = daemon.end()
            decided = [line["decision"] for line in lines if line["event"] == "run"]
            assert decided == ["replay"], lines
            found |= {"cpu": daemon.seconds(lines[-1]), "requests": lines[-1]["charged_requests"], "unpaid": lines[-1]["uncharged_requests"]}
            daemon.stack.close()
    return found


def measure(rig, said, works):
    forerun, known = said.bin / "forerun", rig.work / "state"
    for name, folder, words in works(rig.mount):
        found = {way: [] for way in WAYS}
        for turn in range(said.rounds):
            shutil.rmtree(known, ignore_errors=True)
            rig.cold()
            record = [str(forerun), "watch", "--state", str(known), "--no-replay", "--quiet", "--", *words]
            assert subprocess.run(record, cwd=folder, stdout=subprocess.DEVNULL, check=False).returncode in (0, 1), record
            for way in list(WAYS) if turn % 2 == 0 else ["alone", "reader's", "ours"]:
                found[way].append(once(rig, forerun, way, words, folder, known))
        middle = lambda way, key: statistics.median(one[key] for one in found[way])
        alone = middle("alone", "seconds"), middle("alone", "bytes")
        for way in list(WAYS)[1:]:
            yield {
                "model": rig.model, "work": name, "alone": f"{alone[0]:.2f}", "pays": way, "seconds": f"{middle(way, 'seconds'):.2f}",
                "gain": f"{alone[0] / middle(way, 'seconds'):.2f}×", "bytes": f"{middle(way, 'bytes') / alone[1]:.2f}",
                "MB of reader": f"{middle(way, 'charged') / 1e6:.1f}", "CPU": f"{middle(way, 'cpu'):.3f}",
                "requests": f"{middle(way, 'requests'):.0f}", "unpaid": f"{middle(way, 'unpaid'):.0f}",
            }


def main():
    said = bench_rig.options("measures what forerun watch --charge reader costs on emulated devices (root, Linux 6.12)", models="ssd,cloud,hdd", rounds=3,
                             files=(2000, "files of the repository"), big=(128, "MiB of the large file"))
    with group("memory") as tried:
        if not tried or not (tried / "memory.stat").exists():
            sys.exit("bench-watch-charge: no cgroup of memory can be made here")
    works = lambda mount: [("git grep", mount / "tree", ["git", "grep", "-c", "qua"]), ("cat", mount, ["cat", f"{mount}/big"])]
    loads = [os.getloadavg()[0]]
    with bench_rig.work_folder("bench-watch-charge") as work:
        bench_rig.format_image(work / "image", said.big + 512)
        with bench_rig.mounted(work / "image", work / "mount") as mount:
            bench_rig.make_repository(mount / "tree", said.files)
            bench_rig.fill(mount / "big", said.big)
        rows = bench_rig.on_rigs(said.models.split(","), work, said, lambda rig: measure(rig, said, works), loads)
    print(bench_rig.head(loads, said.way, f"ext4, read-ahead 128 KiB, cold; medians of {said.rounds}; seconds"))
    print(bench_rig.table(rows, left=("model", "work", "pays")))


if __name__ == "__main__":
    main()
