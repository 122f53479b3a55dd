#!/usr/bin/env python3
"""Measures `forerun watch` of all programs on emulated devices, and prints a table.

    scripts/bench-watch-all.py [--rounds 3] [--big 128] [--bin DIR]

As root, on Linux 6.18. For each row a reader runs from cold on a device of the rig, alone and beside the daemon, in turns; the daemon
is confined to the rig's file system (--only), and nothing else of the machine is touched. Medians. *bytes* is what the device moved
compared with alone, *moved* the same in MB, *CPU* the seconds of the daemon in a run, *kept* the windows that paid, *neighbour* how long single
random reads of another file waited, median and slowest twentieth, and how many there were in 1.5 s (8 on `hdd`), *program s* what the program beside it took.
"""
import os
import shutil
import statistics
import subprocess
import time

import bench_rig
from bench_rig import Daemon


def once(rig, words, daemon):
    """One run from cold: elapsed s, bytes, CPU s of the daemon, windows that paid."""
    rig.cold()
    watch = daemon() if daemon else None
    before = rig.stats()["bytes"]
    start = time.monotonic()
    subprocess.run(words, check=True)
    elapsed = time.monotonic() - start
    moved = rig.stats()["bytes"] - before
    sums = watch.end()[-1] if watch else {"cpu_ns": 0, "windows_kept": 0}
    return {"elapsed": elapsed, "bytes": moved, "cpu": sums["cpu_ns"] / 1e9, "kept": sums["windows_kept"]}


def rows(mount, models):
    """Model, name, KiB of the device's window, command."""
    big = str(mount / "big")
    python = lambda text, *words: ["python3", "-c", text, big, *words]
    # So large that its windows do not come to hold all of it.
    chance = ["python3", "-c", bench_rig.RANDOM, str(mount / "vast"), "1500"]
    every = [
        ("net", "sequential 64K", 128, ["dd", f"if={big}", "of=/dev/null", "bs=64K", "status=none"]),
        ("net", "8 interleaved", 128, python(bench_rig.EIGHT)),
        ("hdd", "8 interleaved", 128, python(bench_rig.EIGHT)),
        ("hdd", "sequential 64K", 128, ["dd", f"if={big}", "of=/dev/null", "bs=64K", "status=none"]),
        ("ssd", "sequential 64K", 128, ["dd", f"if={big}", "of=/dev/null", "bs=64K", "status=none"]),
        ("cloud", "sequential 64K", 128, ["dd", f"if={big}", "of=/dev/null", "bs=64K", "status=none"]),
        ("ssd", "mmap random", 128, chance),
        ("ssd", "mmap random", 4096, chance),
        ("cloud", "mmap random", 128, chance),
        ("ssd", "mmap random, small", 128, python(bench_rig.RANDOM, "3000")),
        ("ssd", "stride 16K/256K", 128, python(bench_rig.STRIDE)),
        ("ssd", "reverse 16K", 128, python(bench_rig.REVERSE)),
        ("cloud", "reverse 16K", 128, python(bench_rig.REVERSE)),
    ]
    return [row for row in every if row[0] in models]


def measure(rig, forerun, rounds, state):
    daemon = lambda: Daemon(forerun, rig.mount, state)
    for model, name, window, words in rows(rig.mount, [rig.model]):
        rig.set_window(window)
        found = {"alone": [], "watched": []}
        for _ in range(rounds):
            found["alone"].append(once(rig, words, None))
            found["watched"].append(once(rig, words, daemon))
        middle = {way: {key: statistics.median(one[key] for one in all_of) for key in all_of[0]} for way, all_of in found.items()}
        alone, watched = middle["alone"], middle["watched"]
        rig.check_window()
        yield {
            "model": model, "work": name, "window": f"{window}K", "alone": f"{alone['elapsed']:.2f}", "watched": f"{watched['elapsed']:.2f}",
            "gain": f"{alone['elapsed'] / watched['elapsed']:.2f}×", "moved": f"{alone['bytes'] / 1e6:.0f}",
            "bytes": f"{watched['bytes'] / max(1, alone['bytes']):.2f}", "kept": f"{watched['kept']:.0f}", "CPU": f"{watched['cpu']:.2f}",
        }
    rig.set_window(128)


def neighbour(rig, forerun, rounds, state):
    """How long random reads of another file wait and how many there are in a time: alone, beside a program, and beside its replay."""
    other, seconds = str(rig.mount / "other"), 8 if rig.model == "hdd" else 1.5
    # On a disk that turns one that goes to and fro, and would for long.
    name, program = "dd", ["dd", f"if={rig.mount}/big", "of=/dev/null", "bs=64K", "status=none"]
    if rig.model == "hdd":
        name, program = "8 readers", ["python3", "-c", bench_rig.EIGHT, str(rig.mount / "big")]
    shutil.rmtree(state, ignore_errors=True)
    subprocess.run([str(forerun), "watch", "--state", str(state), "--quiet", "--", *program], check=True, capture_output=True)
    found = {"alone": [], f"beside {name}": [], "beside its replay": []}
    for _ in range(rounds):
        for way in found:
            rig.cold()
            watch = Daemon(forerun, rig.mount, state) if way == "beside its replay" else None
            reader = subprocess.Popen(["python3", "-c", bench_rig.NEIGHBOUR, other, str(seconds)], stdout=subprocess.PIPE, text=True)
            busy = subprocess.Popen(program) if way != "alone" else None
            begun, took = time.monotonic(), 0
            if busy:
                busy.wait()
                took = time.monotonic() - begun
            median, slow, count = map(float, reader.communicate()[0].split())
            found[way].append((median, slow, count, took))
            if watch:
                watch.end()
    shutil.rmtree(state, ignore_errors=True)
    middle = lambda all_of, at: statistics.median(one[at] for one in all_of)
    return [{"model": rig.model, "work": way, "median": f"{middle(all_of, 0):.0f}", "95%": f"{middle(all_of, 1):.0f}", "reads": f"{middle(all_of, 2):.0f}",
             "program s": f"{middle(all_of, 3):.2f}" if middle(all_of, 3) else "–"} for way, all_of in found.items()]


def main():
    said = bench_rig.options("measures forerun watch of all programs on emulated devices (root, Linux 6.18)", models="net,hdd,ssd,cloud",
                             neighbours=("ssd,cloud,hdd", "models on which a neighbour's waits are measured"), rounds=3,
                             big=(128, "MiB of the large file"), vast=(1024, "MiB of the file that is mapped and read by chance"))
    loads, waits = [os.getloadavg()[0]], []
    with bench_rig.work_folder("bench-watch-all") as work:
        bench_rig.format_image(work / "image", said.big + said.vast + 192)
        with bench_rig.mounted(work / "image", work / "mount") as mount:
            for name, mib in (("big", said.big), ("other", 64), ("vast", said.vast)):
                bench_rig.fill(mount / name, mib)

        def each(rig):
            yield from measure(rig, said.bin / "forerun", said.rounds, work / "state")
            if rig.model in said.neighbours.split(","):
                waits.extend(neighbour(rig, said.bin / "forerun", said.rounds, work / "state"))

        rows = bench_rig.on_rigs(said.models.split(","), work, said, each, loads)
    print(bench_rig.head(loads, said.way, f"ext4, cold; medians of {said.rounds}; seconds; moved in MB"))
    print(bench_rig.table(rows))
    if waits:
        print("\nA neighbour's random reads of 4 KiB, microseconds\n")
        print(bench_rig.table(waits))


if __name__ == "__main__":
    main()
