#!/usr/bin/env python3
"""What a manifest earns at a start: a program in a file system on an export whose store is slow, started cold.

An image of ext4 holds a Python with its library and a database of SQLite; the program imports what a small service does and asks the
database some questions. It is started from the image, by way of nbdfuse and a loop device, through the server over two
stores: an NBD server 10 ms away, and an emulated disk. Each start has a new server with an empty cache and a new mount; the clock
runs from the moment that the server listens to the end of the program. One start is learned first, under `auto`.

Needs root, FUSE, loop devices, nbdkit, nbdfuse and mkfs.ext4 (scripts/install-deps.sh clients). Usage: bench-manifest.py [--rounds 3]
[--keep FOLDER]; FORERUN names the binary.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORERUN = os.environ.get("FORERUN", str(ROOT / "target/release/forerun"))
DELAY = "10ms"
DISK = "hdd-20tb"
WAYS = {
    "none": ["--scheme", "none"],
    "auto": ["--scheme", "auto"],
    "manifest": ["--scheme", "auto", "--manifest", "MANIFEST"],
}
PROGRAM = """
import argparse, asyncio, calendar, configparser, csv, ctypes, dataclasses, decimal, difflib, email.message, fractions
import html.parser, http.client, http.server, imaplib, inspect, ipaddress, json, logging.config, lzma, mailbox
import multiprocessing, optparse, pickle, pydoc, random, sched, secrets, shelve, smtplib, socketserver, sqlite3, statistics
import tarfile, tempfile, timeit, tomllib, unittest, urllib.request, uuid, wave, xml.dom.minidom, xmlrpc.client, zipfile
base = sqlite3.connect("file:/base.db?mode=ro&immutable=1", uri=True)
asks = random.Random(7)
for _ in range(60):
    base.execute("select text from rows where name = ?", (f"name {asks.randrange(60000)}",)).fetchone()
print(base.execute("select count(*) from rows where id < 20000 and text like '%7%'").fetchone()[0])
"""


def run(*command, **more):
    return subprocess.run(command, check=True, text=True, capture_output=True, **more).stdout


def libraries(files):
    """What the loader takes along for these files."""
    found = set()
    for file in files:
        told = subprocess.run(["ldd", file], text=True, capture_output=True).stdout
        found |= set(re.findall(r"(/\S+) \(0x", told))
    return found


def image(folder):
    """The image of the file system."""
    tree = folder / "tree"
    python = pathlib.Path(os.path.realpath("/usr/bin/python3"))
    library = pathlib.Path(sysconfig.get_path("stdlib", scheme="posix_prefix", vars={"base": "/usr", "installed_base": "/usr"}))
    for path in [python, *map(pathlib.Path, libraries([python, *library.rglob("*.so")]))]:
        there = tree / str(path).lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(path), there)
    shutil.copytree(library, tree / str(library).lstrip("/"), symlinks=False, ignore=shutil.ignore_patterns("test", "config-*"),
                    ignore_dangling_symlinks=True)
    (tree / "program.py").write_text(PROGRAM)
    import sqlite3
    base = sqlite3.connect(tree / "base.db")
    base.execute("create table rows (id integer primary key, name text, text text)")
    words = ((number, f"name {number * 7919 % 60000}", f"{number * 2654435761 % 2**32:x} " * 20) for number in range(60000))
    base.executemany("insert into rows values (?, ?, ?)", words)
    base.execute("create index names on rows (name)")
    base.commit()
    base.close()
    target = folder / "image"
    run("truncate", "-s", "320M", target)
    run("mkfs.ext4", "-q", "-d", tree, target)
    return target, str(python)


def await_path(path, process):
    end = time.monotonic() + 60
    while not path.exists() or (path.is_file() and path.stat().st_size == 0):
        if process.poll() is not None or time.monotonic() > end:
            sys.exit(f"bench-manifest: {path} does not come: {process.stderr.read() if process.stderr else ''}")
        time.sleep(0.002)


def start(folder, store, python, options):
    """One cold start; returns its seconds and what the server counted."""
    socket, disk, mount = folder / "s", folder / "fuse", folder / "mnt"
    socket.unlink(missing_ok=True)
    disk.write_bytes(b"")
    mount.mkdir(exist_ok=True)
    server = subprocess.Popen([FORERUN, "--json", "serve", "--over", store, "--read-only", "--socket", socket, "--cache", "256M", *options],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    fuse = loop = None
    try:
        await_path(socket, server)
        begin = time.monotonic()
        fuse = subprocess.Popen(["nbdfuse", "-r", disk, f"nbd+unix:///?socket={socket}"], stderr=subprocess.PIPE, text=True)
        await_path(disk, fuse)
        loop = run("losetup", "--find", "--show", "--read-only", disk).strip()
        run("mount", "-o", "ro,noload", loop, mount)
        answer = run("chroot", mount, python, "/program.py").strip()
        took = time.monotonic() - begin
    finally:
        if os.path.ismount(mount):
            run("umount", mount)
        if loop:
            run("losetup", "--detach", loop)
        if fuse:
            subprocess.run(["umount", disk])
            fuse.wait()
        server.terminate()
        counted, said = server.communicate()
    if server.returncode != 0:
        sys.exit(f"bench-manifest: the server ended with {server.returncode}: {said}")
    return took, answer, json.loads(counted.strip().splitlines()[-1]), said


def bench(folder, name, store, python, rounds):
    """All ways over one store, in turns."""
    manifest = folder / f"{name}.manifest"
    _, expected, _, _ = start(folder, store, python, ["--scheme", "auto", "--learn", manifest])
    shown = run(FORERUN, "manifest", "show", manifest)
    entry = next(line for line in shown.splitlines() if "export" in line and "runs" in line)
    times = {way: [] for way in WAYS}
    counts = {}
    for _ in range(rounds):
        for way, options in WAYS.items():
            options = [str(manifest) if word == "MANIFEST" else word for word in options]
            took, answer, counts[way], _ = start(folder, store, python, options)
            assert answer == expected, f"{way} answered {answer}, not {expected}"
            times[way].append(took)
    print(f"{name}: learned{entry.split(':', 1)[1]}")
    print(f"  {'':10} {'median':>8} {'least':>8} {'most':>8}  {'× none':>6}  {'hits':>6}  {'misses':>6}")
    none = statistics.median(times["none"])
    for way, all_times in times.items():
        median, count = statistics.median(all_times), counts[way]
        hits = count["cache_hits"] + count["prefetch_hits"]
        print(f"  {way:10} {median:7.2f}s {min(all_times):7.2f}s {max(all_times):7.2f}s  {none / median:5.2f}×  {hits:6}  {count['misses']:6}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench-manifest: mounting needs root")
    for tool in ["nbdkit", "nbdfuse", "mkfs.ext4", "losetup"]:
        if not shutil.which(tool):
            sys.exit(f"bench-manifest: {tool} is not there: scripts/install-deps.sh clients")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        target, python = image(folder)
        far = folder / "far"
        command = ["nbdkit", "-f", "-r", "-t", "64", "-U", far, "--filter=delay", "file", target, f"rdelay={DELAY}"]
        server = subprocess.Popen(command)
        try:
            await_path(far, server)
            bench(folder, f"nbd over {DELAY}", f"nbd+unix:///?socket={far}", python, options.rounds)
        finally:
            server.terminate()
            server.wait()
        bench(folder, f"a disk ({DISK})", f"emulate({DISK}):{target}", python, options.rounds)
    print(f"one-minute load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
