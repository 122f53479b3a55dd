#!/usr/bin/env python3
"""What `auto` is where two kinds of readers share an array: docs/figures/auto-mixes.txt.

Runs `forerun compare` (the release binary must be on PATH; `make docs-figures` sees to that) on every pair of six kinds of readers, each
with data of its own, on four arrays. A scheme that suits one of a pair may not suit the other, so this is where a choice for each kind of
readers would pay, if it does. Virtual time; `auto` is held against the best of the fixed schemes in each cell by itself, which nobody
knows beforehand, and against the one fixed scheme that is the best over all. The one with `stride` is there since `auto` has that among its
candidates (changed after results: it is the best).
"""
import concurrent.futures
import itertools
import json
import statistics
import subprocess

KINDS = {
    "scan": "forward:processes=1,size=512MiB,block=64KiB",
    "four scans": "forward:processes=4,size=256MiB,block=16KiB",
    "random": "random:processes=2,size=1GiB,requests=1500,block=4KiB",
    "zipf": "zipf:processes=4,size=128MiB,requests=12000,theta=0.8,block=4KiB",
    "reverse": "reverse:processes=1,size=48MiB,block=16KiB",
    "stride": "stride:processes=1,size=64MiB,block=16KiB,stride=3",
}
ARRAYS = [("single", "wd-7200"), ("raid5:5x128KiB", "cheetah-15k4"), ("raid0:4x128KiB", "nvme"), ("single", "gp3")]
FIXED = ["none", "strip", "linux-6", "regions(linux-6)", "cadence", "asp+msp+linux-6", "grain", "grain+msp+linux-6", "grain+msp+recall",
         "grain+msp+stride+regions(linux-6)", "grain+msp+early+stride+regions(linux-6)"]
CACHES = ["--cache", "64MiB", "--host-cache", "64MiB"]


def speeds(cell):
    """By scheme, the speed over that of none."""
    pair, (array, device) = cell
    named = [word for scheme in [*FIXED, "auto"] for word in ("--scheme", scheme)]
    command = ["forerun", "--quiet", "compare", " and ".join(KINDS[kind] for kind in pair), "--no-bounds", "--array", array, "--device", device,
               *CACHES, *named, "--json"]
    took = {run["scheme"]: run["elapsed_ns"] for run in json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["runs"]}
    return {scheme: took["none"] / took[scheme] for scheme in took}


def main():
    pairs = list(itertools.combinations(KINDS, 2))
    cells = [(pair, array) for array in ARRAYS for pair in pairs]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as both:
        found = dict(zip(cells, both.map(speeds, cells)))
    mean = lambda numbers: statistics.geometric_mean(list(numbers))
    print(f"{len(FIXED)} fixed schemes and auto; two kinds of readers on one array, {len(pairs)} pairs on each of {len(ARRAYS)} arrays; speed over none, by elapsed time: geometric mean")
    print()
    print(f"{'':41}" + "".join(f"{device:>14}" for _, device in ARRAYS) + f"{'all':>9}")
    for scheme in [*FIXED, "auto"]:
        by_array = [mean(found[pair, array][scheme] for pair in pairs) for array in ARRAYS]
        print(f"{scheme:41}" + "".join(f"{speed:14.2f}" for speed in by_array) + f"{mean(found[cell][scheme] for cell in cells):9.2f}")
    best = {cell: max(found[cell][scheme] for scheme in FIXED) for cell in cells}
    by_array = [mean(best[pair, array] for pair in pairs) for array in ARRAYS]
    print(f"{'best of each cell':41}" + "".join(f"{speed:14.2f}" for speed in by_array) + f"{mean(best.values()):9.2f}")
    print()
    print("auto beside the best fixed scheme of each cell, where it is below 0.95 of it:")
    behind = sorted((found[cell]["auto"] / best[cell], cell) for cell in cells)
    for share, (pair, (array, device)) in behind:
        if share < 0.95:
            name = max(FIXED, key=lambda scheme: found[pair, (array, device)][scheme])
            print(f"  {' and '.join(pair):24}{f'{array} of {device}':32} {share:.2f}   {found[pair, (array, device)]['auto']:.2f} for {best[pair, (array, device)]:.2f} of {name}")
    print(f"{sum(share < 0.95 for share, _ in behind)} of {len(cells)} are; {sum(share > 1.05 for share, _ in behind)} are above 1.05")


main()
