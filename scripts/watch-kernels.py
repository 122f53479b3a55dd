#!/usr/bin/env python3
"""What of `forerun watch` works on which kernel, as a table; `make test-watch-kernels` calls it.

Stock kernels of Debian run in a virtual machine (scripts/arrays-vm.sh), and the tests of crates/cli/tests/it/kernels.rs in each of them and
on this machine: what `watch --check` says is held against what the commands then do. Fails where a test fails or was skipped. A kernel that
apt does not know is left out, and said to be. Run as root; give packages of kernels to have others.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = ["linux-image-cloud-amd64", "linux-image-6.12-cloud-amd64"]
UNSUPPORTED = 4
TRIED = ["second run", "behind 32 MiB", "known programs", "patterns", "windows", "charge reader"]
LINE = re.compile(r"kernel: ([^\t]+)\t([^\t]+)\t(.*)")


def read(text):
    """Release of the kernel, and what works there, with words."""
    rows = {match.group(1): match.groups()[1:] for match in map(LINE.search, text.splitlines()) if match}
    if "kernel" not in rows:
        sys.exit(f"watch-kernels: no kernel said what works:\n{text}")
    return rows.pop("kernel")[0], rows


def in_a_machine(package):
    done = subprocess.run([ROOT / "scripts/arrays-vm.sh", "watch"], cwd=ROOT, env=dict(os.environ, KERNEL=package),
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == UNSUPPORTED:
        print(f"watch-kernels: {package} left out", file=sys.stderr)
        return None
    if done.returncode != 0:
        sys.exit(done.returncode)
    return read("".join(f"kernel: {line}\n" for line in done.stdout.splitlines()))


def here():
    words = ["cargo", "test", "--workspace", "--locked", "--quiet", "--test", "cli", "kernels::", "--", "--nocapture", "--test-threads", "1"]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0 or "skipped:" in done.stdout:
        sys.exit(f"watch-kernels: on this machine not every test ran and passed\n{done.stdout}")
    return read(done.stdout)


def main():
    parser = argparse.ArgumentParser(description="what of forerun watch works on which kernel (root, QEMU, Debian)")
    parser.add_argument("kernels", nargs="*", metavar="PACKAGE", default=KERNELS)
    found = [one for one in map(in_a_machine, parser.parse_args().kernels) if one] + [here()]
    names = [re.match(r"[\d.]+", release).group() for release, _ in found]
    print("Linux " + ", ".join(release for release, _ in found) + "; all but the last in a virtual machine\n")
    # What was tried stands below what the check says.
    items = sorted(found[-1][1], key=lambda item: item in TRIED)
    width = max(map(len, items)) + 2
    print("what".ljust(width) + "  ".join(name.ljust(9) for name in names).rstrip())
    why = []
    for item in items:
        cells = [rows.get(item, ("no", "")) for _, rows in found]
        print(item.ljust(width) + "  ".join(works.ljust(9) for works, _ in cells).rstrip())
        for name, (works, words) in zip(names, cells):
            # What is said where it works is said where it works in full.
            if words != cells[-1][1] and words:
                why.append((item, name, words))
    print()
    for item, name, words in why:
        print(f"{item}, {name}: {words}")


main()
