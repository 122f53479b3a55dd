#!/usr/bin/env python3
"""How much random reads of a mapped file bring from the device, by the window of read-ahead.

A loop device over a file has a read_ahead_kb of its own, so no setting of the machine is touched. For each window the
same 200 pages are read at random places of the mapped device, whose pages were dropped. Printed is what the loop read, by its
own counter; times are left out, since they tell of the disk below. Root; some seconds; a GiB of disk for that time.
"""
import mmap
import os
import pathlib
import random
import subprocess
import sys
import tempfile

BYTES = 1 << 30
PAGES = 200
WINDOWS = (0, 32, 128, 1024, 4096, 8192)


def read_bytes(name):
    return int(pathlib.Path(f"/sys/block/{name}/stat").read_text().split()[2]) * 512


def at_random(path):
    # An open file keeps the window that it found, so each opens it anew.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(descriptor, BYTES, prot=mmap.PROT_READ) as mapped:
            for page in random.Random(1).sample(range(BYTES // 4096), PAGES):
                mapped[page * 4096]
    finally:
        os.close(descriptor)


def rows(name, path):
    knob = pathlib.Path(f"/sys/block/{name}/queue/read_ahead_kb")
    for window in WINDOWS:
        knob.write_text(str(window))
        before = read_bytes(name)
        at_random(path)
        yield window, read_bytes(name) - before


def main():
    if os.geteuid() != 0:
        sys.exit("figure-read-ahead: makes a loop device, which needs root")
    folder = sys.argv[1] if len(sys.argv) > 1 else "/var/tmp"
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(BYTES >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        made = subprocess.run(["losetup", "--find", "--show", "--read-only", "--direct-io=on", file.name], check=True,
                              capture_output=True, text=True)
        path = made.stdout.strip()
        try:
            print(f"{PAGES} pages of 4 KiB at random, mapped, of 1 GiB\n\nread_ahead_kb       read  × asked for")
            for window, read in rows(os.path.basename(path), path):
                print(f"{window:>13}  {read / 2**20:>5.1f} MiB  {read / PAGES / 4096:>11.1f}")
        finally:
            subprocess.run(["losetup", "--detach", path], check=True)


if __name__ == "__main__":
    main()
