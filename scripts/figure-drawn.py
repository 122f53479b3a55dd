#!/usr/bin/env python3
"""What `auto` is on cells that nobody chose: docs/figures/auto-drawn.txt.

Runs `forerun compare` (the release binary must be on PATH; `make docs-figures` sees to that) on cells drawn by chance: kind of load and its
parameters, what runs beside or behind it, array and strip, any device of the list, both caches, scheduler, how writes go, and mode. The matrix
has caches of three sizes and six devices; here are others. With another `--draw` they are other cells, which nobody has looked at either.

    scripts/figure-drawn.py [--cells 200] [--draw 1]

Shown are geometric means of the speed over none, of all and of runs of a minute or more, how many are slower than none by more than 2%, and the
command of each cell of a minute or more in which `auto` is below 0.9 × the better of none and the best of the fixed schemes.
"""
import argparse
import concurrent.futures
import functools
import json
import random
import shlex
import statistics
import subprocess

FIXED = ["none", "strip", "linux-6", "asp+msp+linux-6", "grain", "grain+msp+early+regions(linux-6)+recall"]
MINUTE = 60_000_000_000
BLOCKS = [4, 4, 8, 16, 64]
ARRAYS = ["single", "single", "raid0:{n}x{strip}KiB", "raid5:{n}x{strip}KiB", "raid6:{m}x{strip}KiB", "raid1:2"]
STANDINS = ["standin-dbench:clients=8,sessions=60", "standin-boot:runs=2000,size=200MB", "standin-cscope:files=3000", "standin-glimpse:files=2000",
            "standin-link:files=3000,objects=150", "standin-postmark:files=2000,transactions=5000"]
# Requests of one part, about: some seconds for all schemes.
REQUESTS = 12_000


def part(draw, think):
    """One load, and the MiB that it touches."""
    kind = draw.choice(["forward", "forward", "reverse", "stride", "random", "zipf", "streams", "files", "standin"])
    block, processes = draw.choice(BLOCKS), draw.choice([1, 2, 4, 8, 16])
    paced = f",think={think}" if think else ""
    writes = draw.choice(["", "", "", ",writes=10%", ",writes=30%"])
    size = min(512, max(32, REQUESTS * block // 1024))
    if kind == "standin":
        return draw.choice(STANDINS), 64
    if kind == "files":
        files = draw.choice([1000, 3000])
        return f"files:files={files},median={draw.choice([8, 16, 32])}KiB,processes={draw.choice([1, 2, 4])}{paced}", 64
    if kind == "streams":
        streams = draw.choice([5, 20, 60])
        return f"streams:streams={streams},title=16MiB,length=4MiB,block=64KiB" + (",rate=500KiB,buffer=2s" if think else ""), streams * 4
    shape = f"{kind}:processes={processes},size={size}MiB,block={block}KiB"
    if kind in ("random", "zipf"):
        shape += f",requests={REQUESTS}" + (f",theta={draw.choice([0.6, 0.9, 1.1])}" if kind == "zipf" else "")
    if kind == "stride":
        shape += f",stride={draw.choice([2, 3, 7, 33])}"
    return shape + paced + writes, size


def cell(number, seed):
    """The words behind `forerun compare` but the schemes."""
    draw = random.Random(f"{seed} {number}")
    mode = draw.choice(["closed:1", "closed:1", "closed:8", "paced"])
    think = draw.choice(["200us", "2ms"]) if mode == "paced" else ""
    load, touched = part(draw, think)
    more = draw.random()
    if more < 0.5:
        other, its = part(draw, think)
        load, touched = load + (" and " if more < 0.3 else " then ") + other, touched + its
    array = draw.choice(ARRAYS).format(n=draw.choice([3, 5, 8]), m=draw.choice([4, 6]), strip=draw.choice([32, 128, 512]))
    cache = lambda: f"{round(4 * (touched / 8) ** draw.random())}MiB"
    words = [load, "--mode", mode, "--array", array, "--device", draw.choice(devices()), "--cache", cache()]
    words += ["--host-cache", cache()] if draw.random() < 0.75 else []
    words += ["--scheduler", draw.choice(["none", "clook", "anticipatory"])] if draw.random() < 0.5 else []
    words += ["--write", "through"] if draw.random() < 0.3 else []
    return words + ["--seed", str(draw.choice([1, 2, 3]))]


@functools.cache
def devices():
    """All presets."""
    listed = subprocess.run(["forerun", "device", "list", "--json"], check=True, capture_output=True, text=True).stdout
    return sorted(device["name"] for device in json.loads(listed)["devices"])


def times(words):
    """By scheme, what it took, ns; none where the cell cannot be."""
    named = [word for scheme in [*FIXED, "auto"] for word in ("--scheme", scheme)]
    done = subprocess.run(["forerun", "--quiet", "compare", *words, "--no-bounds", "--threads", "1", *named, "--json"], capture_output=True, text=True)
    return {run["scheme"]: run["elapsed_ns"] for run in json.loads(done.stdout)["runs"]} if done.returncode == 0 else None


def row(name, all_of_them, long):
    """Means and those below, of all cells and of long ones."""
    text = f"{name:41}"
    for group in (all_of_them, long):
        speeds = [took["none"] / took[name] for took in group]
        below = sum(speed < 0.98 for speed in speeds)
        text += f"{statistics.geometric_mean(speeds):12.3f}{below:11} of {len(group)}"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=200, help="how many [200]")
    parser.add_argument("--draw", type=int, default=1, help="of which draw [1]")
    args = parser.parse_args()
    cells = [cell(number, args.draw) for number in range(args.cells)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as both:
        found = [(took, words) for took, words in zip(both.map(times, cells), cells) if took and min(took.values()) > 0]
    long = [took for took, _ in found if took["none"] >= MINUTE]
    print(f"{args.cells} cells drawn by chance (draw {args.draw}), of which {args.cells - len(found)} cannot be run; {len(long)} take none a minute or more")
    print()
    print(f"{'speed over none: mean, below 0.98':41}{'all':>12}{'':18}{'a minute':>10}")
    for name in [*FIXED[1:], "auto"]:
        print(row(name, [took for took, _ in found], long))
    shares = lambda group: statistics.geometric_mean(min(took[name] for name in FIXED) / took["auto"] for took in group)
    print(f"auto beside the best of the fixed of each cell: {shares([took for took, _ in found]):.3f}, of a minute {shares(long):.3f}")
    print()
    print("a minute or more, and auto below 0.9 of the best fixed:")
    behind = [(min(took[name] for name in FIXED) / took["auto"], took, words) for took, words in found if took["none"] >= MINUTE]
    for share, took, words in sorted(behind, key=lambda one: one[0]):
        if share < 0.9:
            best = min(FIXED, key=lambda name: took[name])
            print(f"  {share:.2f}  {took['none'] / took['auto']:.2f} × none, {best} {took['none'] / took[best]:.2f}: compare {shlex.join(words)}")


main()
