#!/usr/bin/env python3
"""What a manifest earns at a start: programs and a whole machine that start cold from an export whose store is slow.

The stores: an NBD server 10 ms away, an object in a store that speaks S3 and answers each request after 30 ms, and an emulated disk. What
starts: a Python program that imports what a small service does; a Python that asks a database of SQLite some questions (both from ext4,
by way of nbdfuse and a loop device); and a Debian in QEMU, from its kernel's first instruction to its login. Each start has a new
server with an empty cache; the clock runs from the moment that the server listens. One start over each store is learned first, under `auto`. `in memory` is the
same start where no store makes it wait, once a round before all others.

Needs root, FUSE, loop devices, and scripts/install-deps.sh clients; for the boot Debian, QEMU and a network the first time (a kernel and a
Debian are kept below OUT). Usage: bench-manifest.py [--rounds 3] [--boots 2] [--only python sqlite boot] [--stores nbd s3 disk]
[--keep FOLDER]; FORERUN names the binary, OUT (out) where the machine is kept.
"""
import argparse
import contextlib
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

import bench_boot

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORERUN = os.environ.get("FORERUN", str(ROOT / "target/release/forerun"))
OUT = pathlib.Path(os.environ.get("OUT", "out")).resolve()
MOTO = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "forerun/moto"
NBD_DELAY, S3_DELAY_MS = "10ms", 30
DISK = "hdd-20tb"
PLAIN, BEST = "linux-6", "manifest"
WAYS = {
    "none": ["--scheme", "none"],
    PLAIN: ["--scheme", PLAIN],
    "auto": ["--scheme", "auto"],
    BEST: ["--scheme", "auto", "--manifest", "MANIFEST"],
}
# What was aimed at, against plain read-ahead: on far stores, and anywhere.
FAR_RATIO, LEAST_RATIO = 2, 0.98
IMPORTS = """
import argparse, asyncio, calendar, configparser, csv, ctypes, dataclasses, decimal, difflib, email.message, fractions
import html.parser, http.client, http.server, imaplib, inspect, ipaddress, json, logging.config, lzma, mailbox
import multiprocessing, optparse, pickle, pydoc, random, sched, secrets, shelve, smtplib, socketserver, sqlite3, statistics
import sys, tarfile, tempfile, timeit, tomllib, unittest, urllib.request, uuid, wave, xml.dom.minidom, xmlrpc.client, zipfile
print(len(sys.modules) > 200)
"""
QUESTIONS = """
import random, sqlite3
base = sqlite3.connect("file:/base.db?mode=ro&immutable=1", uri=True)
asks = random.Random(7)
for _ in range(60):
    base.execute("select text from rows where name = ?", (f"name {asks.randrange(60000)}",)).fetchone()
print(base.execute("select count(*) from rows where id < 20000 and text like '%7%'").fetchone()[0])
"""
PROGRAMS = {"python": IMPORTS, "sqlite": QUESTIONS}
TITLES = {"python": "a Python program", "sqlite": "questions to SQLite", "boot": "a Debian to its login"}


def run(*command, **more):
    return subprocess.run(command, check=True, text=True, capture_output=True, **more).stdout


def libraries(files):
    """What the loader takes along for these files."""
    found = set()
    for file in files:
        told = subprocess.run(["ldd", file], text=True, capture_output=True).stdout
        found |= set(re.findall(r"(/\S+) \(0x", told))
    return found


def make_base(path):
    import sqlite3
    base = sqlite3.connect(path)
    base.execute("create table rows (id integer primary key, name text, text text)")
    words = ((number, f"name {number * 7919 % 60000}", f"{number * 2654435761 % 2**32:x} " * 20) for number in range(60000))
    base.executemany("insert into rows values (?, ?, ?)", words)
    base.execute("create index names on rows (name)")
    base.commit()
    base.close()


def image(folder):
    """The image of the file system with the programs, and the path of its Python."""
    tree = folder / "tree"
    python = pathlib.Path(os.path.realpath("/usr/bin/python3"))
    library = pathlib.Path(sysconfig.get_path("stdlib", scheme="posix_prefix", vars={"base": "/usr", "installed_base": "/usr"}))
    for path in [python, *map(pathlib.Path, libraries([python, *library.rglob("*.so")]))]:
        there = tree / str(path).lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(path), there)
    shutil.copytree(library, tree / str(library).lstrip("/"), symlinks=False, ignore=shutil.ignore_patterns("test", "config-*"),
                    ignore_dangling_symlinks=True)
    for name, text in PROGRAMS.items():
        (tree / f"{name}.py").write_text(text)
    make_base(tree / "base.db")
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


def started(python, name):
    """How a program is started from its file system on an export; what it answers."""
    def start(folder, socket):
        disk, mount = folder / "fuse", folder / "mnt"
        disk.write_bytes(b"")
        mount.mkdir(exist_ok=True)
        fuse = loop = None
        try:
            fuse = subprocess.Popen(["nbdfuse", "-r", disk, f"nbd+unix:///?socket={socket}"], stderr=subprocess.PIPE, text=True)
            await_path(disk, fuse)
            loop = run("losetup", "--find", "--show", "--read-only", disk).strip()
            run("mount", "-o", "ro,noload", loop, mount)
            answer = run("chroot", mount, python, f"/{name}.py").strip()
            return answer, time.monotonic()
        finally:
            if os.path.ismount(mount):
                run("umount", mount)
            if loop:
                run("losetup", "--detach", loop)
            if fuse:
                subprocess.run(["umount", disk])
                fuse.wait()
    return start


def booted(vmlinuz):
    def start(_, socket):
        bench_boot.boot(vmlinuz, socket)
        return "login", time.monotonic()
    return start


def once(folder, start, store, options):
    """One cold start over a store, which is its address and the variables that it wants; returns its seconds, its answer, and what the server counted."""
    (address, variables), socket = store, folder / "s"
    socket.unlink(missing_ok=True)
    server = subprocess.Popen([FORERUN, "--json", "serve", "--over", address, "--read-only", "--socket", socket, "--cache", "256M", *options],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables})
    try:
        await_path(socket, server)
        begin = time.monotonic()
        answer, end = start(folder, socket)
    finally:
        server.terminate()
        counted, said = server.communicate()
    if server.returncode != 0:
        sys.exit(f"bench-manifest: the server ended with {server.returncode}: {said}")
    return end - begin, answer, json.loads(counted.strip().splitlines()[-1])


@contextlib.contextmanager
def far(folder, target):
    """An NBD server that takes its time."""
    socket = folder / "far"
    socket.unlink(missing_ok=True)
    command = ["nbdkit", "-f", "-r", "-t", "64", "-U", socket, "--filter=delay", "file", target, f"rdelay={NBD_DELAY}"]
    server = subprocess.Popen(command)
    try:
        await_path(socket, server)
        yield f"nbd+unix:///?socket={socket}", {}
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def objects(_, target):
    """A store that speaks S3 and takes its time."""
    command = [MOTO / "bin/python", "-B", ROOT / "scripts/slow_store.py", target, str(S3_DELAY_MS)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        yield "s3://disks/disk.img", {"AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "first",
                                      "AWS_SECRET_ACCESS_KEY": "first"}
    finally:
        server.stdin.close()
        server.wait()


@contextlib.contextmanager
def slow(_, target):
    """An emulated disk."""
    yield f"emulate({DISK}):{target}", {}


STORES = {"nbd": (f"nbd over {NBD_DELAY}", far), "s3": (f"S3, {S3_DELAY_MS} ms a request", objects), "disk": (f"a disk ({DISK})", slow)}


def table(what, shown, times, counts, memory):
    """Prints what one start took over one store; returns medians by way. What the store adds to a start is what it takes there and not in memory."""
    entry = next(line for line in shown.splitlines() if "export" in line and "runs" in line)
    print(f"\n{what}: learned{entry.split(':', 1)[1]}")
    print(f"  {'':10} {'median':>8} {'least':>8} {'most':>8}  {'× ' + PLAIN:>9}  {'added':>7}  {'hits':>6}  {'misses':>6}")
    medians = {way: statistics.median(all_times) for way, all_times in times.items()}
    for way, all_times in times.items():
        median, count = medians[way], counts[way]
        hits = count["cache_hits"] + count["prefetch_hits"]
        print(f"  {way:10} {median:7.2f}s {min(all_times):7.2f}s {max(all_times):7.2f}s  {medians[PLAIN] / median:8.2f}×  {median - memory:6.2f}s  {hits:6}  {count['misses']:6}",
              flush=True)
    return medians


def bench(folder, what, start, store, rounds, memory):
    """All ways over one store, in turns."""
    manifest = folder / "manifest"
    manifest.unlink(missing_ok=True)
    _, expected, _ = once(folder, start, store, ["--scheme", "auto", "--learn", manifest])
    times, counts = {way: [] for way in WAYS}, {}
    for _ in range(rounds):
        for way, options in WAYS.items():
            options = [str(manifest) if word == "MANIFEST" else word for word in options]
            took, answer, counts[way] = once(folder, start, store, options)
            assert answer == expected, f"{way} answered {answer}, not {expected}"
            times[way].append(took)
    return table(what, run(FORERUN, "manifest", "show", manifest), times, counts, memory)


def from_memory(folder, what, start, target, rounds):
    """What the start takes where no store is waited for."""
    target.read_bytes()
    times = [once(folder, start, (str(target), {}), ["--scheme", "none", "--direct", "off"])[0] for _ in range(rounds)]
    print(f"\n{what}, in memory: {statistics.median(times):.2f}s, {min(times):.2f}s to {max(times):.2f}s")
    return statistics.median(times)


def verdicts(found):
    """Whether what was aimed at was met, by medians of ways by start and store."""
    ratios = {key: medians[PLAIN] / medians[BEST] for key, medians in found.items()}

    def say(claim, holds, all_ratios):
        figures = ", ".join(f"{what} {ratio:.2f}" for what, ratio in all_ratios.items())
        print(f"\n{'met' if holds else 'NOT MET'}: {claim}: {figures}")
    away = {what: ratio for (what, name), ratio in ratios.items() if name != "disk"}
    if away:
        say(f"on far stores a start with a manifest is at least {FAR_RATIO} × as fast as with {PLAIN}", min(away.values()) >= FAR_RATIO, away)
    least = {what: ratio for (what, _), ratio in ratios.items() if ratio == min(ratios.values())}
    say(f"nowhere is it slower than {LEAST_RATIO} ×", min(ratios.values()) >= LEAST_RATIO, {f"the least is {what}": ratio for what, ratio in least.items()})
    # Clients have a read-ahead of their own.
    bare = {what: medians["none"] / medians[BEST] for (what, _), medians in found.items()}
    worst = min(bare, key=bare.get)
    say("nor slower than that without any read-ahead of the server's", bare[worst] >= LEAST_RATIO, {f"the least is {worst}": bare[worst]})


def loads(folder, wanted, options):
    """What starts, its disk, and how often, one after the other."""
    if wanted & set(PROGRAMS):
        target, python = image(folder)
        yield from ((name, started(python, name), target, options.rounds) for name in PROGRAMS if name in wanted)
    if "boot" in wanted:
        disk, vmlinuz = bench_boot.image(OUT / "bench/boot")
        yield "boot", booted(vmlinuz), disk, options.boots


def check(options):
    if os.geteuid() != 0:
        sys.exit("bench-manifest: mounting needs root")
    tools = ["nbdkit", "nbdfuse", "mkfs.ext4", "losetup"]
    missing = [tool for tool in tools if not shutil.which(tool)]
    if "s3" in options.stores and not (MOTO / "ready").exists():
        missing.append("moto")
    if missing:
        sys.exit(f"bench-manifest: {', '.join(missing)} is not there: scripts/install-deps.sh clients")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--boots", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=TITLES, default=list(TITLES))
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    check(options)
    print(f"one-minute load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors at the start")
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        for name, start, target, rounds in loads(folder, set(options.only), options):
            memory = from_memory(folder, TITLES[name], start, target, rounds)
            for store in options.stores:
                title, made = STORES[store]
                what = f"{TITLES[name]}, {title}"
                with made(folder, target) as there:
                    found[what, store] = bench(folder, what, start, there, rounds, memory)
    verdicts(found)
    print(f"\none-minute load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
