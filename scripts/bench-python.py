#!/usr/bin/env python3
"""Accesses a second of policies written in Python, beside none and a built-in one, in the simulator; and misses beside libCacheSim.

Needs the module (`make wheel`) and numpy; the part beside libCacheSim needs its wheel. Usage: scripts/bench-python.py [REQUESTS]
"""

import sys
import time

import forerun


class Trivial(forerun.Policy):
    """Wishes nothing."""

    def on_access(self, access):
        return None


class TrivialBatch(forerun.Policy):
    """The same, told of 4,096 accesses at once."""

    batch = 4096

    def on_batch(self, batch):
        return None


class Next(forerun.Policy):
    """Wishes for the next block of each."""

    def on_access(self, access):
        return ((access.first + 1, 1),)


def best(call, times=3):
    """Seconds of the fastest of some calls."""

    def once():
        began = time.perf_counter()
        call()
        return time.perf_counter() - began

    return min(once() for _ in range(times))


def policies(requests):
    """A random workload that fits in the cache after a while, so that the engine itself takes little."""
    workload = f"random:size=64MiB,requests={requests}"
    hardware = {"device": "nvme-pcie4", "array": "single", "host_cache": "256MiB", "cache": 0}
    none = best(lambda: forerun.sim(workload, "none", **hardware))
    rows = [("none", none)]
    for policy in ("linux-6", Trivial, TrivialBatch, Next):
        name = policy if isinstance(policy, str) else policy.__name__
        rows.append((name, best(lambda: forerun.sim(workload, policy, **hardware))))
    print(f"{'policy':14} {'accesses/s':>12} {'hooks alone':>12}")
    for name, seconds in rows:
        alone = requests / (seconds - none) if seconds > none * 1.02 else None
        print(f"{name:14} {requests / seconds:12,.0f} {f'{alone:,.0f}' if alone else '-':>12}")


def misses(requests):
    """Whole-trace replacement over one sequence of blocks."""
    import numpy

    blocks = numpy.random.default_rng(1).zipf(1.1, requests).astype("u8") % 100_000
    trace = forerun.Trace.from_arrays(blocks * 4096, numpy.full(requests, 4096, dtype="u8"))
    try:
        import libcachesim
    except ImportError:
        libcachesim = None
        print("libcachesim is not installed: ours alone")
    print(f"\n{'retention':10} {'ours, req/s':>12} {'misses':>10} {'theirs':>12} {'misses':>10}")
    for name, theirs in (("lru", "LRU"), ("arc", "ARC"), ("s3fifo", "S3FIFO"), ("sieve", "Sieve")):
        ours = best(lambda: forerun.mrc(trace, name, cache_blocks=10_000))
        missed = forerun.mrc(trace, name, cache_blocks=10_000)[0]["misses"]
        line = f"{name:10} {requests / ours:12,.0f} {missed:10,}"
        if libcachesim:
            request = libcachesim.Request()

            def replay():
                cache, count = getattr(libcachesim, theirs)(10_000), 0
                for block in blocks.tolist():
                    request.obj_id, request.obj_size = block, 1
                    count += not cache.get(request)
                return count

            began = time.perf_counter()
            count = replay()
            line += f" {requests / (time.perf_counter() - began):12,.0f} {count:10,}"
        print(line)


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    policies(asked)
    misses(asked)
