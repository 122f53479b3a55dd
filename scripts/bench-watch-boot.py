#!/usr/bin/env python3
"""Boots a Debian with `forerun watch --boot`, on a disk that serves so many requests a second: without it, recorded, and read ahead of.

    scripts/bench-watch-boot.py [--iops 100] [--rounds 1] [--bin DIR]

As root, with QEMU and a network for the image (scripts/bench_boot.py). The machine is emulated, on two processors, its disk is a file, of which reads and writes are
counted and held back. Times are seconds from the start of the machine to a login. `alone` boots without the daemon; `first` is the boot that it records; `again` the next, read
ahead of. The unit is the packaged one, with the drop-in of docs/watch.md and a boot of one minute; what the daemon says of it is printed.
"""
import argparse
import pathlib
import re
import shutil
import statistics
import time

import bench_boot
from bench_boot import run

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNIT = "etc/systemd/system/forerun-watch.service"
WANTED = "etc/systemd/system/multi-user.target.wants/forerun-watch.service"
SECONDS = 60
# It says a line when it begins to follow the boot and one when that is over.
OVER = rb"(?s)(pid 1 +boot[^\n]*\n.*){2}"
UNBOUNDED = 1_000_000
REFUSED = rb"forerun\[[^\r\n]*cannot "
MIB = 896


def drop_in():
    """The one that docs/watch.md shows."""
    text = (ROOT / "docs/watch.md").read_text()
    shown = re.search(r"```ini\n(\[Unit\]\nDefaultDependencies=no.*?)```", text, re.S).group(1)
    return shown.replace("watch --boot", f"watch --boot={SECONDS}s") + "StandardOutput=journal+console\nStandardError=journal+console\n"


def with_daemon(disk, forerun, folder):
    """The disk with the daemon on it."""
    new = folder / "watched.img"
    with bench_boot.larger(disk, new, MIB) as mount:
        run("strip", "-o", mount / "usr/bin/forerun", forerun)
        shutil.copyfile(ROOT / "packaging/forerun-watch.service", mount / UNIT)
        (mount / f"{UNIT}.d").mkdir()
        (mount / f"{UNIT}.d/boot.conf").write_text(drop_in())
        (mount / WANTED).symlink_to(f"/{UNIT}")
    return new


def boot(vmlinuz, disk, iops, ends=None):
    """Seconds to a login, and the daemon's lines; with `ends` the machine goes on until that was said, and the disk keeps what it wrote."""
    begun = time.monotonic()
    drive = f"file={disk},snapshot={'off' if ends else 'on'},throttling.iops-total={iops}"
    with bench_boot.machine(vmlinuz, drive) as process:
        said = bench_boot.until(process, bench_boot.LOGIN, refused=REFUSED)
        took = time.monotonic() - begun
        if ends:
            said = bench_boot.until(process, ends, said, REFUSED)
            time.sleep(40)  # until what it has written is on the disk
    lines = re.findall(r"(?:pid 1 |forerun: )[^\r\n]*", said.decode(errors="replace"))
    return took, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iops", type=int, default=100, help="requests that the disk serves in a second [100]")
    parser.add_argument("--rounds", type=int, default=1, help="boots of each kind [1]")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/release", help="where the binary is [target/release]")
    args = parser.parse_args()
    folder = ROOT / "out/bench/boot"
    plain, vmlinuz = bench_boot.image(folder)
    took = {"ideal": [], "alone": [], "first": [], "again": []}
    for number in range(args.rounds):
        disk = with_daemon(plain, args.bin / "forerun", folder)
        took["ideal"].append(boot(vmlinuz, plain, UNBOUNDED)[0])
        took["alone"].append(boot(vmlinuz, plain, args.iops)[0])
        for kind in ("first", "again"):
            seconds, lines = boot(vmlinuz, disk, args.iops, OVER)
            took[kind].append(seconds)
            if number == 0:
                print(*(f"{kind}: {line.strip()}" for line in lines), sep="\n")
    middle = {kind: statistics.median(times) for kind, times in took.items()}
    print(f"\n{args.iops} requests a second; seconds to a login, medians of {args.rounds}")
    for kind, seconds in middle.items():
        print(f"{kind:6} {seconds:6.1f}  {middle['alone'] / seconds:.2f}×")


main()
