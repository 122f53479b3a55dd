#!/usr/bin/env python3
"""Boots a Debian with `forerun watch --boot`, on a disk that serves so many requests a second: without it, recorded, and read ahead of.

    scripts/bench-watch-boot.py [--iops 100] [--rounds 1] [--bin DIR]

As root, with QEMU and a network for the image (scripts/bench_boot.py). The machine is emulated, on two processors, its disk is a file, of which reads and writes are
counted and held back. Times are seconds from the start of the kernel to a login. `alone` boots without the daemon; `first` is the boot that it records; `again` the next, read
ahead of. The unit is the packaged one, with the drop-in of docs/watch.md and a boot of one minute; what the daemon says of it is printed.
"""
import argparse
import contextlib
import os
import pathlib
import re
import selectors
import shutil
import statistics
import subprocess
import sys
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
# Emulated processors are slow: so long a boot may last, and what is behind it.
PATIENCE = 600
MIB = 896


def drop_in():
    """The one that docs/watch.md shows."""
    text = (ROOT / "docs/watch.md").read_text()
    shown = re.search(r"```ini\n(\[Unit\]\nDefaultDependencies=no.*?)```", text, re.S).group(1)
    return shown.replace("watch --boot", f"watch --boot={SECONDS}s") + "StandardOutput=journal+console\nStandardError=journal+console\n"


def with_daemon(disk, forerun, folder):
    """The disk with the daemon on it."""
    new, mount = folder / "watched.img", folder / "mount"
    shutil.copyfile(disk, new)
    run("truncate", "-s", f"{MIB}M", new)
    subprocess.run(["e2fsck", "-fp", new], check=False, capture_output=True)
    run("resize2fs", new)
    mount.mkdir(exist_ok=True)
    run("mount", "-o", "loop", new, mount)
    try:
        run("strip", "-o", mount / "usr/bin/forerun", forerun)
        shutil.copyfile(ROOT / "packaging/forerun-watch.service", mount / UNIT)
        (mount / f"{UNIT}.d").mkdir()
        (mount / f"{UNIT}.d/boot.conf").write_text(drop_in())
        (mount / WANTED).symlink_to(f"/{UNIT}")
    finally:
        run("umount", mount)
    return new


@contextlib.contextmanager
def machine(vmlinuz, disk, iops, keep):
    """A machine that boots; what it says comes by its stdout."""
    drive = f"if=none,id=disk,format=raw,file={disk},snapshot={'off' if keep else 'on'},throttling.iops-total={iops}"
    words = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2", "-cpu", "max", "-m", "1024", "-display", "none", "-monitor", "none", "-serial", "stdio", "-nic", "none",
             "-no-reboot", "-kernel", vmlinuz, "-drive", drive, "-device", "nvme,drive=disk,serial=disk",
             "-append", "console=ttyS0 root=/dev/nvme0n1 rw quiet panic=-1 tsc=unstable mitigations=off"]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(process, said, wanted):
    """Reads on until the machine has said it; all that it has said."""
    end = time.monotonic() + PATIENCE
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not re.search(wanted, said):
            if refused := re.search(rb"forerun\[[^\r\n]*(cannot|error)[^\r\n]*", said):
                sys.exit(f"bench-watch-boot: the daemon does not run: {refused[0].decode(errors='replace')}")
            ready = selector.select(max(0, end - time.monotonic()))
            more = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
            if not more:
                sys.exit(f"bench-watch-boot: it never said {wanted!r}: {said[-3000:].decode(errors='replace')}")
            said += more
    return said


def boot(vmlinuz, disk, iops, ends=None):
    """Seconds to a login, and the daemon's lines; with `ends` the machine goes on until that was said, and the disk keeps what it wrote."""
    begun = time.monotonic()
    with machine(vmlinuz, disk, iops, keep=ends is not None) as process:
        said = until(process, b"", bench_boot.LOGIN)
        took = time.monotonic() - begun
        if ends:
            said = until(process, said, ends)
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
