#!/usr/bin/env python3
"""The Debian package and its units under a real systemd: a Debian 12 is booted in a virtual machine, and scripts/units/check.sh installs, starts, uses, kills,
stops and purges there. Prints a line for each check; exit code 1 where one fails.

    scripts/units-vm.py [--bin DIR] [--kernel PACKAGE]

As root, with QEMU and a network for the image (scripts/bench_boot.py); some minutes, as the machine is emulated.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import bench_boot

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts/units/check.sh"
UNIT = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/srv/check/check.sh
ExecStopPost=/bin/systemctl poweroff --no-block
StandardOutput=journal+console
StandardError=journal+console
"""
MIB = 1200
OVER = rb"check: over, \d+ failed"


def package(binary, folder):
    """The package of a binary."""
    subprocess.run([ROOT / "scripts/deb.sh", binary], check=True, env=dict(os.environ, OUT=str(folder)), stdout=subprocess.DEVNULL)
    return next(folder.glob("forerun_*.deb"))


def disk_with(plain, deb, folder):
    """A copy of the disk on which the package lies, and the checks, which begin when it has booted."""
    new = folder / "units.img"
    with bench_boot.larger(plain, new, MIB) as mount:
        (mount / "srv/check").mkdir()
        shutil.copyfile(deb, mount / "srv/check/forerun.deb")
        shutil.copy(SCRIPT, mount / "srv/check/check.sh")
        (mount / "etc/systemd/system/check.service").write_text(UNIT)
        (mount / "etc/systemd/system/check.timer").write_text("[Timer]\nOnBootSec=1s\n")
        (mount / "etc/systemd/system/timers.target.wants/check.timer").symlink_to("/etc/systemd/system/check.timer")
    return new


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/release", help="where the binary is [target/release]")
    parser.add_argument("--kernel", default=bench_boot.KERNEL, help=f"the package of the kernel [{bench_boot.KERNEL}]")
    args = parser.parse_args()
    # All checks are one wait.
    bench_boot.KERNEL, bench_boot.PATIENCE = args.kernel, 1200
    bench_boot.PACKAGES += ",libnbd-bin"
    folder = ROOT / "out/units"
    plain, vmlinuz = bench_boot.image(folder)
    with tempfile.TemporaryDirectory() as work:
        disk = disk_with(plain, package(args.bin / "forerun", pathlib.Path(work)), folder)
    print(f"units-vm: booting {vmlinuz.name}: some minutes", file=sys.stderr)
    with bench_boot.machine(vmlinuz, f"file={disk},snapshot=on,throttling.iops-read=2000", threads="single") as process:
        said = bench_boot.until(process, OVER).decode(errors="replace").replace("\r", "")
    lines = re.findall(r"check: (?:ok|FAILED|over).*(?:\n(?!.*check:).*)*", said)
    print(*lines, sep="\n")
    sys.exit(0 if re.search("check: over, 0 failed", said) else 1)


main()
