#!/usr/bin/env python3
"""A sweep on a real Ray cluster, one head and two workers started on this machine, that loses a worker and its driver on the way.

Usage: scripts/ray-sweep.py [CELLS [OUT]], 2,000 cells and out/ray unless said; `make test-ray` makes the environment and calls it. It runs the
study with the command (`forerun sweep`), then on the cluster: a worker node is killed in the middle, then the driver, and the driver
is started again. Every cell must be there once and the results must be byte for byte the local ones. Then, without kills, the
overhead of each cell: in batches and one by one, for cells that take next to nothing and for cells of a second.
The table goes to stdout, everything else to stderr.
"""

import atexit
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

import ray

import forerun

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(sysconfig.get_path("scripts"))
CORES = os.cpu_count() or 1
# Nothing is told to anybody, and nobody else may use the cluster: its token is drawn for this run.
QUIET = dict(os.environ, RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))


def say(line):
    print(line, file=sys.stderr, flush=True)


DRIVERS = []


class Cluster:
    """A head without cores, and workers that share this machine's."""

    def __init__(self, folder, workers=2):
        self.folder = folder
        self.nodes = {}
        atexit.register(self.stop)
        self.head = self._start("head", "--head", "--port=6399", "--num-cpus=0", "--include-dashboard=false")
        self.address = "127.0.0.1:6399"
        until(lambda: "Ray runtime started" in (folder / "head.log").read_text(), 300)
        for number in range(workers):
            self.add(f"worker{number}")

    def _start(self, name, *words):
        log = open(self.folder / f"{name}.log", "w")  # noqa: SIM115
        command = [BIN / "ray", "start", "--block", "--node-ip-address=127.0.0.1", "--disable-usage-stats", *words]
        node = subprocess.Popen(command, stdout=log, stderr=log, env=QUIET, start_new_session=True)
        self.nodes[name] = node
        return node

    def add(self, name):
        self._start(name, f"--address={self.address}", f"--num-cpus={max(CORES // 2, 1)}", "--object-store-memory=100000000")

    def kill(self, name):
        """The node and all that it started, at once."""
        node = self.nodes.pop(name)
        if node.poll() is None:
            os.killpg(node.pid, signal.SIGKILL)
        node.wait()

    def wait(self, cores):
        """Until so many cores are there."""
        words = [sys.executable, "-c", f"import ray; ray.init(address={self.address!r}, log_to_driver=False); print(ray.cluster_resources().get('CPU', 0))"]

        def there():
            # Ray gives a node thirty seconds to start; on a busy machine that may be too little, and it is started again.
            for name in [name for name, node in self.nodes.items() if name != "head" and node.poll() is not None]:
                say(f"{name} has ended: started again")
                self.add(name)
            said = subprocess.run(words, env=QUIET, capture_output=True, text=True).stdout.split()
            return float(said[-1] if said else 0) >= cores

        until(there, 600)

    def stop(self):
        for started in DRIVERS:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
        for name in list(self.nodes):
            self.kill(name)


def until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit("ray-sweep: waited in vain")
        time.sleep(0.05)


def study(path, cells, shape):
    """So many cells over a trace in a file and a workload."""
    trace = path.with_suffix(".parquet")
    offsets = [4096 * (n * 7 % 500) for n in range(400)]
    forerun.Trace.from_arrays(offsets, [4096] * 400).write(trace)
    seeds = ", ".join(str(seed) for seed in range(1, cells // 8 + 1))
    path.write_text(
        f'[fixed]\ndevice = "wd-7200"\n[matrix]\ninput = ["{trace}", "{shape}"]\nscheme = ["none", "asp"]\n'
        f'cache = ["16MiB", "64MiB"]\nseed = [{seeds}]\n'
    )
    return cells // 8 * 8


def lines(folder):
    """Cells that are done, by id, as often as they stand there."""
    files = folder.glob("cells*.jsonl")
    return [json.loads(line)["cell"] for file in files for line in file.read_text().splitlines() if line.endswith("}")]


def driver(path, folder, address, *more):
    words = [sys.executable, "-m", "forerun.sweep", path, "-o", folder, "--address", address, "--quiet", *more]
    DRIVERS.append(subprocess.Popen(words, env=QUIET, stdout=sys.stderr, start_new_session=True))
    return DRIVERS[-1]


def local(path, folder):
    began = time.monotonic()
    subprocess.run([BIN / "forerun", "--quiet", "sweep", path, "-o", folder], check=True, stdout=sys.stderr)
    return time.monotonic() - began


def survives(cluster, work, cells):
    """A worker and the driver are killed in the middle; what is lost, what is there twice."""
    path = work / "kills.toml"
    cells = study(path, cells, "random:size=16MiB,requests=50")
    local(path, work / "local")
    folder = work / "spread"
    # Small batches, so that there is a middle.
    first = driver(path, folder, cluster.address, "--batch", "0.2")
    until(lambda: len(lines(folder)) > cells // 5 or first.poll() is not None, 600)
    assert first.poll() is None, "it ended before anything could be killed: ask for more cells"
    at_worker = len(lines(folder))
    cluster.kill("worker1")
    until(lambda: len(lines(folder)) > at_worker + cells // 10 or first.poll() is not None, 600)
    assert first.poll() is None, "it ended before the driver could be killed: ask for more cells"
    at_driver = len(lines(folder))
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    cluster.add("worker2")
    second = driver(path, folder, cluster.address, "--batch", "0.2")
    assert second.wait(1200) == 0
    done = lines(folder)
    assert len(set(done)) == cells, f"{cells - len(set(done))} cells are lost"
    assert len(done) == cells, f"{len(done) - cells} cells are there twice"
    same = (work / "local/results.parquet").read_bytes() == (folder / "results.parquet").read_bytes()
    assert same, "the results are not the local ones"
    say(f"{cells} cells: a worker was killed after {at_worker}, the driver after {at_driver}; none lost, none twice, bytes as locally")
    return cells, at_worker, at_driver


def overhead(cluster, work, name, cells, shape, *more):
    """Seconds of a study on the command's threads and on the cluster, and what each cell costs more there."""
    path = work / f"{name}.toml"
    cells = study(path, cells, shape)
    alone = local(path, work / f"{name}-local")
    began = time.monotonic()
    assert driver(path, work / f"{name}-ray", cluster.address, *more).wait(1800) == 0
    spread = time.monotonic() - began
    same = (work / f"{name}-local/results.parquet").read_bytes() == (work / f"{name}-ray/results.parquet").read_bytes()
    assert same, "the results are not the local ones"
    return cells, alone, spread


def check_launcher():
    """Holds the file for Ray's launcher that docs/sweeps.md shows against Ray's own schema."""
    import jsonschema
    import yaml

    shown = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/sweeps.md").read_text(), re.S)[1]
    schema = json.loads((pathlib.Path(ray.__file__).parent / "autoscaler/ray-schema.json").read_text())
    told = yaml.safe_load(shown)
    jsonschema.validate(told, schema)
    assert told["head_node_type"] in told["available_node_types"]
    try:
        jsonschema.validate({**told, "max_workers": "many"}, schema)
    except jsonschema.ValidationError:
        say("docs/sweeps.md: the file for Ray's launcher has the shape that Ray wants")
        return
    sys.exit("ray-sweep: the schema refuses nothing")


def main():
    check_launcher()
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    load = os.getloadavg()[0]
    work = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "out/ray").resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    # Whoever ends this script ends its cluster.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ray-sweep: ended"))
    cluster = Cluster(work)
    try:
        cluster.wait(2 * max(CORES // 2, 1))
        total, at_worker, at_driver = survives(cluster, work, cells)
        cluster.wait(2 * max(CORES // 2, 1))
        # What a driver takes to find its cluster is no cell's: a study of one batch says how long that is, the shortest of three.
        begun = [overhead(cluster, work, f"start{n}", 8, "random:size=16MiB,requests=50") for n in range(3)]
        start = max(min(spread - alone for _, alone, spread in begun), 0.0)
        rows = [
            ("small cells in batches", *overhead(cluster, work, "batched", cells, "random:size=16MiB,requests=50")),
            ("small cells one by one", *overhead(cluster, work, "single", cells // 5, "random:size=16MiB,requests=50", "--batch", "0")),
            ("long cells", *overhead(cluster, work, "long", 16, "random:size=1GiB,requests=1000000")),
        ]
    finally:
        cluster.stop()
    print(f"{total} cells on 1 head and 2 workers of {max(CORES // 2, 1)} cores each, on one machine, Ray {ray.__version__}: a worker was killed")
    print(f"after {at_worker} cells, the driver after {at_driver} and started again: none lost, none twice, the bytes of a local run.")
    print(f"Load average at the start: {load:.1f} on {CORES} processors.")
    print(f"\n{'cells':24} {'number':>7} {'local':>9} {'Ray':>9} {'of it to start':>15} {'over, a cell':>13} {'of local':>9}")
    for name, number, alone, spread in rows:
        if spread <= start:
            print(f"{name:24} {number:7,} {alone:7.1f} s {spread:7.1f} s {start:13.1f} s   took less than a start alone: the machine was too busy to say")
            continue
        over = max(spread - start - alone, 0.0) / number
        share = alone / (spread - start)
        print(f"{name:24} {number:7,} {alone:7.1f} s {spread:7.1f} s {start:13.1f} s {over * 1e3:10.1f} ms {share:8.0%}")


main()
