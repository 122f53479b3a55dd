#!/usr/bin/env python3
"""Measures `forerun serve` beside nbdkit and qemu-nbd, and an emulated array beside the simulator's prediction.

Server and client are pinned to one processor each where there are two. Runs are interleaved, so a change of the machine's
mood hits all servers alike; what is printed is the median of REPS runs, the best in brackets. CPU is the server's own
time, user and system, for each request. Usage: bench-serve.py FORERUN [hits] [misses] [emulated]
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

REPS = int(os.environ.get("REPS", "3"))
SECONDS = float(os.environ.get("SECONDS_EACH", "3"))
CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU, CLIENT_CPU = CPUS[0], CPUS[-1]
TICK = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20


def pinned(cpu, command):
    return ["taskset", "-c", str(cpu)] + command


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Server:
    """A server process with a unix socket, ready when it answers."""

    def __init__(self, command, socket):
        self.socket = socket
        self.process = subprocess.Popen(pinned(SERVER_CPU, command), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not os.path.exists(socket):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command} did not start: {self.process.stderr.read()!r}")
            time.sleep(0.02)

    def stop(self):
        self.process.terminate()
        return self.process.communicate(timeout=60)[1].decode()


def fio(server, rw, block, depth, jobs=1, size=None, extra=(), seconds=SECONDS):
    """One run of fio; returns (requests a second, bytes a second, server CPU microseconds a request)."""
    command = ["fio", "--name=t", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={server.socket}", f"--rw={rw}"]
    command += [f"--bs={block}", f"--iodepth={depth}", f"--numjobs={jobs}", "--group_reporting", "--thread"]
    command += ["--output-format=json", "--randrepeat=1", "--norandommap"]
    if seconds:
        command += ["--time_based", f"--runtime={seconds}", "--ramp_time=0.5"]
    if size:
        command += [f"--size={size}"]
    before = cpu_seconds(server.process.pid)
    run = subprocess.run(pinned(CLIENT_CPU, command + list(extra)), capture_output=True, text=True, check=True)
    used = cpu_seconds(server.process.pid) - before
    text = run.stdout
    job = json.loads(text[text.index("{"):])["jobs"][0]["read"]
    # Ramp time is not in fio's figures but in the server's CPU: scale by the time that was measured.
    share = (seconds / (seconds + 0.5)) if seconds else 1.0
    return job["iops"], job["bw_bytes"], used * share / max(job["total_ios"], 1) * 1e6, job["runtime"] / 1000


def table(title, columns, rows):
    print(f"\n{title}\n")
    print("| server | " + " | ".join(columns) + " |")
    print("|---|" + "---|" * len(columns))
    for name, cells in rows:
        print(f"| {name} | " + " | ".join(cells) + " |")
    sys.stdout.flush()


def peers(folder, image, forerun, cache, forerun_extra=()):
    """Name, command and socket of every server that is installed."""
    sock = lambda name: os.path.join(folder, name + ".sock")
    found = {"forerun": [forerun, "--quiet", "serve", "--over", image, "--read-only", "--cache", cache, "--scheme", "none",
                         "--socket", sock("forerun"), *forerun_extra]}
    if shutil.which("nbdkit"):
        size = os.path.getsize(image)
        for name, words in {
            "nbdkit null": ["null", f"size={size}"],
            "nbdkit memory": ["memory", f"size={size}"],
            "nbdkit file": ["file", image],
            "nbdkit file, readahead": ["--filter=readahead", "file", image],
        }.items():
            found[name] = ["nbdkit", "-f", "-r" if "memory" not in name else "-v0", "-U", sock(name), *words]
            if "memory" in name:
                found[name].remove("-v0")
    if shutil.which("qemu-nbd"):
        found["qemu-nbd"] = ["qemu-nbd", "-r", "-t", "-e", "16", "-f", "raw", "-k", sock("qemu-nbd"), image]
    return {name: (command, sock(name)) for name, command in found.items()}


HITS = [
    ("4 KiB random, depth 1", dict(rw="randread", block="4k", depth=1)),
    ("depth 32", dict(rw="randread", block="4k", depth=32)),
    ("4 × depth 32", dict(rw="randread", block="4k", depth=32, jobs=4)),
    ("64 KiB sequential, depth 1", dict(rw="read", block="64k", depth=1)),
    ("128 KiB sequential, depth 16", dict(rw="read", block="128k", depth=16)),
]


def measure_hits(forerun):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        image = os.path.join(folder, "hits.img")
        with open(image, "wb") as out:
            for _ in range(256):
                out.write(os.urandom(MIB))
        servers = {}
        try:
            for name, (command, socket) in peers(folder, image, forerun, "512M").items():
                servers[name] = Server(command, socket)
            if "nbdkit memory" in servers and shutil.which("nbdcopy"):
                uri = f"nbd+unix:///?socket={servers['nbdkit memory'].socket}"
                subprocess.run(["nbdcopy", image, uri], check=True)
            for server in servers.values():
                fio(server, "read", "1m", 4, seconds=1.0)  # everything is in every cache
            figures = {name: [[] for _ in HITS] for name in servers}
            for _ in range(REPS):
                for index, (_, words) in enumerate(HITS):
                    for name, server in servers.items():
                        figures[name][index].append(fio(server, **words))
        finally:
            for server in servers.values():
                server.stop()
        rows = []
        for name, columns in figures.items():
            cells = []
            for (_, words), runs in zip(HITS, columns):
                big = words["block"] != "4k"
                values = [run[1] / 1e6 if big else run[0] / 1e3 for run in runs]
                cpu = min(run[2] for run in runs)
                unit = "MB/s" if big else "k/s"
                cells.append(f"{statistics.median(values):.1f} ({max(values):.1f}) {unit}, {cpu:.1f} µs")
            rows.append((name, cells))
        table("Hits: everything is in memory; requests or bytes a second, server CPU for each request",
              [title for title, _ in HITS], rows)


def measure_misses(forerun):
    folder = tempfile.mkdtemp(dir=os.environ.get("BENCH_DIR", "out/bench"))
    try:
        image = os.path.join(folder, "misses.img")
        with open(image, "wb") as out:
            for _ in range(1024):
                out.write(os.urandom(MIB))
        os.sync()
        server = Server([forerun, "--quiet", "serve", "--over", image, "--read-only", "--cache", "16M", "--scheme", "none",
                         "--socket", os.path.join(folder, "s")], os.path.join(folder, "s"))
        raw, ours = {1: [], 32: []}, {1: [], 32: []}
        try:
            for _ in range(REPS):
                for depth in (1, 32):
                    ours[depth].append(fio(server, "randread", "4k", depth)[0])
                    command = ["fio", "--name=t", "--ioengine=io_uring", "--direct=1", f"--filename={image}", "--rw=randread",
                               "--bs=4k", f"--iodepth={depth}", "--output-format=json", "--time_based", "--norandommap",
                               f"--runtime={SECONDS}", "--ramp_time=0.5", "--thread"]
                    run = subprocess.run(pinned(CLIENT_CPU, command), capture_output=True, text=True, check=True)
                    raw[depth].append(json.loads(run.stdout)["jobs"][0]["read"]["iops"])
        finally:
            server.stop()
        rows = [(f"depth {depth}", [f"{statistics.median(raw[depth]) / 1e3:.1f} k/s", f"{statistics.median(ours[depth]) / 1e3:.1f} k/s",
                                    f"{100 * statistics.median(ours[depth]) / statistics.median(raw[depth]):.0f}%"]) for depth in (1, 32)]
        table("Misses: 4 KiB random reads of a 1 GiB file around the page cache, cache of 16 MiB",
              ["the file directly", "forerun", "share"], rows)
    finally:
        shutil.rmtree(folder)


# Name, workload of the simulator, words for fio; sizes are of all processes together.
EMULATED = [
    ("forward, 1 stream", "forward:processes=1,size=64MiB,block=64KiB", dict(rw="read", jobs=1, block="64k"), 64),
    ("forward, 4 streams", "forward:processes=4,size=64MiB,block=64KiB", dict(rw="read", jobs=4, block="64k"), 64),
    ("forward, 16 streams", "forward:processes=16,size=64MiB,block=64KiB", dict(rw="read", jobs=16, block="64k"), 64),
    ("reverse, 16 streams", "reverse:processes=16,size=32MiB,block=64KiB", dict(rw="read:-128k", jobs=16, block="64k"), 32),
    ("random", "random:size=1GiB,block=4KiB,requests=800", dict(rw="randread", jobs=1, block="4k"), None),
]
ARRAY_MEMBERS = 4
MEMBER_MIB = 1024
SCHEMES = ["none", "asp", "asp+msp"]


def emulated_server(forerun, folder, scheme):
    members = [f"emulate(cheetah-15k4):{folder}/m{n}.img" for n in range(ARRAY_MEMBERS)]
    socket = os.path.join(folder, "s")
    if os.path.exists(socket):
        os.remove(socket)
    return Server([forerun, "--json", "serve", "--stripe", "128K", *members, "--cache", "64M", "--scheme", scheme, "--socket", socket,
                   "--connections", "32"], socket)


def run_emulated(server, words, mib):
    jobs = words["jobs"]
    if mib is None:
        extra = ["--number_ios=800"]
        size = ARRAY_MEMBERS * MEMBER_MIB * MIB // 4
    else:
        size = mib * MIB // jobs
        extra = [f"--offset_increment={size}"]
    _, _, _, seconds = fio(server, words["rw"], words["block"], 1, jobs=jobs, size=size, extra=extra, seconds=None)
    moved = 800 * 4096 if mib is None else mib * MIB
    return moved / MIB / max(seconds, 1e-3)


def predicted(forerun, workload, scheme):
    command = [forerun, "--quiet", "--json", "sim", workload, "--scheme", scheme, "--array", f"raid0:{ARRAY_MEMBERS}x128KiB", "--device",
               "cheetah-15k4", "--cache", "64MiB", "--host-cache", "0", "--scheduler", "none", "--cpu", "none", "--write", "through"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    report = report.get("run", report)
    return report["bytes_read"] / MIB / (report["elapsed_ns"] / 1e9)


def measure_emulated(forerun):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for n in range(ARRAY_MEMBERS):
            with open(f"{folder}/m{n}.img", "wb") as out:
                out.truncate(MEMBER_MIB * MIB)
        rows, late = [], []
        for title, workload, words, mib in EMULATED:
            cells = []
            for scheme in SCHEMES:
                server = emulated_server(forerun, folder, scheme)
                measured = run_emulated(server, words, mib)
                server.process.terminate()
                out = server.process.communicate(timeout=60)
                model = predicted(forerun, workload, scheme)
                cells.append(f"{measured:.1f} ({model:.1f}, {100 * (measured / model - 1):+.0f}%)")
            if shutil.which("nbdkit"):
                server = emulated_server(forerun, folder, "none")
                socket = os.path.join(folder, "readahead")
                if os.path.exists(socket):
                    os.remove(socket)
                between = Server(["nbdkit", "-f", "-U", socket, "--filter=readahead", "nbd", f"socket={server.socket}"], socket)
                cells.append(f"{run_emulated(between, words, mib):.1f}")
                between.stop()
                server.stop()
            else:
                cells.append("–")
            rows.append((title, cells))
        table(f"{ARRAY_MEMBERS} emulated cheetah-15k4, strips of 128 KiB, cache 64 MiB, one request outstanding a stream: MiB/s "
              "(the simulator's prediction, and how far it is)", [*SCHEMES, "nbdkit readahead over none"], rows)


def main():
    forerun, wanted = sys.argv[1], sys.argv[2:] or ["hits", "misses", "emulated"]
    load = os.getloadavg()[0]
    print(f"{len(CPUS)} processors, load {load:.1f} at the start, median of {REPS} runs of {SECONDS:g} s (best in brackets)")
    for name in wanted:
        {"hits": measure_hits, "misses": measure_misses, "emulated": measure_emulated}[name](forerun)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
