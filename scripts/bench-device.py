#!/usr/bin/env python3
"""Measures devices with `forerun device measure`, and prints how well the presets it makes predict other loads.

    scripts/bench-device.py [--rig hdd-20tb,gp3] [--file FILE] [--bin DIR]

Three tables. First every shipped preset, measured in virtual time: what is wrong there is the estimator's. Then some of them as
the file of forerun-rig, which keeps their timing in real time (root): truth is the preset itself. Last a file on this
machine's own disk, where truth is fio: once as it comes, one thread with many requests in flight (libaio), and once as many threads with
one each, which is how `device measure` asks. Rows are loads that no probe ran; figures are errors of the prediction in per cent.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from bench_rig import LONE

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = ["random 1", "random 32", "sequence", "strided", "4 readers", "mix: rand", "mix: seq"]
# Rounds of fio on this machine's disk.
ROUNDS = 5
# What is timed must not wait for other programs of the machine.
FIRST = ["chrt", "-f", "40"] if os.geteuid() == 0 and shutil.which("chrt") else []
# The rows as fio knows them.
FIO = [
    ["--rw=randread --bs=4k --iodepth=1"],
    ["--rw=randread --bs=4k --iodepth=32"],
    ["--rw=read --bs=128k --iodepth=4"],
    ["--rw=read:252k --bs=4k --iodepth=1"],
    ["--rw=read --bs=64k --iodepth=1 --numjobs=4 --offset_increment=25%"],
    ["--rw=randread --bs=4k --iodepth=4", "--rw=read --bs=128k --iodepth=1 --offset=12%"],
]


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


def measure(said, *words):
    return json.loads(run(*FIRST, str(said.bin / "forerun"), "device", "measure", *words, "--check", "--json"))


def errors(rows):
    return "".join(f"{100 * row['error']:+10.1f}" for row in rows)


def head(title):
    print(f"\n{title}\n{'':16}" + "".join(f"{row:>10}" for row in ROWS))


def models(said):
    head("Presets in virtual time, error in %")
    worst = []
    truth = {}
    for line in run(str(said.bin / "forerun"), "device", "list").splitlines()[1:]:
        name = line.split()[0]
        found = measure(said, "--model", name)
        truth[name] = [row["measured_per_s"] for row in found["check"]]
        worst += [abs(row["error"]) for row in found["check"]]
        print(f"{name:16}{errors(found['check'])}  {found['what']}", flush=True)
    within = sum(error <= 0.1 for error in worst)
    print(f"{within} of {len(worst)} within 10%, median {100 * sorted(worst)[len(worst) // 2]:.1f}%")
    return truth


def rig(said, truth):
    # A device on a bus has no way through a file system of programs: answers leave so much earlier.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as work, Served(said, "none", 1 << 30, pathlib.Path(work), 0) as served:
        said.way = int(float(run(*FIRST, "python3", "-c", LONE, str(served.file), "4000")))
    head("Presets in real time, as the file of forerun-rig, error in %")
    print(f"(the way to the rig and back takes {said.way / 1000:.0f} us, by which its answers leave earlier)")
    within = count = 0
    for name in said.rig.split(","):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as work:
            found = on_rig(said, name, pathlib.Path(work))
        rows = [{"error": row["predicted_per_s"] / real - 1} for row, real in zip(found["check"], truth[name])]
        within += sum(abs(row["error"]) <= 0.1 for row in rows)
        count += len(rows)
        print(f"{name:16}{errors(rows)}  {found['what']}; answers {found['late']:.0f} us late", flush=True)
    print(f"{within} of {count} within 10%")


class Served:
    """A model as the file of forerun-rig, for as long as it is wanted."""

    def __init__(self, said, model, size, work, way):
        (work / "at").mkdir()
        with open(work / "image", "wb") as image:
            image.truncate(size)  # holes take no memory when they are read
        first = ["chrt", "-f", "50"] if FIRST else []
        # The rig's file itself: under a loop device the kernel's workers would wait for the processor like anybody.
        self.file, self.stats = work / "at/disk", work / "at/stats"
        self.server = subprocess.Popen(first + [str(said.bin / "forerun-rig"), "--model", model, "--image", str(work / "image"),
                                                "--at", str(work / "at"), "--way", str(way)])

    def __enter__(self):
        while not self.file.exists():
            if self.server.poll() is not None:
                sys.exit("bench-device: forerun-rig did not start")
            time.sleep(0.02)
        return self

    def __exit__(self, *what):
        self.server.terminate()
        self.server.wait()


def on_rig(said, name, work):
    spec = json.loads(run(str(said.bin / "forerun"), "device", "list", "--json"))
    size = next(entry["bytes"] for entry in spec["devices"] if entry["name"] == name)
    with Served(said, name, size, work, said.way) as served:
        found = measure(said, str(served.file))
        found["late"] = json.loads(served.stats.read_text())["late_mean_ns"] / 1e3
        return found


def fio(said, path, jobs, engine):
    words = [*FIRST, "fio", "--output-format=json", f"--filename={path}", "--readonly", "--direct=1", f"--ioengine={engine}", "--thread",
             "--group_reporting", "--time_based", "--runtime=2", "--ramp_time=1", "--randrepeat=0"]
    for number, job in enumerate(jobs):
        if engine == "psync":
            job = job.replace("--iodepth=", "--numjobs=") if "numjobs" not in job else job
        words += [f"--name=j{number}", "--new_group", *job.split()]
    # One report for each group.
    return [job["read"]["iops"] for job in json.loads(run(*words))["jobs"]]


def disk(said):
    # A virtual disk is another from one second to the next, so no round is the truth, the best as little as the first.
    head(f"This machine's disk against fio ({ROUNDS} rounds, the median)")
    with tempfile.TemporaryDirectory(dir=said.folder) as work:
        path = pathlib.Path(said.file or pathlib.Path(work) / "file")
        if not said.file:
            with open(path, "wb") as out:
                for _ in range(1024):
                    out.write(os.urandom(1 << 20))
                out.flush()
                os.fsync(out.fileno())
        # Read once before: blocks that were never touched are slower, and truth and model should see the same.
        run("dd", f"if={path}", "of=/dev/null", "bs=1M", "iflag=direct")
        found = measure(said, str(path))
        rounds = {engine: [[rate for jobs in FIO for rate in fio(said, path, jobs, engine)] for _ in range(ROUNDS)]
                  for engine in ("libaio", "psync")}
    predicted = [row["predicted_per_s"] for row in found["check"]]
    line = lambda label, values, form: print(f"{label:16}" + "".join(format(value, form) for value in values))
    line("predicted, 1/s", predicted, "10.0f")
    for engine, name in (("libaio", "one thread"), ("psync", "many")):
        real = [statistics.median(of) for of in zip(*rounds[engine])]
        line(f"fio, {name}", real, "10.0f")
        line("error, %", [100 * (p / r - 1) for p, r in zip(predicted, real)], "+10.1f")
        line("fio apart, %", [100 * (max(of) / min(of) - 1) for of in zip(*rounds[engine])], "10.1f")
    print(f"found: a {found['what']}; others moved {100 * (found['others'] or {'share': 0})['share']:.1f}% of all bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rig", default="hdd-20tb,wd-7200,cheetah-15k4,gp3,sata-qlc")
    parser.add_argument("--file", help="a large file that is there already, instead of one of 1 GiB")
    parser.add_argument("--folder", default=str(ROOT), help="where the file of 1 GiB is made")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/release", help="folder of forerun and forerun-rig")
    said = parser.parse_args()
    print(f"load average at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    truth = models(said)
    if os.geteuid() == 0:
        rig(said, truth)
    disk(said)


main()
