#!/usr/bin/env python3
"""Measures what `forerun watch` costs those who gain nothing by it, and how late it comes; prints tables.

    scripts/bench-watch-costs.py [--rounds 5] [--seconds 2] [--bin DIR]

As root, on Linux 6.18. A program reads 256 cached pages of 4 KiB in turn, again and again (crates/rig/examples/cached_reads.rs): alone, beside the daemon
while nobody is helped, while a strided reader of another file and of the same file is read ahead of (whose reads are followed), the same with
`--no-bpf` (where perf events tell of every read of that file, whoever reads), beside `watch --record`, and under `watch -- COMMAND`, with `--no-bpf` too. Ways take turns, medians are printed.
With two threads on a file that is followed by perf events it is a flood of events. *CPU* is the processor time of the daemon for each event that it took.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys

import bench_rig
from bench_rig import Daemon

# A reader at equal distances that does something between its reads: it is on its way for as long as it has places, and each was a miss before.
SLOW = ("import os,sys,time\nf=os.open(sys.argv[1],os.O_RDONLY)\nn=os.fstat(f).st_size\n"
        "for at in range(4096,n,65536):\n os.pread(f,16384,at); time.sleep(0.002)\n")
WAYS = [
    # Name, file that the loop reads, threads, whether a reader is helped, words of the daemon.
    ("alone", "other", 1, False, None),
    ("nobody is helped", "other", 1, False, []),
    ("another file is followed", "other", 1, True, []),
    ("this file is followed", "big", 1, True, []),
    ("this file, two readers", "big", 2, True, []),
    ("another file, --no-bpf", "other", 1, True, ["--no-bpf"]),
    ("this file, --no-bpf", "big", 1, True, ["--no-bpf"]),
    ("two readers, --no-bpf", "big", 2, True, ["--no-bpf"]),
    ("watch --record", "other", 1, False, ["--record", "TRACE"]),
    ("under watch -- COMMAND", "other", 1, False, None),
    ("the same, --no-bpf", "other", 1, False, None),
]
MIB_MIN = 256


def loop(said, path, threads, first=()):
    words = [*first, str(said.bin / "examples/cached_reads"), str(path), str(said.seconds), str(threads)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[0])


def once(rig, said, state, way):
    """One turn: nanoseconds a read, events a second, those that were lost, nanoseconds of the daemon for each."""
    name, file, threads, helped, words = way
    path = rig.mount / file
    rig.cold()
    shutil.rmtree(state, ignore_errors=True)
    if words is None:
        more = ["--no-bpf"] if name.endswith("--no-bpf") else []
        under = [str(said.bin / "forerun"), "watch", "--state", str(state), "--quiet", *more, "--"] if name != "alone" else []
        return {"ns": loop(said, path, threads, under)["ns"]}
    watch = Daemon(said.bin / "forerun", rig.mount, state, more=[word.replace("TRACE", str(rig.work / "trace.parquet")) for word in words])
    reader = subprocess.Popen(["python3", "-c", SLOW, str(rig.mount / "big")]) if helped else None
    if reader:
        # Until it is known; what is said of it comes in a line.
        line = json.loads(watch.process.stdout.readline())
        assert line["event"] == "pattern", line
    found = loop(said, path, threads)
    if reader:
        assert reader.poll() is None, "the reader was followed all the time"
        reader.terminate()
        reader.wait()
    sums = watch.end()[-1]
    (rig.work / "trace.parquet").unlink(missing_ok=True)
    found["rate"] = sums["events"] / said.seconds
    found["lost"] = sums["lost_events"]
    found["events"] = sums["events"]
    # Few events cost what the daemon costs at its start.
    found["cpu"] = sums["cpu_ns"] / sums["events"] if sums["events"] > 10_000 else None
    return found


def measure(rig, said, state):
    found = {way[0]: [] for way in WAYS}
    for _ in range(said.rounds):
        for way in WAYS:
            found[way[0]].append(once(rig, said, state, way))
    middle = lambda name, key: statistics.median(one[key] for one in found[name])
    base = middle("alone", "ns")
    for name, _, threads, _, words in WAYS:
        daemon = bool(found[name][0].get("cpu"))
        yield {
            "work": name, "ns a read": f"{middle(name, 'ns'):.0f}", "more": f"{middle(name, 'ns') - base:+.0f}" if name != "alone" and threads == 1 else "–",
            "events/s": f"{middle(name, 'rate') / 1e6:.2f} M" if daemon else "–",
            "lost": f"{sum(one['lost'] for one in found[name])} of {sum(one['events'] for one in found[name])}" if daemon else "–",
            "CPU ns": f"{middle(name, 'cpu'):.0f}" if daemon else "–",
        }


def lag(rig, said, state):
    """How late the daemon knows of reads of strided readers that do nothing else."""
    all_of = []
    for _ in range(said.rounds):
        rig.cold()
        watch = Daemon(said.bin / "forerun", rig.mount, state)
        subprocess.run(["python3", "-c", bench_rig.STRIDE, str(rig.mount / "big")], check=True)
        all_of.append(watch.end()[-1])
    middle = lambda key: statistics.median(one[key] for one in all_of)
    return {"model": rig.model, "reads": f"{middle('lag_reads'):.0f}", "median µs": f"{middle('lag_median_ns') / 1e3:.0f}",
            "99% µs": f"{middle('lag_p99_ns') / 1e3:.0f}"}


def main():
    said = bench_rig.options("measures what forerun watch costs, and how late it comes (root, Linux 6.18)", models="ssd,cloud,net", rounds=5,
                             seconds=(2, "length of each loop of reads"), big=(512, "MiB of the file that is strided through"))
    if not (said.bin / "examples/cached_reads").exists():
        sys.exit(f"{said.bin}/examples/cached_reads is not there: cargo build --release --locked -p forerun-rig --bins --example cached_reads")
    loads, late = [os.getloadavg()[0]], []
    with bench_rig.work_folder("bench-watch-costs") as work:
        bench_rig.format_image(work / "image", max(said.big, MIB_MIN) + 64)
        with bench_rig.mounted(work / "image", work / "mount") as mount:
            bench_rig.fill(mount / "big", max(said.big, MIB_MIN))
            bench_rig.fill(mount / "other", 1)

        def each(rig):
            late.append(lag(rig, said, work / "state"))
            # The costs of a read are the same whatever the device; on the far one a reader is on its way for long.
            yield from measure(rig, said, work / "state") if rig.model == "net" else ()

        rows = bench_rig.on_rigs(said.models.split(","), work, said, each, loads)
    print(bench_rig.head(loads, said.way, f"medians of {said.rounds}; a cached read of 4 KiB"))
    print(bench_rig.table(rows))
    print("\nFrom a read of a strided reader to what is decided for it\n")
    print(bench_rig.table(late))


if __name__ == "__main__":
    main()
