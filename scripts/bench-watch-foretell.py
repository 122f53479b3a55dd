#!/usr/bin/env python3
"""Measures how well what `forerun watch --observe` sees foretells what `forerun watch` then earns, on emulated devices, and prints a table.

    scripts/bench-watch-foretell.py [--models ssd,cloud] [--rounds 5] [--big 256] [--held 1] [--bin DIR]

As root, on Linux 6.18, on devices as scripts/bench_rig.py makes them, each run from cold. One run of each reader is seen by `watch --observe --record`: what that says of it
stands in *said*, and `forerun compare` replays what it recorded over the model of the device, under the kernel's own read-ahead and as `watch` would read ahead of it. *foretold* is
the one as many times as fast as the other; *measured* is the same of the reader itself, alone and beside the daemon, medians of some rounds in turns, and *spread* how far the rounds are
apart, as a part of the median. *off* is by how much the first is above the second; *alone* is how long the first replay takes, as a part of what the reader took: a model that is
wrong there is wrong before anything is read ahead. What no recording of reads has is left out of both: Python's start, and the reads that tell where a file lies (its map is
asked for first). What the rig can move at most is part of the device, so it is measured and the replay has a bus of that rate.
"""
import fcntl
import json
import os
import pathlib
import shutil
import statistics
import struct
import sys

import bench_rig
from bench_rig import FIRST, ROOT, Daemon, run

WITHIN = 0.15
# How a recording is replayed: programs compute as long as they did.
REPLAY = ["--mode", "paced"]
# Readers in Python.
WORKS = {"sequential 64K": bench_rig.READ, "8 interleaved": bench_rig.EIGHT, "stride 16K/256K": bench_rig.STRIDE, "reverse 16K": bench_rig.REVERSE}
# Rows that were chosen before anything was looked at or mended, and that nothing was mended for: the same kinds of readers with other numbers, and a device between `cloud` and `net`.
HELD_OUT_WORKS = {
    "3 interleaved": "import os,sys\nfs=[os.open(sys.argv[1],os.O_RDONLY) for _ in range(3)]\nn=os.fstat(fs[0]).st_size//3//32768*32768\n"
                     "for at in range(0,n,32768):\n for i,f in enumerate(fs): os.pread(f,32768,i*n+at)\n",
    "stride 32K/384K": "import os,sys\nf=os.open(sys.argv[1],os.O_RDONLY)\nfor at in range(0,os.fstat(f).st_size,393216): os.pread(f,32768,at)\n",
    "reverse 64K": "import os,sys\nf=os.open(sys.argv[1],os.O_RDONLY)\nfor at in range(os.fstat(f).st_size//4-65536,-1,-65536): os.pread(f,65536,at)\n",
}
HELD_OUT_MODELS = {
    "mid": """kind = "cloud"
about = "Storage at some distance: 2 ms, 24 at a time, 600 MiB/s"
sources = ["Made up, to be held out"]

[volume]
sectors = 1953525168
operations_per_s = 20000
throughput_mib_per_s = 600
burst_ms = 10
operation_bytes = 1048576
latency_median_us = 2000.0
latency_p99_us = 2600.0
queue_depth = 24
""",
}


def know_the_map(path):
    """Has the kernel read where the file lies, and nothing of what is in it."""
    with open(path, "rb") as file:
        # FS_IOC_FIEMAP of the whole file: start, length, no flags, room for so many extents.
        fcntl.ioctl(file, 0xC020660B, bytearray(struct.pack("=QQIIII", 0, 1 << 40, 0, 0, 64, 0) + bytes(64 * 56)))


def once(rig, forerun, program, state, more=None):
    """One run from cold: seconds, and what the daemon said if there was one."""
    rig.cold()
    know_the_map(rig.mount / "big")
    shutil.rmtree(state, ignore_errors=True)
    daemon = Daemon(forerun, rig.mount, state, FIRST, more) if more is not None else None
    # Without the start of Python, which is in no record.
    timed = f"import time\n_begun=time.monotonic()\n{program}print(time.monotonic()-_begun)"
    seconds = float(run(*FIRST, sys.executable, "-S", "-c", timed, f"{rig.mount}/big"))
    return seconds, daemon.end() if daemon else []


def said(lines):
    """What would be done. The last word counts: streams in turns look like a stride until they come to marks of the kernel's own read-ahead, and then a window is tried."""
    for line in reversed(lines):
        if line["event"] == "pattern":
            return line["decision"]
        if line["event"] == "window":
            return f"window {4 * line['to_pages']}K"
    return "–"


def foretold(rig, forerun, trace, rate):
    """How many times as fast, and how long the replay takes as it was, seconds."""
    model = rig.model if rig.model.endswith(".toml") else ROOT / f"crates/rig/models/{rig.model}.toml"
    words = [str(forerun), "--quiet", "compare", str(trace), "--device", str(model), "--bus", str(rate), *REPLAY, "--no-bounds", "--json"]
    took = [one["elapsed_ns"] for one in json.loads(run(*words, "--scheme", "linux-6", "--scheme", "watch"))["runs"]]
    return took[0] / took[1], took[0] / 1e9


def measure(rig, options, state, rate):
    forerun, trace = options.bin / "forerun", rig.work / "trace.parquet"
    works = {**WORKS, **HELD_OUT_WORKS} if options.held else WORKS
    for name, program in works.items():
        trace.unlink(missing_ok=True)
        _, lines = once(rig, forerun, program, state, ["--observe", "--record", str(trace)])
        gain, replayed = foretold(rig, forerun, trace, rate)
        pairs = [(once(rig, forerun, program, state)[0], once(rig, forerun, program, state, [])[0]) for _ in range(options.rounds)]
        alone, watched = (statistics.median(values) for values in zip(*pairs))
        real = alone / watched
        gains = [one / other for one, other in pairs]
        off = gain / real - 1
        held_out = name in HELD_OUT_WORKS or rig.model.endswith(".toml")
        yield {
            "model": rig.model.removesuffix(".toml").rpartition("/")[2], "work": name, "held out": "*" if held_out else "", "said": said(lines), "foretold": f"{gain:.2f}×",
            "measured": f"{real:.2f}×", "spread": f"{100 * (max(gains) - min(gains)) / real:.0f}%", "off": f"{100 * off:+.0f}%", "within 15%": "yes" if abs(off) <= WITHIN else "no",
            "alone": f"{replayed / alone:.2f}",
        }


def main():
    options = bench_rig.options("measures how well watch --observe foretells what watch earns (root, Linux 6.18)", models="ssd,cloud,net,hdd", rounds=3,
                                big=(128, "MiB of the file"), held=(0, "1: those that were held out as well"))
    loads = [os.getloadavg()[0]]
    with bench_rig.work_folder("bench-watch-foretell") as work:
        bench_rig.format_image(work / "image", options.big + 64)
        with bench_rig.mounted(work / "image", work / "mount") as mount:
            bench_rig.fill(mount / "big", options.big)
        models = options.models.split(",")
        for name, text in HELD_OUT_MODELS.items() if options.held else ():
            models.append(str(work / f"{name}.toml"))
            pathlib.Path(models[-1]).write_text(text)
        rate = bench_rig.rate(work, options.bin / "forerun-rig")
        rows = bench_rig.on_rigs(models, work, options, lambda rig: measure(rig, options, work / "state", rate), loads)
    print(bench_rig.head(loads, options.way, f"{rate / 1e9:.1f} GB/s at most; ext4, read-ahead 128 KiB, cold; medians of {options.rounds}"))
    print(bench_rig.table(rows, left=("model", "work", "held out", "said")))
    for name, these in (("", [row for row in rows if not row["held out"]]), (", held out", [row for row in rows if row["held out"]])):
        if these:
            print(f"{'' if name else chr(10)}within 15%{name}: {sum(row['within 15%'] == 'yes' for row in these)} of {len(these)}")


if __name__ == "__main__":
    main()
