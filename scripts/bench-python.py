#!/usr/bin/env python3
"""Speed of the Python module: policies written in Python, and replacement over whole traces beside libCacheSim's wheel.

Usage: scripts/bench-python.py [policies|misses] [REQUESTS]; `make bench-python` makes the environment and calls it. Everything runs on
one core, and processor time counts. The misses of both sides must be equal, or nothing is printed.
"""

import os
import statistics
import sys
import tempfile
import time

import numpy

import forerun

REPEATS = 5
CACHE_BLOCKS = 10_000
# libCacheSim's table of 2^24 buckets is its default; with 2^20 it is quicker here, and the better of the two counts.
HASH_POWERS = (24, 20)
HARDWARE = {"device": "nvme-pcie4", "array": "single", "host_cache": "256MiB", "cache": 0}


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
    """Wishes for the block behind each access."""

    def on_access(self, access):
        return ((access.first + 1, 1),)


class NextBatch(forerun.Policy):
    """Wishes for the block behind each access that missed, as arrays."""

    batch = 4096

    def on_batch(self, batch):
        first = numpy.asarray(batch.first)
        ends = first[numpy.asarray(batch.missing) > 0] + 1
        return forerun.Wishes(ends, numpy.ones_like(ends))


def spent(call):
    """Processor time of a call, in all threads: seconds."""
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


def policies(requests):
    """A random workload that fits in the cache after a while, so that the engine itself takes little."""
    workload = f"random:size=64MiB,requests={requests}"
    everyone = ["none", "linux-6", Trivial, Next, TrivialBatch, NextBatch]
    took = {policy: [] for policy in everyone}
    for _ in range(REPEATS):
        for policy in everyone:
            took[policy].append(spent(lambda policy=policy: forerun.sim(workload, policy, progress=False, **HARDWARE))[0])
    none = statistics.median(took["none"])
    print(f"{requests:,} accesses of {workload.split(',')[0]}, on one core; the median of {REPEATS} runs")
    print(f"\n{'policy':34} {'whole run':>14} {'of it the policy':>18}")
    for policy in everyone:
        name = policy if isinstance(policy, str) else f"{policy.__name__}, {f'{policy.batch:,} at a time' if policy.batch else 'one by one'}"
        seconds = statistics.median(took[policy])
        alone = seconds - none
        told = f"{requests / alone / 1e6:6.2f} M/s" if policy != "none" and alone > 0.01 * none else "-"
        print(f"{name:34} {requests / seconds / 1e6:10.2f} M/s {told:>18}")


def replayed(libcachesim, name, path, blocks):
    """libCacheSim over a file, in its own loop: seconds and misses, with the hash table that suits it better."""
    ways = []
    for power in HASH_POWERS:
        reader = libcachesim.TraceReader(path, libcachesim.TraceType.ORACLE_GENERAL_TRACE, libcachesim.ReaderInitParam(ignore_obj_size=True))
        cache = getattr(libcachesim, name)(CACHE_BLOCKS, hashpower=power)
        seconds, (ratio, _) = spent(lambda cache=cache, reader=reader: cache.process_trace(reader))
        ways.append((seconds, round(ratio * len(blocks))))
    return min(ways)


def requested(libcachesim, name, blocks):
    """libCacheSim over an array, a request at a time: the way that it has for arrays."""
    cache, request = getattr(libcachesim, name)(CACHE_BLOCKS, hashpower=20), libcachesim.Request()
    request.obj_size = 1

    def replay():
        missed = 0
        for block in blocks.tolist():
            request.obj_id = block
            missed += not cache.get(request)
        return missed

    return spent(replay)


def misses(requests):
    """Whole-trace replacement over one sequence of blocks: on a numpy array, and on a file that both read."""
    try:
        import libcachesim
    except ImportError:
        sys.exit("bench-python: pip install libcachesim")
    draw = numpy.random.default_rng(1)
    # Popular blocks, and scans between them: so that the four differ.
    blocks = draw.zipf(1.1, requests).astype("u8") % 100_000
    scans = numpy.arange(requests, dtype="u8") % 30_000 + 200_000
    blocks = numpy.where(numpy.arange(requests) // 20_000 % 4 == 3, scans, blocks)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "blocks.oracleGeneral.bin")
        sizes = numpy.full(requests, 4096, dtype="u8")
        forerun.Trace.from_arrays(blocks * 4096, sizes, time=numpy.arange(requests, dtype="u8") * 1000).write(path, format="oracle-general")
        for ours, theirs in (("lru", "LRU"), ("arc", "ARC"), ("s3fifo", "S3FIFO"), ("sieve", "Sieve")):
            took = {"array": [], "file": [], "their file": []}
            counts = set()
            for _ in range(REPEATS):
                seconds, found = spent(lambda: forerun.mrc(forerun.Trace.from_arrays(blocks * 4096, sizes), ours, cache_blocks=CACHE_BLOCKS))
                took["array"].append(seconds)
                counts.add(found[0]["misses"])
                seconds, found = spent(lambda: forerun.mrc(path, ours, cache_blocks=CACHE_BLOCKS))
                took["file"].append(seconds)
                counts.add(found[0]["misses"])
                seconds, missed = replayed(libcachesim, theirs, path, blocks)
                took["their file"].append(seconds)
                counts.add(missed)
            seconds, missed = requested(libcachesim, theirs, blocks)
            counts.add(missed)
            if len(counts) != 1:
                sys.exit(f"bench-python: {ours}: misses differ: {sorted(counts)}")
            rows.append((ours, counts.pop(), *(statistics.median(took[way]) for way in ("array", "file", "their file")), seconds))
    print(f"{requests:,} requests for {len(numpy.unique(blocks)):,} blocks, a cache of {CACHE_BLOCKS:,}; M requests a second, on one core; the median of {REPEATS} runs")
    print(f"\n{'':9} {'misses':>11} {'':>3}{'numpy array':^27} {'oracleGeneral file':^27}")
    print(f"{'':9} {'of both':>11} {'':>3}{'forerun':>8} {'libCacheSim':>12} {'×':>5} {'forerun':>9} {'libCacheSim':>12} {'×':>5}")
    for name, missed, array, file, their_file, their_array in rows:
        rate = lambda seconds: f"{requests / seconds / 1e6:.2f}"  # noqa: E731
        print(
            f"{name:9} {missed:11,} {'':>3}{rate(array):>8} {rate(their_array):>12} {their_array / array:5.1f}"
            f" {rate(file):>9} {rate(their_file):>12} {their_file / file:5.1f}"
        )


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    what = sys.argv[1] if len(sys.argv) > 1 else "policies"
    print(f"load average at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    {"policies": policies, "misses": misses}[what](int(sys.argv[2]) if len(sys.argv) > 2 else 2_000_000)
