#!/usr/bin/env python3
"""What `recall` is worth on inputs that repeat, and what it costs on those that do not (docs/figures/recall-repeats.txt).

Each trace of traces/ and, where it is there, of ../shared/traces that is known to be of repeated work is replayed three times in
a row (`--repeat 3`), and once; shapes that never repeat are replayed once. One page cache of an eighth of what the input touches, over one
device. `first` is the speed over `none` of a single pass, `repeated` that of the second and third pass alone: three passes less one. Precision,
memory and runs are those of `linux-6+recall` (memory: what it remembers, beside the cache). The last column is how long the simulator took
under it beside `linux-6`, wall time of the single pass, which says what its decisions cost.

    scripts/figure-recall.py                      print it
    scripts/figure-recall.py --write              and write docs/figures/recall-repeats.txt
    scripts/figure-recall.py --device nvme        over other devices
"""
import argparse
import json
import math
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPEATED = ["demo", "cscope", "gcc", "ripgrep", "view", "tpch-index", "tpch-scan", "pcmark_a", "win11_boot_0_20s", "arc_OLTP", "arc_P3",
            "arc_P6"]
ONCE = {
    "random": "random:processes=4,size=512MiB,requests=30000,block=4KiB",
    "zipf": "zipf:processes=8,size=256MiB,requests=60000,theta=0.8,block=4KiB",
    "media": "streams:streams=50,length=4MiB,title=8MiB,block=64KiB",
}
REQUESTS_MAX = 30_000
DEVICES = ["wd-7200", "gp3", "nvme"]
SCHEMES = ["none", "linux-6", "recall", "linux-6+recall"]


def ask(binary, *words):
    done = subprocess.run([binary, *words, "--json", "--quiet"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"figure-recall: {' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def inputs(binary, at):
    """Names, what to replay, what it touches, and whether it is repeated."""
    folders = [ROOT / "traces", ROOT.parent / "shared" / "traces"]
    files = {path.name.split(".")[0]: path for folder in folders for path in sorted(folder.glob("**/*"))
             if path.name.endswith((".parquet", ".csv.gz")) and ".measured." not in path.name and "native" not in path.parts}
    for name in (name for name in REPEATED if name in files):
        short = str(at / f"{name}.parquet")
        ask(binary, "trace", "convert", str(files[name]), short, "--limit", str(REQUESTS_MAX))
        yield name, short, ask(binary, "trace", "info", short)["footprint_bytes"], True
    for name, line in ONCE.items():
        whole = str(at / f"{name}.parquet")
        ask(binary, "trace", "synth", line, "-o", whole)
        yield name, line, ask(binary, "trace", "info", whole)["footprint_bytes"], False


def command(given, device, footprint, passes):
    cache = max(4 << 20, (footprint // 8) >> 20 << 20)
    scheduler = "clook" if device == "wd-7200" else "none"
    repeat = ["--repeat", str(passes)] if passes > 1 else []
    return ["compare", given, "--array", "single", "--device", device, "--scheduler", scheduler, "--cpu", "xeon-2005", "--host-cache",
            str(cache), "--mode", "closed:1", "--fit", "modulo", "--no-bounds", *repeat]


def runs(binary, words, schemes):
    took = {}
    for scheme in schemes:
        began = time.monotonic()
        run = ask(binary, *words, "--scheme", scheme)["runs"][0]
        took[scheme] = (run, time.monotonic() - began)
    return took


def row(binary, name, given, footprint, device, repeats):
    """One line, and the speeds over `none` of the passes that repeat."""
    once = runs(binary, command(given, device, footprint, 1), SCHEMES)
    first = {scheme: once["none"][0]["elapsed_ns"] / run["elapsed_ns"] for scheme, (run, _) in once.items()}
    again = {}
    last = once["linux-6+recall"][0]
    if repeats:
        thrice = runs(binary, command(given, device, footprint, 3), SCHEMES)
        rest = {scheme: run["elapsed_ns"] - once[scheme][0]["elapsed_ns"] for scheme, (run, _) in thrice.items()}
        again = {scheme: rest["none"] / max(took, 1) for scheme, took in rest.items()}
        last = thrice["linux-6+recall"][0]
    gauges = dict(next(layer["gauges"] for layer in last["layers"] if layer["layer"] == "host"))
    cells = [f"{first[s]:7.2f}" for s in SCHEMES[1:]] + [f"{again[s]:7.2f}" if again else "      –" for s in SCHEMES[1:]]
    share = f"{100 * last['precision']:5.1f}%" if last["precision"] is not None else "     –"
    slower = once["linux-6+recall"][1] / once["linux-6"][1]
    text = (f"{name:<17} {device:<8}" + "".join(cells) + f"  {share} {gauges['recall_bytes'] / 1024:8,.0f} {gauges['recall_runs']:7,.0f}"
            f" {slower:6.2f}")
    return text, first, again


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def table(binary, devices):
    yield "page cache of an eighth of what is touched; speed over none"
    yield ""
    yield f"{'':26}{'first pass':^21}{'second and third pass':^21}"
    head = "".join(f"{s.replace('linux-6+recall', 'l+rec').replace('linux-6', 'linux'):>7}" for s in SCHEMES[1:])
    yield f"{'input':<17} {'device':<8}{head}{head}  prec.     KiB    runs   wall"
    firsts, agains = [], []
    with tempfile.TemporaryDirectory() as at:
        for name, given, footprint, repeats in list(inputs(binary, pathlib.Path(at))):
            for device in devices:
                text, first, again = row(binary, name, given, footprint, device, repeats)
                firsts.append(first)
                agains += [again] if again else []
                yield text
    yield f"{'geometric mean':<26}" + "".join(f"{mean([f[s] for f in firsts]):7.2f}" for s in SCHEMES[1:]) + "".join(
        f"{mean([a[s] for a in agains]):7.2f}" for s in SCHEMES[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "target/release/forerun"), help="the binary to ask")
    parser.add_argument("--device", action="append", help="a preset; can be given again")
    parser.add_argument("--write", action="store_true", help="write docs/figures/recall-repeats.txt")
    args = parser.parse_args()
    lines = []
    for line in table(args.binary, args.device or DEVICES):
        print(line, flush=True)
        lines.append(line)
    if args.write:
        (ROOT / "docs/figures/recall-repeats.txt").write_text("\n".join(lines) + "\n")


main()
