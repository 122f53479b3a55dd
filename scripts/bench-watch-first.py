#!/usr/bin/env python3
"""Measures what `forerun watch` earns in first runs, by patterns, on emulated devices, and prints a table.

    scripts/bench-watch-first.py [--models ssd,cloud] [--rounds 5] [--big 512] [--bin DIR]

As root, on Linux 6.18, on devices as scripts/bench_rig.py makes them, each run from cold. Each reader measures itself: alone, with the
kernel's 128 KiB of read-ahead; as `watch -- CMD` for the first time; beside the daemon; as `watch -- CMD` for the second time, with its
manifest; and *ideal*, with a thread (a process where the file is mapped) beside it that asks for all that it will read, in order, as fast as the kernel takes it. Ways
take turns, medians are printed. Of many files (`grep -r`, and a program that reads one file in nine) the ideal is a process that opens all of them
in that order, by sixteen threads, and *used* is of the files that were left out to be counted. Readers and Forerun go before other programs of the machine, the kernel's workers under the
loop device do not; the loads stand at the head. *used* is the share of what the daemon asked for by patterns that was read, *bytes* what the device
moved beside the daemon compared with alone, *of ideal* the daemon's gain as a part of that of the ideal.
"""
import os
import shutil
import statistics
import subprocess
import sys
import time

import bench_rig
from bench_rig import FIRST, Daemon, run

# Names of the files that a work reads, by the last word of its command.
LISTS = {}

# Path, pattern, and whether the future is known.
READER = """
import mmap, os, random, sys, threading, time
path, pattern, knows = sys.argv[1], sys.argv[2], sys.argv[3] == "ideal"
f = os.open(path, os.O_RDONLY)
n = os.fstat(f).st_size
random.seed(3)
mapped = None
if pattern == "stride":
    size, places = 16384, range(0, n, 262144)
elif pattern == "wide":
    size, places = 4096, range(0, n, 1 << 20)
elif pattern == "reverse":
    size, places = 16384, range(n // 8 - 16384, -1, -16384)
elif pattern == "dense":
    # A mapped file, MiB by MiB, all of each but in an order that is none.
    mapped = mmap.mmap(f, 0, prot=mmap.PROT_READ)
    size, places = 65536, []
    for strip in range(0, n // 4, 1 << 20):
        blocks = list(range(strip, strip + (1 << 20), 65536))
        random.shuffle(blocks)
        places += blocks
elif pattern == "mapped":
    # 16 KiB of each 256, page by page.
    mapped = mmap.mmap(f, 0, prot=mmap.PROT_READ)
    size, places = 16384, range(0, n, 262144)
elif pattern == "random":
    size, places = 16384, [random.randrange(n // 16384) * 16384 for _ in range(1500)]
def ask():
    for at in places:
        os.posix_fadvise(f, at, size, os.POSIX_FADV_WILLNEED)
begun = time.monotonic()
if knows and mapped is None:
    threading.Thread(target=ask).start()
elif knows and os.fork() == 0:
    # Who waits for a mapped page lets no other thread of Python work meanwhile.
    ask()
    os._exit(0)
for at in places:
    if pattern == "mapped":
        for page in range(at, at + size, 4096):
            mapped[page]
    elif mapped:
        mapped[at]
    else:
        os.pread(f, size, at)
print("seconds", time.monotonic() - begun, flush=True)
os._exit(0)
"""
# A file with names of files, and one word more: all of them are read, in this order.
FILES = """
import os, sys, time
names = open(sys.argv[1]).read().split("\\n")
begun = time.monotonic()
for name in names:
    with open(name, "rb") as f:
        f.read()
print("seconds", time.monotonic() - begun, flush=True)
"""
# The same file: as soon as its input says so all are asked for, by as many threads as there is use for.
ASK = """
import os, sys, threading
names = open(sys.argv[1]).read().split("\\n")
def ask(part):
    for name in names[part::16]:
        f = os.open(name, os.O_RDONLY)
        os.posix_fadvise(f, 0, 0, os.POSIX_FADV_WILLNEED)
        os.close(f)
print("ready", flush=True)
sys.stdin.readline()
for part in range(16):
    threading.Thread(target=ask, args=[part]).start()
"""
NAMES = {"stride": "stride 16K/256K", "wide": "stride 4K/1M", "reverse": "reverse 16K", "random": "random 16K", "grep": "grep -r",
         "sparse": "one file in 9", "dense": "dense mmap", "mapped": "mmap stride"}
# On a disk that turns the platter passes a gap of 256 KiB anyway.
WORKS = {"hdd": ["wide", "reverse", "random", "dense", "grep", "sparse"]}
USUAL = ["stride", "reverse", "mapped", "random", "dense", "grep", "sparse"]


def once(rig, forerun, words, way, state):
    """One run from cold: seconds, bytes, and what the daemon said at its end."""
    rig.cold()
    # The daemon knows no manifest: of programs that were recorded it would replay them.
    daemon = Daemon(forerun, rig.mount, f"{state}-of-the-daemon", FIRST) if way == "all programs" else None
    watch = [str(forerun), "watch", "--state", str(state), "--quiet", "--"] if way in ("first run", "second run") else []
    beside = asking(words, way)
    # The same words in every way but one: a manifest is known by them.
    knows = ["ideal" if way == "ideal" else "alone"] if words[-2] == f"{rig.mount}/big" else []
    before = rig.stats()["bytes"]
    if beside:
        beside.stdin.close()
    begun = time.monotonic()
    told = subprocess.run([*FIRST, *watch, *words, *knows], capture_output=True, text=True)
    seconds = time.monotonic() - begun
    if told.returncode not in (0, 1):
        sys.exit(f"bench-watch-first: {words}: {told.stderr}")
    moved = rig.stats()["bytes"] - before
    if beside:
        beside.wait()
    sums = daemon.end()[-1] if daemon else {}
    # A program that does not measure itself is measured from outside.
    own = [float(line.split()[1]) for line in told.stdout.splitlines() if line.startswith("seconds ")]
    return {"seconds": (own or [seconds])[0], "bytes": moved, "pages": sums.get("pattern_pages", 0) + sums.get("beside_marks", 0),
            "used": sums.get("pattern_pages_read", 0) + sums.get("beside_marks_hit", 0), "cpu": sums.get("cpu_ns", 0) / 1e9}


def asking(words, way):
    """For work on many files: who knows their names beforehand, and waits for the word."""
    names = LISTS.get(words[-1])
    if way != "ideal" or not names:
        return None
    beside = subprocess.Popen([*FIRST, sys.executable, "-S", "-c", ASK, str(names)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert beside.stdout.readline() == "ready\n"
    return beside


def words_of(work, mount, lists):
    """The command of a work."""
    if work == "grep":
        LISTS[str(mount / "tree")] = lists / "all"
        return ["grep", "-rc", "qua", str(mount / "tree")]
    if work == "sparse":
        LISTS[str(lists / "sparse")] = lists / "sparse"
        return [sys.executable, "-S", "-c", FILES, str(lists / "sparse")]
    return [sys.executable, "-S", "-c", READER, f"{mount}/big", work]


def write_lists(mount, lists):
    """Names of all files as grep comes to them, and of one in nine in the order of their numbers."""
    lists.mkdir()
    every = run("find", str(mount / "tree"), "-type", "f").split()
    (lists / "all").write_text("\n".join(every))
    every.sort(key=lambda name: os.stat(name).st_ino)
    (lists / "sparse").write_text("\n".join(every[::9]))


def measure(rig, forerun, rounds, state, works):
    ways = ["alone", "first run", "second run", "all programs", "ideal"]
    for work in [work for work in WORKS.get(rig.model, USUAL) if not works or work in works]:
        words = words_of(work, rig.mount, rig.work / "lists")
        found = {way: [] for way in ways}
        for _ in range(rounds):
            # Each round begins without a manifest.
            shutil.rmtree(state, ignore_errors=True)
            for way in ways:
                found[way].append(once(rig, forerun, words, way, state))
        middle = {way: {key: statistics.median(one[key] for one in all_of) for key in all_of[0]} for way, all_of in found.items()}
        alone = middle["alone"]
        gain = {way: alone["seconds"] / middle[way]["seconds"] for way in ways}
        ours = middle["all programs"]
        row = {"model": rig.model, "work": NAMES[work], "alone": f"{alone['seconds']:.3f}"}
        row |= {way: f"{gain[way]:.2f}×" for way in ways[1:]}
        yield row | {
            "of ideal": f"{100 * gain['all programs'] / gain['ideal']:.0f}%",
            "used": f"{100 * ours['used'] / ours['pages']:.0f}%" if ours["pages"] else "–",
            "bytes": f"{ours['bytes'] / max(1, alone['bytes']):.2f}",
            "CPU": f"{ours['cpu']:.2f}",
        }


def main():
    said = bench_rig.options("measures what forerun watch earns by patterns, in first runs (root, Linux 6.18)", models="ssd,cloud,net,hdd",
                             rounds=3, big=(512, "MiB of the file"), files=(6000, "files of the tree"),
                             works=("", "only these of stride, wide, reverse, mapped, random, dense, grep, sparse"))
    loads = [os.getloadavg()[0]]
    with bench_rig.work_folder("bench-watch-first") as work:
        bench_rig.format_image(work / "image", said.big + 512)
        with bench_rig.mounted(work / "image", work / "mount") as mount:
            bench_rig.fill(mount / "big", said.big)
            bench_rig.make_tree(mount / "tree", said.files, unpacked=True)
            write_lists(mount, work / "lists")
        each = lambda rig: measure(rig, said.bin / "forerun", said.rounds, work / "state", [name for name in said.works.split(",") if name])
        rows = bench_rig.on_rigs(said.models.split(","), work, said, each, loads)
    print(bench_rig.head(loads, said.way, f"ext4, read-ahead 128 KiB, cold; medians of {said.rounds}; alone and CPU in seconds"))
    print(bench_rig.table(rows))


if __name__ == "__main__":
    main()
