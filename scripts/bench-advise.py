#!/usr/bin/env python3
"""Whether what `forerun advise` says of read_ahead_kb comes true: programs on emulated devices, before and after.

    scripts/bench-advise.py [--models wd-7200,gp3] [--rounds 3] [--files 1500] [--big 96] [--bin DIR]

As root, on Linux 6.12 or later. The rig of scripts/bench-watch.py: an image in memory with ext4 is shown by forerun-rig with the
timing of a preset, a loop device lies over it, every run begins cold. Each program is recorded once, `advise` says what another
read_ahead_kb would give on that preset, and then the program runs with 128 and with that value in turns. Where it says to leave it,
1024 is tried all the same. Medians are printed. What is timed goes before other programs of the machine;
the kernel's workers under the loop device do not, so the load average stands at the head.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("bench_watch", ROOT / "scripts/bench-watch.py")
rig_of = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rig_of)
run = rig_of.run
# What is timed must not wait for other programs of the machine.
FIRST = ["chrt", "-f", "40"] if shutil.which("chrt") else []

LOOKUPS = ("import sqlite3,sys\nc=sqlite3.connect(f'file:{sys.argv[1]}?mode=ro&immutable=1',uri=True)\n"
           "for k in range(400): c.execute('select v from t where k=?',(k*7919%90000,)).fetchone()\n")
SCAN = ("import sqlite3,sys\nc=sqlite3.connect(f'file:{sys.argv[1]}?mode=ro&immutable=1',uri=True)\n"
        "print(c.execute('select sum(length(v)) from t').fetchone())\n")
MAPPED = ("import mmap,sys\nf=open(sys.argv[1],'rb')\nm=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)\n"
          "print(sum(m[at] for at in range(0,len(m),4096)))\n")


def add_programs(image, mount):
    """A database in order of another key than the one that is asked for, and the programs."""
    run("mount", "-o", "loop,noatime", str(image), str(mount))
    try:
        base = sqlite3.connect(mount / "app.db")
        base.execute("create table t(k integer, v text)")
        chance = random.Random(11)
        keys = list(range(90000))
        chance.shuffle(keys)
        base.executemany("insert into t values(?,?)", ((key, "%0600d" % key) for key in keys))
        base.execute("create index i on t(k)")
        base.commit()
        base.close()
        for name, text in (("lookups.py", LOOKUPS), ("scan.py", SCAN), ("mapped.py", MAPPED)):
            (mount / name).write_text(text)
    finally:
        run("umount", str(mount))


def cases(mount):
    # The rig's machine runs the interpreter from its own disk; what is read cold is the data.
    python = [sys.executable, "-S"]
    return [
        ("sqlite lookups", python + [f"{mount}/lookups.py", f"{mount}/app.db"]),
        ("sqlite scan", python + [f"{mount}/scan.py", f"{mount}/app.db"]),
        ("grep -r", ["grep", "-rc", "qua", f"{mount}/tree"]),
        ("git status", ["git", "-c", "safe.directory=*", "-C", f"{mount}/tree", "status", "--short"]),
        ("tar", ["sh", "-c", f"tar -cf - -C {mount} tree | cat > /dev/null"]),
        ("mapped, in order", python + [f"{mount}/mapped.py", f"{mount}/big"]),
        ("stride 16K/256K", python + [f"{mount}/stride.py", f"{mount}/big"]),
        ("sequential 64K", python + [f"{mount}/read.py", f"{mount}/big"]),
    ]


def timed(rig, words, kib):
    rig.setting.write_text(str(kib))
    rig.cold()
    start = time.monotonic()
    done = subprocess.run(FIRST + words, capture_output=True)
    if done.returncode not in (0, 1):
        sys.exit(f"bench-advise: {words}: {done.stderr.decode()}")
    return time.monotonic() - start


def predicted(rig, words, forerun, trace):
    """What advise says of another read_ahead_kb: value, factor, interval; value 0 means to leave it."""
    rig.setting.write_text("128")
    rig.cold()
    subprocess.run([str(forerun), "--quiet", "trace", "record", "--files", "--dir", str(rig.mount), "-o", str(trace), "--"] + words,
                   capture_output=True)
    told = json.loads(run(str(forerun), "--quiet", "advise", str(trace), "--device", rig.model, "--json"))
    for effect in told["advice"]["effects"]:
        if isinstance(effect["change"], dict) and "window" in effect["change"]:
            return effect["change"]["window"], effect["factor"], effect["interval"]
    return None, 1.0, [1.0, 1.0]


def measure(rig, forerun, rounds, trace):
    for name, words in cases(rig.mount):
        kib, factor, (low, high) = predicted(rig, words, forerun, trace)
        tried = 1024 if kib is None else kib
        pairs = [(timed(rig, words, 128), timed(rig, words, tried)) for _ in range(rounds)]
        before, after = (statistics.median(values) for values in zip(*pairs))
        real = before / after
        # Of one that is to be left alone, what counts is that nothing much was missed.
        within = real <= 1.1 if kib is None else 0.9 * low <= real <= 1.1 * high
        yield {
            "model": rig.model,
            "program": name,
            "advice": "leave 128" if kib is None else f"{kib} KiB",
            "predicted": "–" if kib is None else f"{factor:.2f}×",
            "interval": "–" if kib is None else f"{low:.2f} to {high:.2f}",
            "before": f"{before:.2f} s",
            "after": f"{after:.2f} s" + (" (1024)" if kib is None else ""),
            "measured": f"{real:.2f}×",
            "off": "–" if kib is None else f"{100 * (factor / real - 1):+.0f}%",
            "within 10%": "yes" if within else "no",
        }


def floor(image, work, binary, rounds):
    """What the rig itself costs: the same sequential reads with no model below."""
    rig = rig_of.Rig("none", image, work, binary)
    try:
        words = dict(cases(rig.mount))["sequential 64K"]
        pairs = [(timed(rig, words, 128), timed(rig, words, 1024)) for _ in range(rounds)]
    finally:
        rig.close()
    before, after = (statistics.median(values) for values in zip(*pairs))
    print(f"The rig with no model: sequential 64K takes {before:.2f} s with 128 and {after:.2f} s with 1024, {before / after:.2f}×")


def table(rows):
    names = list(rows[0])
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    left = ("model", "program", "advice")
    line = lambda row: "  ".join(row[name].ljust(widths[name]) if name in left else row[name].rjust(widths[name]) for name in names)
    return "\n".join([line({name: name for name in names})] + [line(row) for row in rows])


def main():
    parser = argparse.ArgumentParser(description="whether what forerun advise says comes true (root, Linux 6.12)")
    parser.add_argument("--models", default="wd-7200,gp3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=1500)
    parser.add_argument("--big", type=int, default=96, metavar="MIB")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/release", help="folder of forerun and forerun-rig")
    said = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench-advise: run as root: it mounts file systems and traces")
    print(f"load average at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-advise.", dir="/dev/shm") as folder:
        work = pathlib.Path(folder)
        for name in ("rig", "mount"):
            (work / name).mkdir()
        rig_of.make_image(work / "image", work / "mount", said.files, said.big)
        add_programs(work / "image", work / "mount")
        floor(work / "image", work, said.bin / "forerun-rig", said.rounds)
        for model in said.models.split(","):
            rig = rig_of.Rig(model, work / "image", work, said.bin / "forerun-rig")
            try:
                for row in measure(rig, said.bin / "forerun", said.rounds, work / "trace.parquet"):
                    rows.append(row)
                    print(f"bench-advise: {row}", file=sys.stderr, flush=True)
            finally:
                rig.close()
    print(table(rows))
    print(f"{sum(row['within 10%'] == 'yes' for row in rows)} of {len(rows)} within the interval, a tenth wider on either side; "
          "of what is to be left alone, with 1024 not above 1.1×")


main()
