#!/usr/bin/env python3
"""Measures `forerun serve` beside nbdkit and qemu-nbd, and an emulated array beside the simulator's prediction.

The server is pinned to the first processor; the client to the last, or with several connections to all but the first. Servers of
emulated disks have all processors but the client's: the kernel threads that move the bytes of members must not wait for
the server, or the disks would be late. Runs are interleaved, so a change of the machine's mood hits all servers alike; a cell is the median of REPS runs, the best in
brackets. CPU is the server's own time, user and system, for each request, the least of the runs.

Usage: bench-serve.py FORERUN REPLAY OUT [hits] [misses] [emulated] [clients]     (default: all four)
  REPLAY is the example of crates/serve that replays a trace over NBD; OUT.txt and OUT.json are written.
Environment: REPS (3), SECONDS_EACH (3), EMULATED (names of workloads, default all), BENCH_DIR (where the file for misses lies),
CLIENTS_SECONDS (10).
"""

import csv
import io
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

REPS = int(os.environ.get("REPS", "3"))
SECONDS = float(os.environ.get("SECONDS_EACH", "3"))
CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU, CLIENT_CPU = str(CPUS[0]), str(CPUS[-1])
EMULATED_CPUS = ",".join(map(str, CPUS[:-1] or CPUS))
CLIENT_CPUS = ",".join(map(str, CPUS[1:] or CPUS))
TICK = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20
# A server or client that takes longer than this is stuck.
PATIENCE = 300


class Output:
    """What is printed also goes to a file; numbers go to a JSON file beside it."""

    def __init__(self, path):
        self.path, self.text, self.data = path, io.StringIO(), {}

    def say(self, line=""):
        print(line)
        sys.stdout.flush()
        self.text.write(line + "\n")

    def table(self, title, first, columns, rows):
        self.say(f"\n{title}\n")
        self.say(f"| {first} | " + " | ".join(columns) + " |")
        self.say("|---|" + "---|" * len(columns))
        for name, cells in rows:
            self.say(f"| {name} | " + " | ".join(cells) + " |")

    def verdict(self, claim, holds, figures):
        self.say(f"\n{'met' if holds else 'NOT MET'}: {claim}: {figures}")
        self.data.setdefault("targets", []).append({"claim": claim, "met": bool(holds), "figures": figures})

    def write(self):
        with open(self.path + ".txt", "w") as out:
            out.write(self.text.getvalue())
        with open(self.path + ".json", "w") as out:
            json.dump(self.data, out, indent=1)


def pinned(cpus, command):
    return ["taskset", "-c", cpus] + command


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Server:
    """A server process with a unix socket, ready when the socket is there."""

    def __init__(self, command, socket, cpus=SERVER_CPU):
        if os.path.exists(socket):
            os.remove(socket)
        self.socket = socket
        self.process = subprocess.Popen(pinned(cpus, command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not os.path.exists(socket):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command} did not start: {self.process.stderr.read()!r}")
            time.sleep(0.02)

    def stop(self):
        """Ends it; returns what it printed."""
        self.process.terminate()
        return self.process.communicate(timeout=60)[0]


def servers(commands):
    """Starts all; ends those that run when one does not start."""
    running = {}
    try:
        for name, (command, socket) in commands.items():
            running[name] = Server(command, socket)
    except Exception:
        for server in running.values():
            server.stop()
        raise
    return running


def fio(target, rw, block, depth, jobs=1, seconds=SECONDS, first=None):
    """One run of fio on a server, or on a file by its name; returns requests and bytes a second, and CPU us a request.
    With `first` only so many bytes from the start are read."""
    command = ["fio", "--name=t", f"--rw={rw}", f"--bs={block}", f"--iodepth={depth}", f"--numjobs={jobs}", "--group_reporting",
               "--thread", "--output-format=json", "--randrepeat=1", "--norandommap", "--time_based", f"--runtime={seconds}",
               "--ramp_time=0.5"] + ([f"--size={first}"] if first else [])
    pid = None
    if isinstance(target, Server):
        command += ["--ioengine=nbd", f"--uri=nbd+unix:///?socket={target.socket}"]
        pid = target.process.pid
    else:
        command += target
    before = cpu_seconds(pid) if pid else 0
    run = subprocess.run(pinned(CLIENT_CPUS if jobs > 1 else CLIENT_CPU, command), capture_output=True, text=True,
                         timeout=PATIENCE)
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {run.stderr}")
    used = (cpu_seconds(pid) - before) * seconds / (seconds + 0.5) if pid else 0  # fio's figures are without the ramp
    job = json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0]["read"]
    return {"iops": job["iops"], "bytes": job["bw_bytes"], "cpu_us": used / max(job["total_ios"], 1) * 1e6}


def hit_servers(folder, image, forerun):
    """Command and socket of every server that is installed, by name."""
    sock = lambda name: os.path.join(folder, name.replace(" ", "-").replace(",", "") + ".sock")
    size = os.path.getsize(image)
    found = {"forerun": [forerun, "--quiet", "serve", "--over", image, "--read-only", "--cache", "512M", "--scheme", "none",
                         "--socket", sock("forerun")]}
    if shutil.which("nbdkit"):
        kit = lambda name, *words: ["nbdkit", "-f", "-U", sock(name), *words]
        found["nbdkit null"] = kit("nbdkit null", "-r", "null", f"size={size}")
        found["nbdkit memory"] = kit("nbdkit memory", "memory", f"size={size}")
        found["nbdkit file"] = kit("nbdkit file", "-r", "file", image)
        found["nbdkit file, readahead"] = kit("nbdkit file, readahead", "-r", "--filter=readahead", "file", image)
        found["nbdkit file, cache"] = kit("nbdkit file, cache", "-r", "--filter=cache", "file", image, "cache-on-read=true")
    if shutil.which("qemu-nbd"):
        found["qemu-nbd"] = ["qemu-nbd", "-r", "-t", "-e", "16", "-f", "raw", "-k", sock("qemu-nbd"), image]
    return {name: (command, sock(name)) for name, command in found.items()}


HITS = [
    ("4 KiB random, depth 1", {"rw": "randread", "block": "4k", "depth": 1}),
    ("4 KiB, depth 32", {"rw": "randread", "block": "4k", "depth": 32}),
    ("4 KiB, 4 × depth 32", {"rw": "randread", "block": "4k", "depth": 32, "jobs": 4}),
    ("64 KiB sequential, depth 1", {"rw": "read", "block": "64k", "depth": 1}),
    ("64 KiB, depth 16", {"rw": "read", "block": "64k", "depth": 16}),
    ("128 KiB sequential, depth 1", {"rw": "read", "block": "128k", "depth": 1}),
    ("128 KiB, depth 16", {"rw": "read", "block": "128k", "depth": 16}),
]
# What an empty reply costs; it reads nothing, so it is no peer.
NO_PEER = ("forerun", "nbdkit null", "the file directly")


def measure_hits(forerun, out):
    folder = tempfile.mkdtemp(dir="/dev/shm")
    running = {}
    try:
        image = os.path.join(folder, "hits.img")
        with open(image, "wb") as file:
            for _ in range(256):
                file.write(os.urandom(MIB))
        running = servers(hit_servers(folder, image, forerun))
        for name, server in running.items():
            if name == "nbdkit memory" and shutil.which("nbdcopy"):
                subprocess.run(["nbdcopy", image, f"nbd+unix:///?socket={server.socket}"], check=True, timeout=PATIENCE)
            fio(server, "read", "1m", 4, seconds=1.0)  # everything is in every cache
        targets = {**running, "the file directly": ["--ioengine=psync", f"--filename={image}"]}
        runs = {name: [[] for _ in HITS] for name in targets}
        for _ in range(REPS):
            for index, (_, words) in enumerate(HITS):
                for name, target in targets.items():
                    runs[name][index].append(fio(target, **words))
    finally:
        for server in running.values():
            server.stop()
        shutil.rmtree(folder)
    report_hits(runs, out)


def report_hits(runs, out):
    figures = {}
    for name, columns in runs.items():
        figures[name] = []
        for (_, words), cell in zip(HITS, columns):
            key, scale, unit = ("iops", 1e3, "k/s") if words["block"] == "4k" else ("bytes", 1e6, "MB/s")
            values = [run[key] / scale for run in cell]
            figures[name].append({"median": statistics.median(values), "best": max(values), "unit": unit,
                                  "cpu_us": min(run["cpu_us"] for run in cell)})
    out.data["hits"] = {"columns": [title for title, _ in HITS], "figures": figures}
    cell = lambda f: f"{f['median']:.1f} ({f['best']:.1f}) {f['unit']}" + (f", {f['cpu_us']:.1f} µs" if f["cpu_us"] else "")
    rows = [(name, [cell(f) for f in cells]) for name, cells in figures.items()]
    peers = [name for name in figures if name not in NO_PEER]
    shares = []
    for index in range(len(HITS)):
        best = max((figures[name][index]["median"] for name in peers), default=0)
        shares.append(figures["forerun"][index]["median"] / best if best else 0)
    if peers:
        rows.append(("forerun, × the best peer", [f"{share:.2f}" for share in shares]))
    out.table("Hits: 256 MiB of random bytes, all in memory; requests or bytes a second, and server CPU for each request",
              "server", [title for title, _ in HITS], rows)
    if not peers:
        return
    small = [share for share, (_, words) in zip(shares, HITS) if words["block"] == "4k"]
    large = [share for share, (_, words) in zip(shares, HITS) if words["block"] != "4k"]
    times = lambda values: ", ".join(f"{value:.2f}" for value in values)
    out.verdict("hits of 4 KiB at least as fast as the best peer at every depth", min(small) >= 1, times(small))
    out.verdict("sequential hits at least 1.2 times the best peer", min(large) >= 1.2, times(large))
    cpu = figures["forerun"][1]["cpu_us"]
    out.verdict("at most 8 µs of server CPU for a hit of 4 KiB at depth 32", cpu <= 8, f"{cpu:.1f} µs")


def miss_servers(folder, image, forerun):
    """Command and socket of every server that reads the image past the page cache, by name. nbdkit's file plugin has no O_DIRECT:
    it reads through the page cache and has the kernel drop each page then."""
    sock = lambda name: os.path.join(folder, name.replace(" ", "-").replace(",", "") + ".sock")
    found = {"forerun": [forerun, "--quiet", "serve", "--over", image, "--read-only", "--cache", "16M", "--scheme", "none",
                         "--socket", sock("forerun")]}
    if shutil.which("nbdkit"):
        found["nbdkit file, cache=none"] = ["nbdkit", "-f", "-U", sock("nbdkit file, cache=none"), "-r", "file", image,
                                            "fadvise=random", "cache=none"]
    if shutil.which("qemu-nbd"):
        for aio in ("io_uring", "native"):
            name = f"qemu-nbd, {aio}"
            found[name] = ["qemu-nbd", "-r", "-t", "-e", "16", "-f", "raw", "--cache=none", f"--aio={aio}", "-k", sock(name), image]
    return {name: (command, sock(name)) for name, command in found.items()}


RAW, HIT = "the file directly (io_uring)", "forerun, hits"


def measure_misses(forerun, out):
    folder = tempfile.mkdtemp(dir=os.path.abspath(os.environ.get("BENCH_DIR", "out/bench")))
    running = {}
    depths = (1, 32)
    try:
        image = os.path.join(folder, "misses.img")
        with open(image, "wb") as file:
            for _ in range(1024):
                file.write(os.urandom(MIB))
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # who reads through the page cache misses too
        running = servers(miss_servers(folder, image, forerun))
        targets = {RAW: ["--ioengine=io_uring", "--direct=1", f"--filename={image}"], **running}
        runs = {name: {depth: [] for depth in depths} for name in [*targets, HIT]}
        for _ in range(REPS):
            for depth in depths:
                for name, target in targets.items():
                    runs[name][depth].append(fio(target, "randread", "4k", depth))
                # 4 MiB stay in its cache: what the way over the socket costs by itself.
                runs[HIT][depth].append(fio(running["forerun"], "randread", "4k", depth, first="4m"))
    finally:
        for server in running.values():
            server.stop()
        shutil.rmtree(folder)
    report_misses(runs, depths, out)


def report_misses(runs, depths, out):
    out.data["misses"] = runs
    rate = lambda name, depth: statistics.median(run["iops"] for run in runs[name][depth])
    share = lambda name, depth: rate(name, depth) / rate(RAW, depth)
    def cell(name, depth):
        text = f"{rate(name, depth) / 1e3:.1f} k/s"
        if name != RAW:
            text += f", {min(run['cpu_us'] for run in runs[name][depth]):.1f} µs"
            text += "" if name == HIT else f", {100 * share(name, depth):.0f}%"
        return text
    rows = [(name, [cell(name, depth) for depth in depths]) for name in runs]
    # At depth 1 a miss is a hit's way over the socket and a read of the device, one after the other.
    both = 1 / (1 / rate(RAW, 1) + 1 / rate(HIT, 1))
    out.table("Misses: 4 KiB random reads of a file of 1 GiB past the page cache, 16 MiB of cache: requests a second, server CPU for "
              "each, share of the file directly", "", [f"depth {depth}" for depth in depths], rows)
    out.say(f"\nA hit and a read of the file, one after the other: {both / 1e3:.1f} k/s, {100 * both / rate(RAW, 1):.0f}% of the file "
            f"directly. forerun's misses at depth 1 are {100 * rate('forerun', 1) / both:.0f}% of that.")
    out.data["misses_one_after_the_other"] = both
    out.verdict("misses at least 90% of the raw device", min(share("forerun", depth) for depth in depths) >= 0.9,
                ", ".join(f"{100 * share('forerun', depth):.0f}% at depth {depth}" for depth in depths))


MEMBERS = 4
# Title, workload of the simulator, how many requests of it are taken (none: all), and members.
EMULATED = [
    ("forward, 1 stream", "forward:processes=1,size=64MiB,block=64KiB", None, MEMBERS),
    ("forward, 4 streams", "forward:processes=4,size=64MiB,block=64KiB", None, MEMBERS),
    ("forward, 16 streams", "forward:processes=16,size=64MiB,block=64KiB", None, MEMBERS),
    ("reverse, 16 streams", "reverse:processes=16,size=64MiB,block=64KiB", None, MEMBERS),
    ("stride 3", "stride:processes=1,size=64MiB,block=64KiB,stride=3", None, MEMBERS),
    ("random", "random:size=1GiB,block=4KiB,requests=1500", None, MEMBERS),
    ("cscope", "standin-cscope:files=4000", 6000, MEMBERS),
    ("TPC-H", "standin-tpch:query=q4", 4000, MEMBERS),
    ("one disk, 4 streams of 4 KiB", "forward:processes=4,size=64MiB,block=4KiB", None, 1),
]
MEMBER_MIB = 1024
SCHEMES = ["none", "linux-6", "asp", "asp+msp", "auto"]
BETWEEN = "nbdkit readahead"
# Beyond this error of the emulator's own timing a comparison in real time means nothing.
LATE_US_MAX = 100


def write_trace(forerun, workload, limit, path):
    """The reads of a workload as a trace of the volume: its files lie end to end, in the order of their numbers."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as raw:
        subprocess.run([forerun, "--quiet", "trace", "synth", workload, "-o", raw.name], check=True, stdout=subprocess.DEVNULL)
        with open(raw.name, newline="") as file:
            reads = [row for row in csv.DictReader(file) if row["op"] == "R"]
    reads = reads[:limit]
    ends = {}
    for row in reads:
        ends[row["file"]] = max(ends.get(row["file"], 0), int(row["off"]) + int(row["bytes"]))
    start, at = {}, 0
    for name in sorted(ends, key=lambda name: (len(name), name)):
        start[name] = at
        at += -(-ends[name] // 4096) * 4096
    with open(path, "w", newline="") as file:
        file.write("t,dev,off,bytes,op,pid,file\n")
        for row in reads:
            file.write(f",,{start[row['file']] + int(row['off'])},{row['bytes']},R,{row['pid']},\n")


def emulated_server(forerun, folder, scheme, members=MEMBERS):
    members = [f"emulate(cheetah-15k4):{folder}/m{n}.img" for n in range(members)]
    socket = os.path.join(folder, "s")
    return Server([forerun, "--json", "serve", "--stripe", "128K", *members, "--cache", "64M", "--scheme", scheme, "--socket", socket,
                   "--connections", "32"], socket, EMULATED_CPUS)


def replayed(replay, server, trace, seconds=None):
    command = [replay, server.socket, trace] + ([str(seconds)] if seconds else [])
    run = subprocess.run(pinned(CLIENT_CPU, command), capture_output=True, text=True, timeout=PATIENCE)
    if run.returncode != 0:
        raise RuntimeError(f"replay of {trace}: {run.stdout}{run.stderr}")
    return json.loads(run.stdout)


def predicted(forerun, trace, scheme, members):
    """Seconds that the simulator says for the same list on the same array."""
    # A server has one cache, whatever layer a scheme is of.
    caches = ["--cache", "0", "--host-cache", "64MiB"] if scheme == "linux-6" else ["--cache", "64MiB", "--host-cache", "0"]
    array = f"raid0:{members}x128KiB" if members > 1 else "single:128KiB"
    command = [forerun, "--quiet", "--json", "sim", trace, "--scheme", scheme, "--array", array, "--device",
               "cheetah-15k4", *caches, "--scheduler", "none", "--cpu", "nbd-2026", "--write",
               "through", "--mode", "closed:1"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return report["runs"][0]["elapsed_ns"] / 1e9


def measure_emulated(forerun, replay, out):
    wanted = os.environ.get("EMULATED")
    chosen = [row for row in EMULATED if not wanted or row[0] in wanted.split(";")]
    figures, late = {}, []
    folder = tempfile.mkdtemp(dir="/dev/shm")
    try:
        for n in range(MEMBERS):
            with open(f"{folder}/m{n}.img", "wb") as file:
                file.truncate(MEMBER_MIB * MIB)
        trace = os.path.join(folder, "trace.csv")
        for title, workload, limit, members in chosen:
            write_trace(forerun, workload, limit, trace)
            rounds = [emulated_round(forerun, replay, folder, trace, members, late) for _ in range(REPS)]
            figures[title] = {name: middle([each[name] for each in rounds]) for name in rounds[0]}
            for scheme in SCHEMES:
                figures[title][scheme]["predicted_s"] = predicted(forerun, trace, scheme, members)
    finally:
        shutil.rmtree(folder)
    report_emulated(figures, late, out)


def emulated_round(forerun, replay, folder, trace, members, late):
    """Each server once."""
    found = {}
    for scheme in SCHEMES:
        server = emulated_server(forerun, folder, scheme, members)
        try:
            run = replayed(replay, server, trace)
        finally:
            summary = server.stop()
        late.append(json.loads(summary.splitlines()[-1])["emulated_late_p99_us"])
        found[scheme] = {"s": run["elapsed_s"], "mib": run["bytes"] / MIB, "late_p99_us": late[-1]}
    if shutil.which("nbdkit"):
        found[BETWEEN] = measure_between(forerun, replay, folder, trace, members)
    return found


def middle(runs):
    """The run of the median time."""
    return sorted(runs, key=lambda run: run["s"])[len(runs) // 2]


def measure_between(forerun, replay, folder, trace, members):
    """nbdkit with its readahead filter before the same emulated members."""
    below = emulated_server(forerun, folder, "none", members)
    try:
        run = read_between(replay, folder, below, trace)
    finally:
        below.stop()
    return {"s": run["elapsed_s"], "mib": run["bytes"] / MIB}


def read_between(replay, folder, below, trace, seconds=None):
    socket = os.path.join(folder, "readahead")
    between = Server(["nbdkit", "-f", "-U", socket, "--filter=readahead", "nbd", f"socket={below.socket}"], socket)
    try:
        return replayed(replay, between, trace, seconds)
    finally:
        between.stop()


def report_emulated(figures, late, out):
    columns = [*SCHEMES, BETWEEN]
    rows, off = [], []
    for title, cells in figures.items():
        row = []
        for name in columns:
            f = cells.get(name)
            if f is None:
                row.append("–")
                continue
            text = f"{f['mib'] / f['s']:.1f}"
            if "predicted_s" in f:
                # How much longer reality took than was predicted: in the table, and in the verdict.
                error = f["s"] / f["predicted_s"] - 1
                text += f" ({f['mib'] / f['predicted_s']:.1f}, {100 * error:+.0f}% time)"
                off.append((abs(error), f"{title} {name}"))
            row.append(text)
        rows.append((title, row))
    out.data["emulated"] = figures
    out.table(f"{MEMBERS} emulated cheetah-15k4 (or one) in real time, strips of 128 KiB, cache of 64 MiB, one request outstanding a stream: MiB/s "
              "(in brackets the simulator's prediction with `--cpu nbd-2026`, and how much longer reality took)", "workload", columns, rows)
    chart(figures, columns, out)
    worst = max(late, default=0)
    out.verdict(f"the emulator's own timing error, p99 of every run at most {LATE_US_MAX} µs (else this comparison is void)",
                worst <= LATE_US_MAX, f"worst run {worst} µs")
    wrong = [name for error, name in off if error > 0.15]
    out.verdict("reality took at most 15% more or less time than the simulator predicted", not wrong,
                f"{len(off) - len(wrong)} of {len(off)}" + (f"; not {', '.join(wrong)}" if wrong else ""))


def chart(figures, columns, out):
    """Bars: how many times as fast as without prefetching."""
    out.say("\nTimes as fast as `none`:\n\n```text")
    width = max(len(name) for name in columns)
    for title, cells in figures.items():
        out.say(title)
        for name in columns:
            if name in cells:
                ratio = cells["none"]["s"] / cells[name]["s"]
                out.say(f"  {name:<{width}}  {'█' * max(1, round(8 * ratio))} {ratio:.2f}")
    out.say("```")


# Clients of one disk, as on slides 15 and 16 of the stream scheduler: each reads a title of its own from its beginning, requests of
# 64 KiB, one after the other, as fast as it is answered.
CLIENTS = [10, 30, 100, 300]
CLIENTS_DISK = "wd-7200"
CLIENTS_SCHEMES = ["none", "linux-6", "streams", "cadence", "auto"]
CLIENTS_CACHE = "256M"
CLIENTS_SECONDS = float(os.environ.get("CLIENTS_SECONDS", "10"))
TITLE = 128 * MIB
REQUEST = 65_536


def write_titles(clients, path):
    """The reads of all clients: more than any of them gets to."""
    with open(path, "w", newline="") as file:
        file.write("t,dev,off,bytes,op,pid,file\n")
        for client in range(clients):
            file.writelines(f",,{client * TITLE + at},{REQUEST},R,{client},\n" for at in range(0, TITLE, REQUEST))


def clients_server(forerun, folder, scheme):
    socket = os.path.join(folder, "s")
    return Server([forerun, "--json", "serve", "--over", f"emulate({CLIENTS_DISK}):{folder}/disk.img", "--cache", CLIENTS_CACHE,
                   "--scheme", scheme, "--socket", socket, "--connections", str(max(CLIENTS) + 8)], socket, EMULATED_CPUS)


def measure_clients(forerun, replay, out):
    figures, late = {}, []
    folder = tempfile.mkdtemp(dir="/dev/shm")
    try:
        with open(f"{folder}/disk.img", "wb") as file:
            file.truncate(max(CLIENTS) * TITLE)
        trace = os.path.join(folder, "trace.csv")
        for clients in CLIENTS:
            write_titles(clients, trace)
            figures[clients] = {}
            for scheme in CLIENTS_SCHEMES:
                server = clients_server(forerun, folder, scheme)
                try:
                    figures[clients][scheme] = replayed(replay, server, trace, CLIENTS_SECONDS)
                finally:
                    summary = server.stop()
                late.append(json.loads(summary.splitlines()[-1])["emulated_late_p99_us"])
            if shutil.which("nbdkit"):
                below = clients_server(forerun, folder, "none")
                try:
                    figures[clients][BETWEEN] = read_between(replay, folder, below, trace, CLIENTS_SECONDS)
                finally:
                    below.stop()
    finally:
        shutil.rmtree(folder)
    report_clients(figures, late, out)


def report_clients(figures, late, out):
    columns = [*CLIENTS_SCHEMES, BETWEEN]
    out.data["clients"] = figures

    def cell(run):
        return f"{run['bytes'] / run['elapsed_s'] / 1e6:.1f} MB/s, {run['p99_us'] / 1e3:.1f} ms" if run else "–"
    rows = [(str(clients), [cell(cells.get(name)) for name in columns]) for clients, cells in figures.items()]
    out.table(f"Clients of one emulated {CLIENTS_DISK} that each read a title in requests of 64 KiB, cache of {CLIENTS_CACHE}iB, for "
              f"{CLIENTS_SECONDS:g} s: what all of them were served, and how long one request in a hundred took at least",
              "clients", columns, rows)
    out.verdict(f"the emulator's own timing error, p99 of every run at most {LATE_US_MAX} µs (else this comparison is void)",
                max(late) <= LATE_US_MAX, f"worst run {max(late)} µs")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    forerun, replay, path = sys.argv[1:4]
    parts = {"hits": lambda: measure_hits(forerun, out), "misses": lambda: measure_misses(forerun, out),
             "emulated": lambda: measure_emulated(forerun, replay, out), "clients": lambda: measure_clients(forerun, replay, out)}
    wanted = sys.argv[4:] or list(parts)
    unknown = set(wanted) - set(parts)
    if unknown:
        sys.exit(f"bench-serve: unknown part {', '.join(sorted(unknown))}: {', '.join(parts)}")
    out = Output(path)
    load = os.getloadavg()[0]
    out.data["machine"] = {"processors": len(CPUS), "kernel": platform.release(), "load_at_start": load, "reps": REPS,
                           "seconds": SECONDS}
    urgent = os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)
    how = ", servers and clients with real-time priority" if urgent else ""
    out.data["machine"]["real_time_priority"] = urgent
    out.say(f"Linux {platform.release()}, {len(CPUS)} processors, load {load:.1f} at the start{how}; median of {REPS} runs of "
            f"{SECONDS:g} s (best in brackets)")
    for name in wanted:
        parts[name]()
    out.say(f"\nload {os.getloadavg()[0]:.1f} at the end")
    out.write()


if __name__ == "__main__":
    main()
