#!/usr/bin/env python3
"""How wrong `auto` is about what readers would have waited without prefetching: docs/figures/auto-without.txt.

Runs `forerun compare` (the release binary must be on PATH; `make docs-figures` sees to that) of `none` and `auto` over one device with a cache
of 64 MiB. In virtual time `none` can be run too, so what `auto` says beside its own run (`auto_wait_without_ns`) is held against it. *known as
a guess* is whether the report says so by itself: what its shadows foretold of its own run was more than a quarter off.
"""
import concurrent.futures
import json
import subprocess

INPUTS = {
    "random, 1": "random:processes=1,size=1GiB,requests=6000",
    "random, 8": "random:processes=8,size=1GiB,requests=12000",
    "zipf, 8": "zipf:processes=8,size=256MiB,requests=40000,theta=0.8",
    "forward, 1": "forward:processes=1,size=256MiB,block=16KiB",
    "forward, 4": "forward:processes=4,size=64MiB,block=4KiB",
    "stride 3, 1": "stride:processes=1,size=256MiB,block=4KiB,stride=3",
    "reverse, 2": "reverse:processes=2,size=64MiB,block=8KiB",
    "tpch-index": "traces/tpch-index.parquet",
    "gcc": "traces/gcc.parquet",
}
DEVICES = ["wd-7200", "intel-510", "nvme", "gp3"]


def cell(pair):
    name, device = pair
    command = ["forerun", "--quiet", "compare", INPUTS[name], "--no-bounds", "--array", "single", "--device", device, "--cache", "64MiB",
               "--scheme", "none", "--scheme", "auto", "--json"]
    none, auto = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["runs"]
    gauges = dict(auto["layers"][-1]["gauges"])
    real, foretold = gauges["auto_wait_ns"], gauges["auto_wait_foretold_ns"]
    return none["blame"]["reads_ns"] / 1e9, gauges["auto_wait_without_ns"] / 1e9, real / 1e9, max(real, foretold) / max(1, min(real, foretold)) > 1.25


def main():
    pairs = [(name, device) for name in INPUTS for device in DEVICES]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as both:
        found = dict(zip(pairs, both.map(cell, pairs)))
    print("What readers wait for reads under none, what auto says that they would have, and what they wait under auto; seconds")
    print()
    print(f"{'reads':12}  {'device':9}  {'none':>8}  {'auto says':>9}  {'of it':>6}  {'auto':>8}  known as a guess")
    for (name, device), (none, said, real, guess) in found.items():
        print(f"{name:12}  {device:9}  {none:8.2f}  {said:9.2f}  {100 * said / none:5.0f}%  {real:8.2f}  {'yes' if guess else 'no'}")
    within = sum(0.5 <= said / none <= 2 for none, said, *_ in found.values())
    sure = [pair for pair, (none, said, _, guess) in found.items() if not guess]
    wrong = [pair for pair in sure if not 0.5 <= found[pair][1] / found[pair][0] <= 2]
    print()
    print(f"within a factor of two: {within} of {len(found)}; of the {len(sure)} that are not said to be a guess, {len(sure) - len(wrong)}")


if __name__ == "__main__":
    main()
