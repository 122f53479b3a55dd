"""A machine that boots, for scripts/bench-manifest.py (from an export) and scripts/bench-watch-boot.py: Debian with systemd, udev, dbus, sshd, cron and rsyslog, to its login.

The kernel is Debian's for clouds and comes by itself (QEMU's -kernel), since its firmware would read it with requests of its own; all else comes from
the disk. The machine is emulated (TCG), on two processors. Where the drive says so (snapshot=on) what it writes is thrown away, and each boot is the same.
"""
import contextlib
import os
import pathlib
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
LOGIN = rb" login: "
# Who measures, for what it has to say.
NAME = pathlib.Path(sys.argv[0]).stem
# Seconds after which a boot is stuck.
PATIENCE = 400
# command -> Debian package
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "mmdebstrap": "mmdebstrap", "depmod": "kmod", "mkfs.ext4": "e2fsprogs"}


def run(*command, **more):
    return subprocess.run(command, check=True, text=True, capture_output=True, **more).stdout


def install():
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
    if missing:
        print(f"{NAME}: installing {' '.join(missing)}", file=sys.stderr)
        run("apt-get", "update", "-qq")
        run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing, env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))


def kernel(folder):
    """The kernel of the day and its modules, unpacked: the path of the kernel, and its release."""
    package = re.search(r"Depends: (linux-image-\S+)", run("apt-cache", "depends", KERNEL)).group(1)
    there, release = folder / package, package.removeprefix("linux-image-")
    if not there.exists():
        print(f"{NAME}: fetching {package}", file=sys.stderr)
        run("apt-get", "download", "-qq", package, cwd=folder)
        unpacked = folder / f"{package}.new"
        run("dpkg", "-x", next(folder.glob(f"{package}_*.deb")), unpacked)
        run("depmod", "-b", unpacked, release)
        unpacked.rename(there)
    return there, release


def make_tree(tree, modules, release):
    """Debian, as it lies on the disk."""
    print(f"{NAME}: making a Debian to boot", file=sys.stderr)
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


@contextlib.contextmanager
def larger(disk, new, mib):
    """A copy of a disk, of so many MiB, and where it is mounted to have more put on it."""
    mount = new.parent / "mount"
    shutil.copyfile(disk, new)
    run("truncate", "-s", f"{mib}M", new)
    subprocess.run(["e2fsck", "-fp", new], check=False, capture_output=True)
    run("resize2fs", new)
    mount.mkdir(exist_ok=True)
    run("mount", "-o", "loop", new, mount)
    try:
        yield mount
    finally:
        run("umount", mount)


@contextlib.contextmanager
def machine(vmlinuz, drive, threads="multi"):
    """A machine that boots from a drive, in QEMU's words; what it says comes by its stdout. With `threads` single its processors take turns: those that run at once now
    and then fall over each other where tracepoints are put in place."""
    process = subprocess.Popen(
        ["qemu-system-x86_64", "-accel", f"tcg,thread={threads}", "-smp", "2", "-cpu", "max", "-m", "1024", "-display", "none", "-monitor", "none",
         "-serial", "stdio", "-nic", "none", "-no-reboot", "-kernel", vmlinuz, "-drive", f"if=none,id=disk,format=raw,{drive}",
         "-device", "nvme,drive=disk,serial=disk", "-append", "console=ttyS0 root=/dev/nvme0n1 rw quiet panic=-1 tsc=unstable mitigations=off"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(process, wanted, said=b"", refused=None):
    """Reads on until the machine has said what is wanted (a pattern), and ends where it says what it must not; all that it has said."""
    end = time.monotonic() + PATIENCE
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not re.search(wanted, said):
            ready = selector.select(max(0, end - time.monotonic()))
            more = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
            if not more or refused and re.search(refused, said):
                sys.exit(f"{NAME}: the machine did not come to say {wanted!r}: {said[-2000:].decode(errors='replace')}")
            said += more
    return said


def boot(vmlinuz, socket):
    """Boots from an export; the seconds until there is a login."""
    begin = time.monotonic()
    with machine(vmlinuz, f"snapshot=on,file.driver=nbd,file.server.type=unix,file.server.path={socket}") as process:
        until(process, LOGIN)
        return time.monotonic() - begin
