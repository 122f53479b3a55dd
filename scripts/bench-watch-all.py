#!/usr/bin/env python3
"""Measures `forerun watch` of all programs on emulated devices, and prints a table.

    scripts/bench-watch-all.py [--rounds 3] [--big 128] [--bin DIR]

As root, on Linux 6.18. For each row a reader runs from cold on a device of the rig, alone and beside the daemon, in turns; the daemon
is confined to the rig's file system (--only), and nothing else of the machine is touched. Medians. *bytes* is what the device moved
compared with alone, *moved* the same in MB, *CPU* the seconds of the daemon in a run, *kept* the windows that paid, *neighbour* how long single
random reads of another file waited, median and slowest twentieth.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("bench_watch", ROOT / "scripts/bench-watch.py")
bench = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)

REVERSE = ("import os,sys\nf=os.open(sys.argv[1],os.O_RDONLY)\n"
           "for at in range(os.fstat(f).st_size//8-16384,-1,-16384): os.pread(f,16384,at)\n")
EIGHT = ("import os,sys\nfs=[os.open(sys.argv[1],os.O_RDONLY) for _ in range(8)]\nn=os.fstat(fs[0]).st_size//8\n"
         "for at in range(0,n,65536):\n for i,f in enumerate(fs): os.pread(f,65536,i*n+at)\n")
RANDOM = ("import mmap,os,random,sys\nf=os.open(sys.argv[1],os.O_RDONLY)\nm=mmap.mmap(f,0,prot=mmap.PROT_READ)\nrandom.seed(1)\n"
          "for _ in range(int(sys.argv[2])): m[random.randrange(len(m)//4096)*4096]\n")
NEIGHBOUR = ("import os,random,sys,time\nf=os.open(sys.argv[1],os.O_RDONLY)\nn=os.fstat(f).st_size//4096\nos.posix_fadvise(f,0,0,os.POSIX_FADV_RANDOM)\n"
             "random.seed(5)\nt=[]\nend=time.monotonic()+float(sys.argv[2])\n"
             "while time.monotonic()<end:\n b=time.monotonic(); os.pread(f,4096,random.randrange(n)*4096); t.append(time.monotonic()-b)\n"
             "t.sort(); print(t[len(t)//2]*1e6, t[len(t)*19//20]*1e6, len(t))\n")


class Daemon:
    """`forerun watch --only` on the rig's file system."""

    def __init__(self, forerun, mount, state):
        words = [str(forerun), "watch", "--only", str(mount), "--state", str(state), "--json", "--quiet"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline()
        assert json.loads(ready)["event"] == "ready", ready

    def end(self):
        """Its lines, the last of them the sums."""
        self.process.send_signal(signal.SIGTERM)
        lines = [json.loads(line) for line in self.process.stdout]
        assert self.process.wait() == 0
        return lines


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
    chance = ["python3", "-c", RANDOM, str(mount / "vast"), "1500"]
    every = [
        ("net", "sequential 64K", 128, ["dd", f"if={big}", "of=/dev/null", "bs=64K", "status=none"]),
        ("net", "8 interleaved", 128, python(EIGHT)),
        ("hdd", "8 interleaved", 128, python(EIGHT)),
        ("hdd", "sequential 64K", 128, ["dd", f"if={big}", "of=/dev/null", "bs=64K", "status=none"]),
        ("ssd", "sequential 64K", 128, ["dd", f"if={big}", "of=/dev/null", "bs=64K", "status=none"]),
        ("cloud", "sequential 64K", 128, ["dd", f"if={big}", "of=/dev/null", "bs=64K", "status=none"]),
        ("ssd", "mmap random", 128, chance),
        ("ssd", "mmap random", 4096, chance),
        ("cloud", "mmap random", 128, chance),
        ("ssd", "mmap random, small", 128, python(RANDOM, "3000")),
        ("ssd", "stride 16K/256K", 128, python(bench.STRIDE)),
        ("ssd", "reverse 16K", 128, python(REVERSE)),
        ("cloud", "reverse 16K", 128, python(REVERSE)),
    ]
    return [row for row in every if row[0] in models]


def measure(rig, forerun, rounds, state):
    daemon = lambda: Daemon(forerun, rig.mount, state)
    for model, name, window, words in rows(rig.mount, [rig.model]):
        rig.setting.write_text(str(window))
        found = {"alone": [], "watched": []}
        for _ in range(rounds):
            found["alone"].append(once(rig, words, None))
            found["watched"].append(once(rig, words, daemon))
        middle = {way: {key: statistics.median(one[key] for one in all_of) for key in all_of[0]} for way, all_of in found.items()}
        alone, watched = middle["alone"], middle["watched"]
        assert rig.setting.read_text().strip() == str(window), "the device's setting is as before"
        yield {
            "model": model, "work": name, "window": f"{window}K", "alone": f"{alone['elapsed']:.2f}", "watched": f"{watched['elapsed']:.2f}",
            "gain": f"{alone['elapsed'] / watched['elapsed']:.2f}×", "moved": f"{alone['bytes'] / 1e6:.0f}",
            "bytes": f"{watched['bytes'] / max(1, alone['bytes']):.2f}", "kept": f"{watched['kept']:.0f}", "CPU": f"{watched['cpu']:.2f}",
        }
    rig.setting.write_text("128")


def neighbour(rig, forerun, rounds, state, seconds=1.5):
    """How long random reads of another file wait: alone, and beside a replay of the large one."""
    other = str(rig.mount / "other")
    program = ["dd", f"if={rig.mount}/big", "of=/dev/null", "bs=64K", "status=none"]
    shutil.rmtree(state, ignore_errors=True)
    subprocess.run([str(forerun), "watch", "--state", str(state), "--quiet", "--", *program], check=True, capture_output=True)
    found = {"alone": [], "beside dd": [], "beside its replay": []}
    for _ in range(rounds):
        for way in found:
            rig.cold()
            watch = Daemon(forerun, rig.mount, state) if way == "beside its replay" else None
            reader = subprocess.Popen(["python3", "-c", NEIGHBOUR, other, str(seconds)], stdout=subprocess.PIPE, text=True)
            busy = subprocess.Popen(program) if way != "alone" else None
            median, slow, _ = map(float, reader.communicate()[0].split())
            found[way].append((median, slow))
            if busy:
                busy.wait()
            if watch:
                watch.end()
    shutil.rmtree(state, ignore_errors=True)
    return [{"model": rig.model, "work": way, "median": f"{statistics.median(m for m, _ in all_of):.0f}",
             "95%": f"{statistics.median(s for _, s in all_of):.0f}"} for way, all_of in found.items()]


def main():
    parser = argparse.ArgumentParser(description="measures forerun watch of all programs on emulated devices (root, Linux 6.18)")
    parser.add_argument("--models", default="net,hdd,ssd,cloud")
    parser.add_argument("--neighbours", default="ssd,cloud", help="models on which a neighbour's waits are measured")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--big", type=int, default=128, help="MiB of the large file")
    parser.add_argument("--vast", type=int, default=1024, help="MiB of the file that is mapped and read by chance")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/release", help="folder of forerun and forerun-rig")
    said = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench-watch-all: run as root: it mounts file systems and traces")
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    work = pathlib.Path(tempfile.mkdtemp(prefix="bench-watch.", dir=shm))
    loads, table, waits = [os.getloadavg()[0]], [], []
    try:
        for folder in ("rig", "mount", "state"):
            (work / folder).mkdir()
        with open(work / "image", "wb") as out:
            out.truncate((said.big + said.vast + 192) << 20)
        bench.run("mkfs.ext4", "-q", "-F", str(work / "image"))
        bench.run("mount", "-o", "loop,noatime", str(work / "image"), str(work / "mount"))
        chance = random.Random(9)
        for name, mib in (("big", said.big), ("other", 64), ("vast", said.vast)):
            with open(work / "mount" / name, "wb") as out:
                out.writelines(chance.randbytes(1 << 20) for _ in range(mib))
        bench.run("umount", str(work / "mount"))
        for model in said.models.split(","):
            rig = bench.Rig(model, work / "image", work, said.bin / "forerun-rig")
            try:
                for row in measure(rig, said.bin / "forerun", said.rounds, work / "state"):
                    print(bench.table([row]).split("\n")[1], file=sys.stderr, flush=True)
                    table.append(row)
                if model in said.neighbours.split(","):
                    waits += neighbour(rig, said.bin / "forerun", said.rounds, work / "state")
            finally:
                rig.close()
            loads.append(os.getloadavg()[0])
    finally:
        subprocess.run(["umount", str(work / "mount")], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(work, ignore_errors=True)
    kernel = os.uname().release.split("-")[0]
    print(f"Linux {kernel}, {os.cpu_count()} CPUs, load {' '.join(f'{load:.1f}' for load in loads)}; ext4, cold; medians of {said.rounds}; seconds; moved in MB\n")
    print(bench.table(table))
    if waits:
        print("\nA neighbour's random reads of 4 KiB, microseconds\n")
        print(bench.table(waits))


if __name__ == "__main__":
    main()
