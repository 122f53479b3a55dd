#!/usr/bin/env python3
"""Cache-only LRU, ARC, S3-FIFO and SIEVE beside libCacheSim's Python wheel: equal miss counts, then speed.

Both sides run whole traces natively on one core, interleaved run by run; loading is left out on both sides.
libCacheSim reads oracleGeneral records from a warm, memory-mapped file in its own C loop. Forerun is timed twice:
`policy` on interned blocks in memory, and `records` from the same 24-byte records in memory, decoding and interning
included (the like-for-like figure). libCacheSim is run with its default hash table (2^24 buckets) and with
one of 2^20, and the faster median counts. Times are processor time of the one thread, on both sides.

    python3 -m venv VENV && VENV/bin/pip install libcachesim==0.3.5
    cargo build --release -p forerun-sim --example bench_retention
    VENV/bin/python benches/retention_vs_libcachesim.py TARGET/release/examples/bench_retention [-o OUT.json]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

RETENTIONS = ["lru", "arc", "s3fifo", "sieve"]
SYNTHETIC = {"references": 6_000_000, "seed": 1}
HASH_POWERS = [24, 20]


def policy_class(name):
    import libcachesim

    return {"lru": libcachesim.LRU, "arc": libcachesim.ARC, "s3fifo": libcachesim.S3FIFO, "sieve": libcachesim.Sieve}[name]


def theirs(path, name, blocks, hash_power, requests):
    """One run of libCacheSim: (misses, nanoseconds)."""
    import libcachesim

    params = libcachesim.ReaderInitParam(ignore_obj_size=True)
    reader = libcachesim.TraceReader(path, libcachesim.TraceType.ORACLE_GENERAL_TRACE, params)
    cache = policy_class(name)(blocks, hashpower=hash_power)
    start = time.thread_time_ns()
    ratio, _ = cache.process_trace(reader)
    return round(ratio * requests), time.thread_time_ns() - start


class Ours:
    """A bench_retention process that has loaded the trace and runs once for each line it is sent."""

    def __init__(self, binary, path, name, blocks):
        args = [binary, "run", path, str(blocks), name]
        self.process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit("bench_retention failed")


def spread(requests, samples):
    """Millions of references a second: median, least and most."""
    rates = sorted(requests / ns * 1e3 for ns in samples)
    return {"median": round(statistics.median(rates), 2), "min": round(rates[0], 2), "max": round(rates[-1], 2)}


def compare(binary, label, path, blocks, name, reps):
    requests = os.path.getsize(path) // 24
    ours = Ours(binary, path, name, blocks)
    policy, records, others = [], [], {power: [] for power in HASH_POWERS}
    misses = set()
    for rep in range(reps + 1):
        run = ours.run()
        counts = {run["misses"]}
        times = {}
        for power in HASH_POWERS:
            count, times[power] = theirs(path, name, blocks, power, requests)
            counts.add(count)
        misses |= counts
        if rep > 0:  # the first round warms both
            policy.append(run["runs_ns"])
            records.append(run["records_ns"])
            for power in HASH_POWERS:
                others[power].append(times[power])
    ours.stop()
    best = min(HASH_POWERS, key=lambda power: statistics.median(others[power]))
    row = {
        "trace": label,
        "retention": name,
        "cache_blocks": blocks,
        "requests": requests,
        "footprint": run["footprint"],
        "misses": sorted(misses),
        "equal_misses": len(misses) == 1,
        "policy_mref_per_s": spread(requests, policy),
        "records_mref_per_s": spread(requests, records),
        "libcachesim_mref_per_s": {str(power): spread(requests, others[power]) for power in HASH_POWERS},
        "libcachesim_best_hash_power": best,
    }
    their_median = statistics.median(others[best])
    row["speedup_policy"] = round(their_median / statistics.median(policy), 2)
    row["speedup_records"] = round(their_median / statistics.median(records), 2)
    return row


def traces(binary, shared, folder):
    """(label, oracleGeneral file, cache sizes): the seeded one always, real ones where they are present."""
    path = os.path.join(folder, "synthetic.bin")
    subprocess.run([binary, "synth", path, str(SYNTHETIC["references"]), str(SYNTHETIC["seed"])], check=True)
    yield "synthetic zipf+loops+scans", path, [20_000]
    for name in ("arc_P6", "arc_OLTP"):
        source = os.path.join(shared, "traces", "blockseq", name + ".csv.gz")
        if os.path.exists(source):
            path = os.path.join(folder, name + ".bin")
            subprocess.run([binary, "convert", source, path], check=True)
            yield name, path, [20_000 if name == "arc_P6" else 5_000]


def oracles(binary, shared, folder):
    """Prints libCacheSim's miss counts for each row of the oracle file."""
    import csv

    with open(os.path.join(shared, "oracles", "miss_counts.csv")) as rows:
        for row in csv.DictReader(rows):
            path = os.path.join(folder, row["trace"] + ".bin")
            source = os.path.join(shared, "traces", "blockseq", row["trace"] + ".csv.gz")
            subprocess.run([binary, "convert", source, path], check=True)
            size, requests = int(row["cache_blocks"]), os.path.getsize(path) // 24
            counts = {name: theirs(path, name, size, 18, requests)[0] for name in RETENTIONS}
            print(json.dumps({"trace": row["trace"], "cache_blocks": size, **counts}))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    shared = os.environ.get("FORERUN_SHARED", os.path.join(here, "..", "..", "shared"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the example bench_retention, built in release mode")
    parser.add_argument("-o", "--output", help="write the JSON here as well")
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--oracles", action="store_true", help="print libCacheSim's miss counts of the oracle rows")
    args = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core for both sides
    with tempfile.TemporaryDirectory() as folder:
        if args.oracles:
            return oracles(args.binary, shared, folder)
        runs = []
        for label, path, sizes in traces(args.binary, shared, folder):
            for name in RETENTIONS:
                for blocks in sizes:
                    runs.append(compare(args.binary, label, path, blocks, name, args.reps))
                    print(json.dumps(runs[-1]), file=sys.stderr)
    report = {"libcachesim": "0.3.5", "load_average": os.getloadavg(), "reps": args.reps, "runs": runs}
    text = json.dumps(report, indent=1)
    print(text)
    if args.output:
        with open(args.output, "w") as out:
            out.write(text + "\n")
    return 0 if all(run["equal_misses"] for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
