#!/usr/bin/env python3
"""Whether a program gains what `forerun advise` predicts of saying how single files are read: one program on an emulated device.

    scripts/bench-fadvise.py [--models intel-510,gp3] [--rounds 3] [--lookups 2000] [--big 256] [--bin DIR]

As root, on Linux 6.12 or later, on a device as scripts/bench_rig.py makes it, with the timing of a preset and read_ahead_kb 128. The program looks up
pieces of 128 KiB in two indexes at random, each in two reads, and goes through its data in order beside that. It is recorded once, as it is; `advise` says what
the calls would give, by file and for all files; then the program runs as it is and with each of them in turns, every time from cold.
Medians are printed. What advise is told of the device is the preset.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import bench_rig
from bench_rig import FIRST, run

# Folder, lookups, and what is said of which names by their endings.
PROGRAM = """import os,random,sys
folder,count,said=sys.argv[1],int(sys.argv[2]),dict(word.split('=') for word in sys.argv[3:])
def opened(name):
    fd=os.open(f'{folder}/{name}',os.O_RDONLY)
    advice=said.get(name.rsplit('.')[1],said.get('all'))
    if advice: os.posix_fadvise(fd,0,0,getattr(os,advice))
    return fd
keys,names,data=opened('keys.idx'),opened('names.idx'),opened('data.bin')
random.seed(5)
size,at=os.fstat(keys).st_size,0
for n in range(count):
    index=keys if n%3 else names
    place=random.randrange(size>>18)<<18
    for part in range(2): os.pread(index,64<<10,place+(part<<16))
    for _ in range(6):
        os.pread(data,16<<10,at); at+=16<<10
"""


def make_image(work, said):
    image, mount = work / "image", work / "mount"
    bench_rig.format_image(image, 4 * said.big + 128)
    with bench_rig.mounted(image, mount):
        for seed, name in enumerate(("keys.idx", "names.idx", "data.bin")):
            bench_rig.fill(mount / name, said.big, seed)
        (mount / "program.py").write_text(PROGRAM)


def words(rig, said, *advice):
    return [sys.executable, "-S", f"{rig.mount}/program.py", str(rig.mount), str(said.lookups), *advice]


def timed(rig, command):
    rig.cold()
    start = time.monotonic()
    subprocess.run(FIRST + command, check=True)
    return time.monotonic() - start


def predicted(rig, said, work):
    """What advise says: of saying it by file, with the endings and calls; and of the same for all."""
    trace = work / "trace.parquet"
    rig.cold()
    run(*FIRST, str(said.bin / "forerun"), "--quiet", "trace", "record", "--files", "--dir", str(rig.mount), "-o", str(trace), "--",
        *words(rig, said))
    told = json.loads(run(str(said.bin / "forerun"), "--quiet", "advise", str(trace), "--device", rig.model, "--json"))
    for effect in told["advice"]["effects"]:
        change = effect["change"]
        if isinstance(change, dict) and "advise-files" in change:
            rules = {rule["files"].rsplit(".")[-1]: rule["call"] for rule in change["advise-files"]}
            yield effect, [f"{end}={call}" for end, call in rules.items()]
        elif change == "advise-random":
            yield effect, ["all=POSIX_FADV_RANDOM"]
        elif change == "advise-sequential":
            yield effect, ["all=POSIX_FADV_SEQUENTIAL"]


def measure(rig, said, work):
    found = list(predicted(rig, said, work))
    times = {"": []} | {effect["name"]: [] for effect, _ in found}
    for _ in range(said.rounds):
        times[""].append(timed(rig, words(rig, said)))
        for effect, advice in found:
            times[effect["name"]].append(timed(rig, words(rig, said, *advice)))
    before = statistics.median(times[""])
    for effect, _ in found:
        after = statistics.median(times[effect["name"]])
        low, high = effect["interval"]
        yield {
            "model": rig.model,
            "advice": effect["name"],
            "predicted": f"{effect['factor']:.2f}×",
            "interval": f"{low:.2f} to {high:.2f}",
            "before": f"{before:.2f} s",
            "after": f"{after:.2f} s",
            "measured": f"{before / after:.2f}×",
            "true": "yes" if low <= before / after <= high else "no",
        }


def main():
    said = bench_rig.options("whether a program gains what advise predicts of single files (root, Linux 6.12)", models="intel-510,gp3", rounds=3,
                             lookups=(2000, "pieces that are looked up"), big=(256, "MiB of each file"))
    said.way = said.way or -1
    print(f"load average at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with bench_rig.work_folder("bench-fadvise") as work:
        make_image(work, said)
        print(bench_rig.table(bench_rig.on_rigs(said.models.split(","), work, said, lambda rig: measure(rig, said, work))))


main()
