#!/usr/bin/env python3
"""Runs schemes over the matrix: inputs, arrays, devices, shares of memory, replay modes, cold and warm.

A *cell* is one input on one array of one device, with one cache size, one mode and one state. Both caches (the page cache and the
array's) hold `share` of what the input touches. `cold` is the first pass over the input; `warm` is a second pass behind it, its
time that of both passes less that of the first. A scheme's number in a cell is its speed over that of `none`: elapsed time where
programs wait for answers (closed, paced), mean response time where they do not (open).

Results are kept in `--out`, one line for each cell and scheme, so that a run that was broken off goes on, and a run with other
schemes only runs those. They are of one binary: another one runs everything again, unless `--keep` says that the old numbers
still hold; `--again SCHEME` runs that one anew all the same.

    scripts/matrix.py --quick                      a few minutes on one core
    scripts/matrix.py --device nvme --input zipf   part of it
    scripts/matrix.py --sample 5%                  some cells, the same ones each time
    scripts/matrix.py --sample 5% --sample-from 50%   as many others: samples whose shares do not meet have no cell in common
    scripts/matrix.py --without dlio_hdf5_8proc    not this input: what is left out is said above the table
    scripts/matrix.py --sample 2% --causes         and say why auto is below a bar where it is, by ablations
    scripts/matrix.py --write                      and write docs/figures/matrix-all.{txt,csv}
    scripts/matrix.py --cells development          a fixed set of cells, each shown, on which changes are judged
    scripts/matrix.py --cells held-out             and others of other parameters, seeds and hardware: looked at when a change is done
"""
import argparse
import collections
import concurrent.futures
import csv
import hashlib
import json
import math
import os
import pathlib
import subprocess
import sys
import threading
import time

import matrix_causes
import matrix_cells

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The shapes that the issue of choosing names, each small enough for a run of about a second and large beside every cache.
WORKLOADS = {
    "forward-1": "forward:processes=1,size=256MiB,block=16KiB",
    "forward-4": "forward:processes=4,size=256MiB,block=4KiB",
    "forward-16": "forward:processes=16,size=256MiB,block=8KiB",
    "reverse": "reverse:processes=2,size=128MiB,block=8KiB",
    "stride-3": "stride:processes=4,size=128MiB,block=4KiB,stride=3",
    "stride-wide": "stride:processes=2,size=128MiB,block=4KiB,stride=96",
    "zipf": "zipf:processes=8,size=256MiB,requests=60000,theta=0.8,block=4KiB",
    "random": "random:processes=4,size=512MiB,requests=30000,block=4KiB",
    "random-16k": "random:processes=4,size=512MiB,requests=15000,block=16KiB",
    "dbench": "standin-dbench:clients=16,sessions=100",
    "tpch-q4": "standin-tpch:query=q4",
    "boot": "standin-boot:runs=1500,size=1GB",
    "link": "standin-link:files=3000,objects=150,passes=2",
    "tree": "files:files=6000,processes=2",
    "cscope": "standin-cscope:files=4000",
    "media": "streams:streams=50,length=4MiB,title=8MiB,block=64KiB",
    "media-paced": "streams:streams=60,length=2MiB,title=4MiB,block=64KiB,rate=2MB,buffer=1s",
    "mixed": "forward:processes=2,size=64MiB,block=16KiB and random:processes=2,size=256MiB,requests=6000,block=4KiB",
    "writes": "zipf:processes=4,size=128MiB,requests=20000,block=4KiB,writes=30%",
}
# Of each trace so many requests at most, from its beginning.
REQUESTS_MAX = 30_000
ARRAYS = ["raid5:5x128KiB", "raid0:4x128KiB", "single"]
MECHANICAL = ["cheetah-15k4", "wd-7200", "hdd-20tb"]
DEVICES = [*MECHANICAL, "intel-510", "nvme", "gp3"]
SHARES = ["1/16", "1/8", "1/2"]
STATES = ["cold", "warm"]
# References and no schemes: shown where they are asked for, the first of them in the whole matrix, and left out of what is the best.
CLAIRVOYANT = "oracle"
REFERENCES = [CLAIRVOYANT, "bound"]
# What a user would try; of those that the registry does not have, none is run.
SCHEMES = ["none", "strip", "asp", "asp(cull=off)", "asp+msp", "linux-6", "regions(linux-6)", "asp+msp+linux-6", "zfetch", "streams",
           "cadence", "grain", "recall", "linux-6+recall", "grain+msp+regions(linux-6)", "grain+msp+stride+regions(linux-6)",
           "grain+msp+early+regions(linux-6)", "grain+msp+early+stride+regions(linux-6)", "grain+msp+early+regions(linux-6)+recall",
           "grain+msp+early+stride(gaps=off)+regions(linux-6)+recall", "auto"]
BASE = "none"
CHOICE = "auto"
GRAIN_BEATS = ["none", "strip", "asp", "asp(cull=off)"]
SETS = {"development": matrix_cells.DEVELOPMENT, "held-out": matrix_cells.HELD_OUT}
# What a request costs of processor time, unless an ablation says otherwise.
CPU = "xeon-2005"
# Least memory of a layer, and the unit of its size.
CACHE_MIN = 4 << 20
LONG_NS = 60_000_000_000
OVER_NONE, OVER_BEST, OVER_FIXED = 0.98, 0.95, 1.10
QUICK_INPUTS = ["forward-4", "forward-16", "reverse", "stride-3", "zipf", "random", "dbench", "tree", "media", "mixed", "tpch-index",
                "gcc", "pcmark_a"]

Cell = collections.namedtuple("Cell", "input array device share mode state")


class Forerun:
    """The binary, asked by its command line alone."""

    def __init__(self, path):
        if not pathlib.Path(path).is_file():
            sys.exit(f"matrix: --forerun {path}: there is no such file; cargo build --release makes it")
        self.path = path
        self.digest = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:16]

    def ask(self, *words):
        done = subprocess.run([self.path, *words, "--json", "--quiet"], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or f"ended with {done.returncode}")
        return json.loads(done.stdout)

    def knows(self, scheme):
        try:
            self.ask("sim", "forward:size=64KiB", "--scheme", scheme, "--cache", "64MiB", "--host-cache", "64MiB")
            return True
        except RuntimeError:
            return False


class Inputs:
    """Traces and workloads by name: what to replay, how much it touches, and in which modes it can be replayed."""

    def __init__(self, forerun, workloads, folders, out):
        self.forerun, self.out = forerun, out
        self.lines = dict(workloads)
        for folder in folders:
            for path in sorted(pathlib.Path(folder).glob("**/*")):
                name = path.name.split(".")[0]
                packed = path.name.endswith((".csv.gz", ".parquet")) and ".measured." not in path.name
                if packed and name not in self.lines and "native" not in path.parts:
                    self.lines[name] = path
        self.facts = {}

    def load(self, name):
        """Its facts: `given` to the command line, `footprint` in bytes, `modes`."""
        line = self.lines[name]
        short = self.out / "inputs" / f"{name}.parquet"
        short.parent.mkdir(parents=True, exist_ok=True)
        note = self.out / "inputs" / f"{name}.json"
        stamp = line if isinstance(line, str) else f"{line} {line.stat().st_size} {REQUESTS_MAX}"
        known = json.loads(note.read_text()) if note.exists() else {}
        if known.get("stamp") != stamp:
            if isinstance(line, str):
                self.forerun.ask("trace", "synth", line, "-o", str(short))
            else:
                self.forerun.ask("trace", "convert", str(line), str(short), "--limit", str(REQUESTS_MAX))
            info = self.forerun.ask("trace", "info", str(short))
            known = {"stamp": stamp, "footprint": info["footprint_bytes"], "modes": ["closed"]}
            if isinstance(line, str):
                short.unlink()
                known["modes"] = ["paced"] if "rate=" in line or "think=" in line else ["closed"]
            elif info["duration_ns"]:
                # Recorded times mean something to programs that compute, and to a device's users.
                known["modes"] += ["paced"] if info["processes"] or info["files"] else ["open"]
            note.write_text(json.dumps(known))
        given = line if isinstance(line, str) else str(short)
        self.facts[name] = dict(known, given=given)


def cache(cell, footprint):
    """Bytes of a layer's cache: `share` of the footprint, in whole MiB."""
    over, under = map(int, cell.share.split("/"))
    return max(CACHE_MIN, (footprint * over // under) >> 20 << 20)


def seed_of(cell):
    """Seed of the random choices in a cell's workload."""
    return matrix_cells.HELD_OUT_SEED if cell.input in matrix_cells.HELD_OUT_WORKLOADS else 1


def command(cell, facts, passes, cpu):
    """The words behind `forerun compare` but the schemes."""
    size = str(cache(cell, facts["footprint"]))
    trace = pathlib.Path(facts["given"]).is_file()
    mode = {"closed": "closed:1"}.get(cell.mode, cell.mode)
    # Programs that run side by side each go through their own part again.
    given = facts["given"] if trace else " and ".join(" then ".join([part] * passes) for part in facts["given"].split(" and "))
    words = [given, "--array", cell.array, "--device", cell.device, "--cache", size, "--host-cache", size, "--mode", mode,
             "--scheduler", "anticipatory" if cell.device in MECHANICAL else "none", "--cpu", cpu, "--no-bounds",
             "--threads", "1", "--fit", "modulo", "--seed", str(seed_of(cell))]
    return words + (["--repeat", str(passes)] if trace and passes > 1 else [])


def measures(report):
    """What is kept of a run."""
    return {
        "elapsed": report["elapsed_ns"],
        "found_by": report.get("found_by"),
        "mean": report["latency_ns"]["mean"],
        "p99": report["latency_ns"]["p99"],
        "hit_ratio": report["hit_ratio"],
        "precision": report["precision"],
        "amplification": report["amplification"],
    }


def charged(scheme, cpu):
    """The name of a scheme's runs under a charge for processors."""
    return scheme if cpu == CPU else f"{scheme} --cpu {cpu}"


class Matrix:
    """Runs what is missing and keeps it."""

    def __init__(self, forerun, inputs, out, keep, again):
        self.forerun, self.inputs, self.keep, self.again = forerun, inputs, keep, set(again)
        self.path = out / "runs.jsonl"
        self.lock = threading.Lock()
        self.done = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                record = json.loads(line)
                self.take(record)

    def take(self, record):
        current = record["binary"] == self.forerun.digest
        if current or (self.keep and record["scheme"] not in self.again):
            self.done[tuple(record["cell"]), record["passes"], record["scheme"]] = record["run"]

    def passes(self, cell):
        return [1] if cell.state == "cold" else [1, 2]

    def run(self, cell, schemes, cpu=CPU):
        """Runs a cell under the schemes for which it has not run yet; another charge for processors than the usual one is kept as part of the name."""
        for passes in self.passes(cell):
            key = cell._replace(state="cold")
            missing = [s for s in schemes if (tuple(key), passes, charged(s, cpu)) not in self.done]
            if not missing:
                continue
            for scheme, run in self.reports(command(cell, self.inputs.facts[cell.input], passes, cpu), missing):
                named = charged(scheme, cpu)
                record = {"binary": self.forerun.digest, "cell": key, "passes": passes, "scheme": named, "run": run}
                with self.lock:
                    self.done[tuple(key), passes, named] = run
                    with self.path.open("a") as file:
                        file.write(json.dumps(record) + "\n")

    def reports(self, words, schemes):
        named = [word for scheme in schemes for word in ("--scheme", scheme)]
        try:
            runs = self.forerun.ask("compare", *words, *named)["runs"]
            return list(zip(schemes, map(measures, runs)))
        except RuntimeError as error:
            if len(schemes) == 1:
                return [(schemes[0], {"refused": str(error)})]
            return [pair for scheme in schemes for pair in self.reports(words, [scheme])]

    def time(self, cell, scheme):
        """What a scheme took in a cell, ns: elapsed, or the mean response where nobody waits; None where it refused."""
        key = tuple(cell._replace(state="cold"))
        runs = [self.done.get((key, passes, scheme)) for passes in self.passes(cell)]
        if not all(run and "refused" not in run for run in runs):
            return None
        values = [run["mean"] * n if cell.mode == "open" else run["elapsed"] for n, run in enumerate(runs, 1)]
        return values[-1] - (values[0] if len(values) > 1 else 0)


def mean(values):
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def speeds(matrix, cells, schemes):
    """Per cell: each scheme's speed over that of none."""
    table = {}
    for cell in cells:
        base = matrix.time(cell, BASE)
        if not base or base <= 0:
            continue
        times = {scheme: matrix.time(cell, scheme) for scheme in schemes}
        table[cell] = {scheme: base / took for scheme, took in times.items() if took and took > 0}
    return table


def of_what(args):
    """Which part of the matrix a table is of, where it is not all of it."""
    part = [f"a sample of {args.sample:.1%} of the cells"] if args.sample < 1 else []
    part += [f"from {args.sample_from:.1%} on"] if args.sample_from else []
    part += [f"without {name}" for name in args.without]
    return [", ".join(part)] if part else []


def name(cell):
    return f"{cell.input} {cell.array} {cell.device} {cell.share} {cell.mode} {cell.state}"


def summary(matrix, table, schemes, beaten, causes):
    """The text: means for each device, and the cells below their bars."""
    lines = [f"{len(table)} cells, {len(schemes)} schemes; speed over {BASE}, geometric means", ""]
    width = max(map(len, schemes))
    devices = list(dict.fromkeys(cell.device for cell in table))
    shares = of_clairvoyant(table, schemes)
    lines.append(f"{'':{width}}  " + "  ".join(f"{d:>12}" for d in [*devices, "all"]) + ("  of clairvoyant" if shares else "")
                 + "  slower than none")
    fixed = [s for s in schemes if s not in (BASE, CHOICE, *REFERENCES)]
    means = {}
    for scheme in schemes:
        row = []
        for device in [*devices, None]:
            values = [v[scheme] for c, v in table.items() if scheme in v and device in (None, c.device)]
            means[scheme, device] = mean(values)
            row.append(f"{means[scheme, device]:12.3f}")
        slower = sum(v[scheme] < OVER_NONE for v in table.values() if scheme in v)
        count = sum(scheme in v for v in table.values())
        share = f"  {shares[scheme]:14.3f}" if shares else ""
        own = f"; a scheme's own run in {beaten}" if scheme == REFERENCES[0] else ""
        lines.append(f"{scheme:{width}}  " + "  ".join(row) + share + f"  {slower} of {count}{own}")
    best = [mean([max(v[s] for s in [BASE, *fixed] if s in v) for c, v in table.items() if device in (None, c.device)])
            for device in [*devices, None]]
    lines.append(f"{'best of all':{width}}  " + "  ".join(f"{b:12.3f}" for b in best))
    refused = collections.Counter(s for v in table.values() for s in schemes if s not in v)
    lines += [f"refused or missing: {s} in {n} cells" for s, n in refused.most_common()]
    return lines + (bars(matrix, table, fixed, means, devices, causes) if CHOICE in schemes else [])


def below_bars(matrix, table, fixed):
    """Cells in which the choice is below a bar: of `none`, and of the best single scheme, with that scheme and its own speed."""
    below_none, below_best, shares = [], [], []
    for cell, values in table.items():
        if CHOICE not in values:
            continue
        if values[CHOICE] < OVER_NONE:
            below_none.append((values[CHOICE], cell))
        winner = max((s for s in [BASE, *fixed] if s in values), key=values.get)
        share = values[CHOICE] / values[winner]
        shares.append(share)
        if share < OVER_BEST and matrix.time(cell, BASE) >= LONG_NS and cell.mode != "open":
            below_best.append((share, cell, winner))
    return sorted(below_none), sorted(below_best), shares


def find_causes(matrix, table, fixed, jobs):
    """Runs the ablations of the cells below a bar; in words, by cell and what the bar is of."""
    below_none, below_best, _ = below_bars(matrix, table, fixed)
    wanted = [(cell, BASE, OVER_NONE) for _, cell in below_none] + [(cell, winner, OVER_BEST) for _, cell, winner in below_best]
    chosen = list(dict.fromkeys(cell for cell, _, _ in wanted))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        one = lambda cell: (matrix.run(cell, matrix_causes.ablations(cell, MECHANICAL)),
                            matrix.run(cell, [CHOICE, *sorted({of for at, of, _ in wanted if at == cell})], matrix_causes.NO_CPU))
        list(pool.map(one, chosen))

    def in_words(cell, of, bar):
        def speed(scheme, cpu=CPU):
            base, took = (matrix.time(cell, charged(name, cpu)) for name in (of, scheme))
            return base / took if base and took and base > 0 and took > 0 else None

        return matrix_causes.cause(cell, MECHANICAL, bar, CHOICE, speed)

    return {(cell, of == BASE): in_words(cell, of, bar) for cell, of, bar in wanted}


def of_clairvoyant(table, schemes):
    """Geometric mean of each scheme's speed as a part of the reference's; nothing where that was not run."""
    if REFERENCES[0] not in schemes:
        return {}
    known = [values for values in table.values() if REFERENCES[0] in values]
    return {scheme: mean([values[scheme] / values[REFERENCES[0]] for values in known if scheme in values]) for scheme in schemes}


def settle(table):
    """The table where the reference is the best that is known of a cell: what its own search found, or a scheme's run; in how many it is that."""
    settled, beaten = {}, 0
    for cell, values in table.items():
        best = max(value for scheme, value in values.items() if scheme != "bound")
        settled[cell] = {scheme: best if scheme == REFERENCES[0] else value for scheme, value in values.items()}
        beaten += values.get(REFERENCES[0], best) < best
    return settled, beaten


def bars(matrix, table, fixed, means, devices, causes):
    """How the choice stands beside its bars."""
    below_none, below_best, shares = below_bars(matrix, table, fixed)
    cause = lambda cell, of_none: f"  {causes[cell, of_none]}" if (cell, of_none) in causes else ""
    lines = ["", f"bars of {CHOICE}", f"  below {OVER_NONE} × none: {len(below_none)} of {len(shares)} cells"]
    lines += [f"    {value:.3f}  {name(cell)}{cause(cell, True)}" for value, cell in below_none]
    lines.append(f"  below {OVER_BEST} × the best single scheme, of cells of 60 s and more: {len(below_best)}")
    lines += [f"    {value:.3f}  {name(cell)}, best {winner}{cause(cell, False)}" for value, cell, winner in below_best]
    lines.append(f"  mean of {CHOICE} over the best single scheme: {mean(shares):.3f}")
    for device in devices if fixed else []:
        best = max(fixed, key=lambda scheme: means[scheme, device])
        ratio = means[CHOICE, device] / means[best, device]
        verdict = "holds" if ratio >= OVER_FIXED else "is missed"
        lines.append(f"  {device}: {ratio:.3f} × the best fixed scheme ({best}); the bar of {OVER_FIXED} {verdict}")
    return lines


def each(table):
    """A line for each cell: the choice beside the best fixed scheme, and what those that it is made of come to."""
    yield f"{CHOICE:>8}{'grain':>8}{'best':>8}  over {BASE}"
    shares = {CHOICE: [], "grain": []}
    for cell, values in table.items():
        fixed = [s for s in values if s not in (CHOICE, *REFERENCES)]
        best = max(fixed, key=values.get)
        ours = {scheme: values.get(scheme, float("nan")) for scheme in shares}
        for scheme, value in ours.items():
            shares[scheme].append((value, value / values[best], value / max(values.get(s, 0) for s in GRAIN_BEATS)))
        marks = "".join(letter for letter, below in zip("nb", (ours[CHOICE] < OVER_NONE, ours[CHOICE] < OVER_BEST * values[best])) if below)
        marks += "g" if shares["grain"][-1][2] < OVER_NONE else ""
        yield f"{ours[CHOICE]:8.3f}{ours['grain']:8.3f}{values[best]:8.3f}  {marks:3}  {name(cell)}, best {best}"
    for scheme, found in shares.items():
        over, of_best, of_asp = zip(*found)
        yield (f"{scheme}: geometric mean {mean(over):.3f} × {BASE}, {mean(of_best):.3f} × the best fixed scheme of each cell"
               + (f", {mean(of_asp):.3f} × the better of {', '.join(GRAIN_BEATS)}" if scheme == "grain" else ""))
    yield f"n: {CHOICE} below {OVER_NONE} × {BASE}; b: below {OVER_BEST} × the best; g: grain below {OVER_NONE} × the better of those"


def rows(matrix, table, schemes, causes):
    """The CSV: a line for each cell and scheme."""
    yield ["input", "array", "device", "share", "mode", "state", "scheme", "time_ns", "over_none", "why", "cause"]
    for cell, values in table.items():
        for scheme in schemes:
            took = matrix.time(cell, scheme)
            run = matrix.done.get((tuple(cell._replace(state="cold")), 1, scheme), {})
            over = f"{values[scheme]:.4f}" if scheme in values else ""
            known = [causes[key] for key in ((cell, True), (cell, False)) if key in causes] if scheme == CHOICE else []
            yield [*cell, scheme, "" if took is None else int(took), over, run.get("refused", "").replace("\n", " "), "; ".join(known)]


def cells_of_set(args):
    """Those of a fixed set that the options leave."""
    for line in SETS[args.cells].split("\n"):
        if line:
            cell = Cell(*line.split())
            named = all(not (names := getattr(args, what)) or getattr(cell, what) in names for what in Cell._fields[1:])
            if named and wanted(cell.input, args.input):
                yield cell


def cells(args, inputs):
    """All cells that the options leave, in order."""
    for input_name, facts in inputs.facts.items():
        for mode in facts["modes"]:
            for array in args.array or ARRAYS:
                for device in args.device or DEVICES:
                    for share in args.share or SHARES:
                        for state in args.state or STATES:
                            cell = Cell(input_name, array, device, share, mode, state)
                            if (not args.mode or mode in args.mode) and sampled(cell, args.sample, args.sample_from):
                                yield cell


def sampled(cell, share, begin):
    """Whether a cell is one of the sample: decided by its name, so the same ones each time."""
    number = int(hashlib.sha256(name(cell).encode()).hexdigest()[:8], 16)
    return begin * 2**32 <= number < (begin + share) * 2**32


def fraction(text):
    value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError("a share such as 5% or 0.05")
    return value


def arguments():
    parser = argparse.ArgumentParser(description="runs schemes over the matrix of inputs and hardware",
                                     epilog="see the head of this file for what a cell is")
    parser.add_argument("--forerun", default="target/release/forerun", help="the binary")
    parser.add_argument("--traces", action="append", metavar="DIR", help="folders of traces [traces, ../shared/traces]")
    parser.add_argument("--out", default="out/matrix", type=pathlib.Path, help="where results are kept")
    parser.add_argument("--scheme", action="append", help="run these instead of the usual set")
    for what in ["input", "array", "device", "share", "mode", "state"]:
        parser.add_argument(f"--{what}", action="append", help=f"only this {what}; may be given many times")
    parser.add_argument("--without", action="append", default=[], metavar="INPUT", help="leave out this input, and say so")
    parser.add_argument("--sample", type=fraction, default=1.0, metavar="SHARE", help="only such a share of the cells, e.g. 5%%")
    parser.add_argument("--sample-from", type=fraction, default=0.0, metavar="SHARE", help="other cells: those behind such a share of them")
    parser.add_argument("--quick", action="store_true", help="a subset of a few minutes on one core")
    parser.add_argument("--cells", choices=SETS, help="a fixed set of cells (scripts/matrix_cells.py), each of them shown")
    parser.add_argument("--keep", action="store_true", help="results of another binary count too")
    parser.add_argument("--again", action="append", default=[], metavar="SCHEME", help="with --keep: but not those of this scheme")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cells at once")
    parser.add_argument("--causes", action="store_true", help="run ablations in the cells in which auto is below a bar (scripts/matrix_causes.py), and name the cause of each")
    parser.add_argument("--list", action="store_true", help="print the cells and run nothing")
    parser.add_argument("--csv", type=pathlib.Path, help="write a line for each cell and scheme")
    parser.add_argument("--write", action="store_true", help="write docs/figures/matrix-all.txt and .csv")
    return parser.parse_args()


def quicken(args):
    """The subset: fewer inputs, two arrays, three devices, the middle share."""
    args.input = args.input or [f"={name}" for name in QUICK_INPUTS]
    args.array = args.array or ["raid5:5x128KiB", "single"]
    args.device = args.device or ["cheetah-15k4", "wd-7200", "nvme"]
    args.share = args.share or ["1/8"]
    args.mode = args.mode or ["closed", "paced"]


def wanted(input_name, words):
    return not words or any(word[1:] == input_name if word.startswith("=") else word in input_name for word in words)


def run_all(matrix, chosen, schemes, jobs):
    """Runs the cells; says how far it is."""
    started, ended = time.monotonic(), 0
    tasks = collections.OrderedDict()
    for cell in sorted(chosen, key=lambda c: c.state):  # a warm cell also runs the cold one
        tasks[cell] = None
    groups = collections.defaultdict(list)
    for cell in tasks:
        groups[cell._replace(state="cold")].append(cell)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(lambda group: [matrix.run(c, schemes) for c in group], group) for group in groups.values()]
        for future in concurrent.futures.as_completed(futures):
            future.result()
            ended += 1
            took = time.monotonic() - started
            left = took / ended * (len(groups) - ended)
            if sys.stderr.isatty() or ended % 20 == 0 or ended == len(groups):
                end = "\r" if sys.stderr.isatty() else "\n"
                print(f"matrix: {ended} of {len(groups)} places, {took:.0f} s, {left:.0f} s left  ", end=end, file=sys.stderr)


def main():
    args = arguments()
    if args.quick:
        quicken(args)
    folders = args.traces or [folder for folder in (ROOT / "traces", ROOT.parent / "shared" / "traces") if folder.is_dir()]
    args.out.mkdir(parents=True, exist_ok=True)
    forerun = Forerun(args.forerun)
    workloads = matrix_cells.HELD_OUT_WORKLOADS if args.cells == "held-out" else WORKLOADS
    inputs = Inputs(forerun, workloads, folders, args.out)
    if args.cells:
        args.input = [f"={cell.input}" for cell in cells_of_set(args) if wanted(cell.input, args.input)]
    if unknown := [name for name in args.without if name not in inputs.lines]:
        sys.exit(f"matrix: --without {unknown[0]}: there is no such input; --list shows the cells, each of which begins with its input")
    inputs.lines = {n: line for n, line in inputs.lines.items() if wanted(n, args.input) and n not in args.without}
    for input_name in inputs.lines:
        inputs.load(input_name)
    chosen = [cell for cell in (cells_of_set(args) if args.cells else cells(args, inputs)) if cell.input not in args.without]
    if args.list:
        print("\n".join(map(name, chosen)))
        return
    if not chosen:
        sys.exit("matrix: no cell is left; take away an option")
    schemes = args.scheme or [scheme for scheme in SCHEMES if forerun.knows(scheme)] + ([] if args.quick or args.cells else [CLAIRVOYANT])
    schemes = list(dict.fromkeys([BASE, *schemes]))
    matrix = Matrix(forerun, inputs, args.out, args.keep, args.again)
    run_all(matrix, chosen, schemes, args.jobs)
    table = speeds(matrix, chosen, schemes)
    settled, beaten = settle(table)
    causes = find_causes(matrix, settled, [s for s in schemes if s not in (BASE, CHOICE, *REFERENCES)], args.jobs) if args.causes else {}
    text = "\n".join(of_what(args) + summary(matrix, settled, schemes, beaten, causes) if not args.cells else each(table)) + "\n"
    print(text, end="")
    figures = [args.csv] if args.csv else []
    if args.write:
        (ROOT / "docs/figures/matrix-all.txt").write_text(text)
        figures.append(ROOT / "docs/figures/matrix-all.csv")
    for path in figures:
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows(matrix, table, schemes, causes))


main()
