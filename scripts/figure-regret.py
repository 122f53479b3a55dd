#!/usr/bin/env python3
"""What `auto` costs where the load changes every ten seconds: docs/figures/auto-regret.txt.

Runs `forerun compare` (the release binary must be on PATH; `make docs-figures` sees to that) on three kinds of readers in turn, each for
about ten seconds and twice, and on each alone. The regret of a scheme is what it takes longer for all of it than twice the shortest
times of the parts; virtual time, ten seeds (five until the tables of November 2026: changed after results). Fixed schemes with `stride`
are among them since `auto` has it among its candidates (changed after results: they make the shortest times shorter).
"""
import json
import statistics
import subprocess

PARTS = [
    "forward:processes=2,size=512MiB,block=16KiB",
    "random:processes=4,size=4GiB,requests=2200",
    "reverse:processes=4,size=224MiB,block=8KiB",
]
FIXED = ["none", "strip", "grain", "linux-6", "regions(linux-6)", "stride+regions(linux-6)", "grain+linux-6", "grain+stride+regions(linux-6)"]
SEEDS = range(1, 11)
MACHINE = ["--no-bounds", "--array", "single", "--device", "wd-7200", "--scheduler", "none", "--cpu", "xeon-2005", "--cache", "64MiB",
           "--host-cache", "64MiB"]


def seconds(load, seed):
    """By scheme, what the load takes under it."""
    named = [word for scheme in [*FIXED, "auto"] for word in ("--scheme", scheme)]
    command = ["forerun", "--quiet", "compare", load, *MACHINE, *named, "--seed", str(seed), "--json"]
    runs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["runs"]
    return {run["scheme"]: run["elapsed_ns"] / 1e9 for run in runs}


def main():
    whole, shortest = {}, []
    for seed in SEEDS:
        parts = [seconds(part, seed) for part in PARTS]
        # Each part under what is fastest for it, which is what a choice that knew would take.
        shortest.append(2 * sum(min(part[scheme] for scheme in FIXED) for part in parts))
        for scheme, took in seconds(" then ".join(PARTS * 2), seed).items():
            whole.setdefault(scheme, []).append(took)
    middle = statistics.median(shortest)
    print(f"three loads in turn, each of about ten seconds, twice; seconds of virtual time, median of {len(SEEDS)} seeds and range")
    print(f"{'each load under its fastest':31}{middle:8.1f}  {min(shortest):.1f} to {max(shortest):.1f}")
    for scheme in sorted(whole, key=lambda scheme: statistics.median(whole[scheme])):
        took = whole[scheme]
        regret = statistics.median(a / b - 1 for a, b in zip(took, shortest))
        print(f"{scheme:31}{statistics.median(took):8.1f}  {min(took):.1f} to {max(took):.1f}, regret {regret:.0%}")


main()
