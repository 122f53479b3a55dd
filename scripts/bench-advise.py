#!/usr/bin/env python3
"""Whether what `forerun advise` says of read_ahead_kb comes true: programs on emulated devices and on this machine's disk, before and after.

    scripts/bench-advise.py [--models wd-7200,gp3,own] [--starts 0,128,8192] [--rounds 3] [--files 1500] [--big 96] [--own 8] [--bin DIR]

As root, on Linux 6.12 or later. On devices as scripts/bench_rig.py makes them, with the timing of presets, and on an image on this
machine's own disk (`own`), every run from cold. On that one everything is `--own` times as large: else a run there is over in a few
hundredths of a second, of which starting a program is the larger part. The device begins with each of the `starts` as its read_ahead_kb. Each program is recorded
once, `advise` says what another value would give there, and then the program runs with the first value and with that one in turns.
What advise is told of the device is what `forerun device measure` writes: of `own` it is measured, of the others it is the preset, since the
rig has its timing (without the way to it and back, which is measured first and taken off). Where it says to leave the value, 1024 is tried all the same, or 128 where 1024 is near. Medians are printed. What
is timed goes before other programs of the machine; the kernel's workers under the loop device do not, so the load average stands
at the head.
"""
import json
import os
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import time

import bench_rig
from bench_rig import FIRST, ROOT, run

# Rows of the database where nothing is said of how many.
ROWS = 90000
# A change that gives more than this and was not advised has been missed.
MISSED = 1.15

LOOKUPS = ("import sqlite3,sys\nc=sqlite3.connect(f'file:{sys.argv[1]}?mode=ro&immutable=1',uri=True)\n"
           "for k in range(int(sys.argv[2])//225): c.execute('select v from t where k=?',(k*7919%int(sys.argv[2]),)).fetchone()\n")
SCAN = ("import sqlite3,sys\nc=sqlite3.connect(f'file:{sys.argv[1]}?mode=ro&immutable=1',uri=True)\n"
        "print(c.execute('select sum(length(v)) from t').fetchone())\n")
MAPPED = ("import mmap,sys\nf=open(sys.argv[1],'rb')\nm=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)\n"
          "print(sum(m[at] for at in range(0,len(m),4096)))\n")


def make_image(work, said, times=1, own=False):
    """A repository, a large file, a database in order of another key than the one that is asked for, and the programs."""
    image, mount, rows = work / "image", work / "mount", ROWS * times
    bench_rig.format_image(image, 3 << 10, solid=own)
    with bench_rig.mounted(image, mount):
        bench_rig.make_repository(mount / "tree", said.files * times)
        bench_rig.fill(mount / "big", said.big * times)
        base = sqlite3.connect(mount / "app.db")
        base.execute("create table t(k integer, v text)")
        chance = random.Random(11)
        keys = list(range(rows))
        chance.shuffle(keys)
        base.executemany("insert into t values(?,?)", ((key, "%0600d" % key) for key in keys))
        base.execute("create index i on t(k)")
        base.commit()
        base.close()
        programs = {"lookups": LOOKUPS, "scan": SCAN, "mapped": MAPPED, "stride": bench_rig.STRIDE, "read": bench_rig.READ}
        for name, text in programs.items():
            (mount / f"{name}.py").write_text(text)


def cases(mount, times=1):
    # The rig's machine runs the interpreter from its own disk; what is read cold is the data.
    python = [sys.executable, "-S"]
    return [
        ("sqlite lookups", python + [f"{mount}/lookups.py", f"{mount}/app.db", str(ROWS * times)]),
        ("sqlite scan", python + [f"{mount}/scan.py", f"{mount}/app.db"]),
        ("grep -r", ["grep", "-rc", "qua", f"{mount}/tree"]),
        ("git status", ["git", "-c", "safe.directory=*", "-C", f"{mount}/tree", "status", "--short"]),
        ("tar", ["sh", "-c", f"tar -cf - -C {mount} tree | cat > /dev/null"]),
        ("mapped, in order", python + [f"{mount}/mapped.py", f"{mount}/big"]),
        ("stride 16K/256K", python + [f"{mount}/stride.py", f"{mount}/big"]),
        ("sequential 64K", python + [f"{mount}/read.py", f"{mount}/big"]),
    ]


def timed(rig, words, kib):
    rig.set_window(kib)
    rig.cold()
    start = time.monotonic()
    done = subprocess.run(FIRST + words, capture_output=True)
    if done.returncode not in (0, 1):
        sys.exit(f"bench-advise: {words}: {done.stderr.decode()}")
    return time.monotonic() - start


def described(rig, forerun, work):
    """The file that `device measure` writes of the device, or would: the settings that the device has here then count."""
    path = work / f"{rig.model}.toml"
    if rig.model == "own":
        run(*FIRST, str(forerun), "--quiet", "device", "measure", rig.loop, "--time", "15", "-o", str(path))
        return path
    text = (ROOT / f"crates/disk/presets/{rig.model}.toml").read_text()
    text = re.sub(r'(?m)^about = .*$', f'about = "{rig.loop}, measured: the rig with the timing of {rig.model}"', text, count=1)
    path.write_text(re.sub(r'(?ms)^sources = \[.*?\]$', 'sources = ["forerun device measure, as the rig would show"]', text, count=1))
    return path


def predicted(rig, words, forerun, work, start):
    """What advise says of another read_ahead_kb: value, factor, interval; no value means to leave it."""
    trace = work / "trace.parquet"
    rig.set_window(start)
    rig.cold()
    subprocess.run(FIRST + [str(forerun), "--quiet", "trace", "record", "--files", "--dir", str(rig.mount), "-o", str(trace), "--"] + words,
                   capture_output=True)
    told = json.loads(run(str(forerun), "--quiet", "advise", str(trace), "--device", str(rig.preset), "--json"))
    assert f"read_ahead_kb {start})" in told["advice"]["effects"][0]["name"], told["advice"]["effects"][0]
    for effect in told["advice"]["effects"]:
        if isinstance(effect["change"], dict) and "window" in effect["change"]:
            return effect["change"]["window"], effect["factor"], effect["interval"]
    return None, 1.0, [1.0, 1.0]


def measure(rig, forerun, said, work, times=1):
    rig.preset = described(rig, forerun, work)
    for start in map(int, said.starts.split(",")):
        for name, words in cases(rig.mount, times):
            kib, factor, (low, high) = predicted(rig, words, forerun, work, start)
            tried = kib if kib is not None else (128 if start >= 512 else 1024)
            pairs = [(timed(rig, words, start), timed(rig, words, tried)) for _ in range(said.rounds)]
            before, after = (statistics.median(values) for values in zip(*pairs))
            real = before / after
            # Of one that is to be left alone, what counts is that nothing much was missed.
            within = real <= MISSED if kib is None else low <= real <= high
            yield {
                "model": rig.model,
                "program": name,
                "advice": f"leave {start}" if kib is None else f"{start} to {kib}",
                "predicted": "–" if kib is None else f"{factor:.2f}×",
                "interval": "–" if kib is None else f"{low:.2f} to {high:.2f}",
                "before": f"{before:.2f} s",
                "after": f"{after:.2f} s" + (f" ({tried})" if kib is None else ""),
                "measured": f"{real:.2f}×",
                "off": "–" if kib is None else f"{100 * (factor / real - 1):+.0f}%",
                "true": "yes" if within else "no",
            }


def floor(image, work, said):
    """What the rig itself costs: the same sequential reads with no model below."""
    rig = bench_rig.Rig("none", image, work, said.bin / "forerun-rig")
    try:
        words = dict(cases(rig.mount))["sequential 64K"]
        pairs = [(timed(rig, words, 128), timed(rig, words, 1024)) for _ in range(said.rounds)]
    finally:
        rig.close()
    before, after = (statistics.median(values) for values in zip(*pairs))
    print(f"The rig with no model: sequential 64K takes {before:.2f} s with 128 and {after:.2f} s with 1024, {before / after:.2f}×")


def summary(rows):
    true = sum(row["true"] == "yes" for row in rows)
    off = sorted(abs(int(row["off"].rstrip("%"))) for row in rows if row["off"] != "–")
    text = f"{true} of {len(rows)} came true: within the interval, or, of what is to be left alone, not above {MISSED}×"
    if off:
        text += f"\n{len(off)} changes predicted, {statistics.median(off):.0f}% off in the median"
    return text


def main():
    said = bench_rig.options("whether what forerun advise says comes true (root, Linux 6.12)", models="wd-7200,gp3,own",
                             starts=("0,128,8192", "read_ahead_kb that devices begin with"), rounds=3, files=1500,
                             big=(96, "MiB of the large file"),
                             own=(8, "how many times as much there is on this machine's own disk"))
    # What is predicted is the model's device, without the way to it.
    said.way = said.way or -1
    print(f"load average at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    each = lambda rig, times=1: measure(rig, said.bin / "forerun", said, rig.work, times)
    emulated = [model for model in said.models.split(",") if model != "own"]
    rows = []
    if emulated:
        with bench_rig.work_folder("bench-advise") as work:
            make_image(work, said)
            floor(work / "image", work, said)
            rows += bench_rig.on_rigs(emulated, work, said, each)
            print(f"The way to the rig and back takes {said.way / 1000:.0f} µs, by which its answers leave earlier")
    if "own" in said.models.split(","):
        with bench_rig.work_folder("bench-advise", ROOT) as work:
            make_image(work, said, said.own, own=True)
            rows += bench_rig.on_rigs(["own"], work, said, lambda rig: each(rig, said.own))
    print(bench_rig.table(rows))
    print(summary(rows))


main()
