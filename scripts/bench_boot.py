"""A machine that boots from an export, for scripts/bench-manifest.py: Debian with systemd, udev, dbus, sshd, cron and rsyslog, to its login.

The kernel is Debian's for clouds and comes by itself (QEMU's -kernel), since its firmware would read it with requests of its own; all else comes from
the disk. The machine is emulated (TCG), on two processors. What it writes goes to a file that is thrown away, so each boot is the same.
"""
import os
import re
import selectors
import shutil
import subprocess
import sys
import time

KERNEL = "linux-image-6.12-cloud-amd64"
PACKAGES = "systemd-sysv,udev,dbus,libpam-systemd,openssh-server,login,kmod,iproute2,python3-minimal,cron,rsyslog"
# What no boot reads; and what would start by itself, at a time that is not the boot's.
LEFT_OUT = ["var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"]
TIMERS = ["apt-daily-upgrade", "apt-daily", "dpkg-db-backup", "e2scrub_all", "fstrim"]
IMAGE_MIB = 420
LOGIN = b" login: "
# Seconds after which a boot is stuck.
PATIENCE = 400
# command -> Debian package
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "mmdebstrap": "mmdebstrap", "depmod": "kmod", "mkfs.ext4": "e2fsprogs"}


def run(*command, **more):
    return subprocess.run(command, check=True, text=True, capture_output=True, **more).stdout


def install():
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
    if missing:
        print(f"bench-manifest: installing {' '.join(missing)}", file=sys.stderr)
        run("apt-get", "update", "-qq")
        run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing, env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))


def kernel(folder):
    """The kernel of the day and its modules, unpacked: the path of the kernel, and its release."""
    package = re.search(r"Depends: (linux-image-\S+)", run("apt-cache", "depends", KERNEL)).group(1)
    there, release = folder / package, package.removeprefix("linux-image-")
    if not there.exists():
        print(f"bench-manifest: fetching {package}", file=sys.stderr)
        run("apt-get", "download", "-qq", package, cwd=folder)
        unpacked = folder / f"{package}.new"
        run("dpkg", "-x", next(folder.glob(f"{package}_*.deb")), unpacked)
        run("depmod", "-b", unpacked, release)
        unpacked.rename(there)
    return there, release


def make_tree(tree, modules, release):
    """Debian, as it lies on the disk."""
    print("bench-manifest: making a Debian to boot", file=sys.stderr)
    run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm", tree)
    for name in LEFT_OUT:
        shutil.rmtree(tree / name, ignore_errors=True)
    for name in TIMERS:
        (tree / f"etc/systemd/system/timers.target.wants/{name}.timer").unlink(missing_ok=True)
    shutil.copytree(modules / "lib/modules" / release, tree / "lib/modules" / release, symlinks=True)
    (tree / "etc/hostname").write_text("start\n")
    (tree / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    (tree / "etc/fstab").write_text("/dev/nvme0n1 / ext4 rw,noatime 0 1\n")


def image(folder):
    """The disk, made once, and the kernel."""
    install()
    folder.mkdir(parents=True, exist_ok=True)
    modules, release = kernel(folder)
    disk = folder / f"debian-{release}.img"
    if not disk.exists():
        tree, new = folder / "tree", folder / "new.img"
        shutil.rmtree(tree, ignore_errors=True)
        make_tree(tree, modules, release)
        new.unlink(missing_ok=True)
        run("truncate", "-s", f"{IMAGE_MIB}M", new)
        run("mkfs.ext4", "-q", "-d", tree, new)
        shutil.rmtree(tree)
        new.rename(disk)
    return disk, modules / "boot" / f"vmlinuz-{release}"


def until_login(machine):
    """Reads what the machine says until it asks who is there."""
    said, end = b"", time.monotonic() + PATIENCE
    with selectors.DefaultSelector() as selector:
        selector.register(machine.stdout, selectors.EVENT_READ)
        while LOGIN not in said:
            ready = selector.select(max(0, end - time.monotonic()))
            more = os.read(machine.stdout.fileno(), 1 << 16) if ready else b""
            if not more:
                sys.exit(f"bench-manifest: the machine did not come to a login: {said[-2000:].decode(errors='replace')}")
            said += more


def boot(vmlinuz, socket):
    """Boots from an export; the seconds until there is a login."""
    begin = time.monotonic()
    drive = f"if=none,id=disk,snapshot=on,format=raw,file.driver=nbd,file.server.type=unix,file.server.path={socket}"
    machine = subprocess.Popen(
        ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2", "-cpu", "max", "-m", "1024", "-display", "none", "-monitor", "none",
         "-serial", "stdio", "-nic", "none", "-no-reboot", "-kernel", vmlinuz, "-drive", drive, "-device", "nvme,drive=disk,serial=disk",
         "-append", "console=ttyS0 root=/dev/nvme0n1 rw quiet panic=-1 tsc=unstable mitigations=off"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        until_login(machine)
        return time.monotonic() - begin
    finally:
        machine.kill()
        machine.communicate()
