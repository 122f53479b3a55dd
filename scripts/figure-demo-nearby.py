#!/usr/bin/env python3
"""How far the demo's table is chance: docs/figures/demo-nearby.txt.

Replays the demo's trace as `scripts/demo.sh` does (the release binary must be on PATH; `make docs-figures` sees to that), with other sizes
of both caches near those of the demo. A scheme that decides by what it measures meets other ties in each of them, so what it is worth is
the mean over all, and its range is how much a single table says. Virtual time; compared with `strip`, which measures nothing.
"""
import concurrent.futures
import json
import statistics
import subprocess

# MiB of the array's cache and of the page cache; the demo has the fourth.
CACHES = [(80, 16), (88, 16), (95, 16), (96, 16), (97, 16), (100, 16), (104, 16), (112, 16), (96, 12), (96, 14), (96, 20)]
DEMO = CACHES[3]
SCHEMES = ["none", "strip", "asp", "grain", "grain+early", "grain+recall", "grain+msp+recall", "auto"]
BESIDE = "strip"
MACHINE = ["--array", "raid5:5x128KiB", "--device", "cheetah-15k4", "--scheduler", "anticipatory", "--cpu", "xeon-2005", "--mode",
           "closed:4", "--no-bounds"]


def seconds(job):
    """What the trace takes under a scheme with these caches."""
    (array, host), scheme = job
    command = ["forerun", "--quiet", "compare", "traces/demo.parquet", *MACHINE, "--cache", f"{array}MiB", "--host-cache", f"{host}MiB",
               "--scheme", scheme, "--json"]
    runs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["runs"]
    return next(run["elapsed_ns"] for run in runs if run["scheme"] == scheme) / 1e9


def main():
    jobs = [(caches, scheme) for caches in CACHES for scheme in SCHEMES]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as both:
        took = dict(zip(jobs, both.map(seconds, jobs)))
    print(f"the demo with {len(CACHES)} pairs of caches near its own; speed beside {BESIDE}'s with the same caches: mean (geometric), range, and with the demo's own")
    for scheme in SCHEMES:
        speed = {caches: took[caches, BESIDE] / took[caches, scheme] for caches in CACHES}
        mean = statistics.geometric_mean(speed.values())
        print(f"{scheme:18}{mean:6.2f}   {min(speed.values()):.2f} to {max(speed.values()):.2f}   {speed[DEMO]:.2f}")


main()
