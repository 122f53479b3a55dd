#!/usr/bin/env python3
"""Writes over an emulated RAID-5 of five cheetah-15k4, through and back: how fast they are acknowledged, and how soon all of them are on the disks.

`forerun` and `fio` (with its engine nbd) must be on PATH. The array is emulated in real time (`emulate(raid5:5x128K,cheetah-15k4):FILE`), the journal is
a file of this machine. A run of write-back ends when nothing is held back any more, so nothing is won by leaving work for later.
A run whose emulator was late says little; by how much stands below the table. Standard library only.

Usage: scripts/bench-write-back.py [--writes N] [--mib N]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

ARRAY = "raid5:5x128K,cheetah-15k4"
DATA = "raid0:4x128K"
SIZE = 1 << 30
DIRTY = "64MiB"


def arguments():
    said = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    said.add_argument("--writes", type=int, default=6000, help="random writes of 4 KiB (default %(default)s)")
    said.add_argument("--mib", type=int, default=256, help="MiB written in order (default %(default)s)")
    return said.parse_args()


def stats(control):
    said = subprocess.run(["forerun", "ctl", "--control", control, "stats", "--json"], check=True, capture_output=True)
    return json.loads(said.stdout)["exports"][0]


def run(folder, back, job):
    """Seconds until all was acknowledged and flushed, and until it was home; commands of the server to its member; the emulator's delay."""
    disk, socket = os.path.join(folder, "disk"), os.path.join(folder, "s")
    for name in ("disk", "journal"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            os.remove(path)
    with open(disk, "wb") as file:
        file.truncate(SIZE)
    command = ["forerun", "--quiet", "serve", "--json", "--over", f"emulate({ARRAY}):{disk}", "--array", DATA, "--cache", "32M",
               "--scheme", "none", "--socket", socket]
    if back:
        # Age brings the rest home as soon as fio is done.
        command += ["--write", f"back(dirty={DIRTY},age=1s)", "--journal", os.path.join(folder, "journal"), "--journal-new"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    server.stdout.readline()
    begin = time.monotonic()
    fio = ["fio", "--name=w", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={socket}", "--randrepeat=1", "--norandommap", "--end_fsync=1",
           "--output-format=json", *job]
    said = subprocess.run(fio, cwd=folder, check=True, capture_output=True)
    # Some of its words may stand before.
    done = json.loads(said.stdout[said.stdout.index(b"{") :])["jobs"][0]["write"]
    acknowledged = time.monotonic() - begin
    while back and stats(socket + ".ctl")["write_back"]["dirty_bytes"] > 0:
        time.sleep(0.05)
    home = time.monotonic() - begin
    server.send_signal(signal.SIGTERM)
    last = server.stdout.read().splitlines()[-1]
    server.wait()
    return done["total_ios"], done["io_bytes"], acknowledged, home, json.loads(last).get("emulated_late_p99_us")


def main():
    asked = arguments()
    random = ["--rw=randwrite", "--bs=4k", "--iodepth=16", f"--size={256 << 20}", f"--io_size={asked.writes * 4096}"]
    order = ["--rw=write", "--bs=128k", "--iodepth=4", f"--size={asked.mib << 20}"]
    print(f"emulate({ARRAY}), {DATA} as its data disks; journal: a file; {DIRTY} may be held back; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"{'':34}{'through':>12}{'back':>12}{'':>10}{'back, home':>12}")
    late = []
    with tempfile.TemporaryDirectory() as folder:
        for name, job in ((f"{asked.writes} random writes of 4 KiB", random), (f"{asked.mib} MiB in order, 128 KiB each", order)):
            rates = []
            for back in (False, True):
                ios, count, acknowledged, home, delay = run(folder, back, job)
                late.append(delay)
                unit, amount = ("IOPS", ios) if job is random else ("MiB/s", count / (1 << 20))
                rates.append((amount / acknowledged, amount / home))
            (through, _), (back, home) = rates
            print(f"{name:34}{through:7.0f} {unit:<5}{back:6.0f} {unit:<5}{back / through:7.2f} x {home:6.0f} {unit:<5}{home / through:5.2f} x")
            sys.stdout.flush()
    print(f"(the emulator's commands came late by {late} us, p99 of each run)")


if __name__ == "__main__":
    main()
