"""What the benchmarks on emulated devices share: the device, cold runs, readers, options, tables.

An image in memory with ext4 is shown by forerun-rig with the timing of a model, a loop device with direct I/O lies over it, and every
run begins cold: the file system is mounted anew, nothing else of the machine is dropped. Everything is taken away at the end. The
scripts scripts/bench-watch.py, bench-watch-table.py, bench-watch-all.py, bench-watch-first.py, bench-watch-foretell.py, bench-watch-charge.py, bench-advise.py and bench-fadvise.py say what is measured on it.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What is timed must not wait for other programs of the machine.
FIRST = ["chrt", "-f", "40"] if shutil.which("chrt") else []
GROUPS = pathlib.Path("/sys/fs/cgroup")
# Longest wait for payers to leave a cgroup.
LEFT_SECONDS = 10

# Readers in Python: path, and what else they say.
STRIDE = ("import os,sys\nf=os.open(sys.argv[1],os.O_RDONLY)\n"
          "for at in range(0,os.fstat(f).st_size,262144): os.pread(f,16384,at)\n")
READ = ("import sys\nf=open(sys.argv[1],'rb',buffering=0)\nb=bytearray(65536)\n"
        "while f.readinto(b): pass\n")
REVERSE = ("import os,sys\nf=os.open(sys.argv[1],os.O_RDONLY)\n"
           "for at in range(os.fstat(f).st_size//8-16384,-1,-16384): os.pread(f,16384,at)\n")
EIGHT = ("import os,sys\nfs=[os.open(sys.argv[1],os.O_RDONLY) for _ in range(8)]\nn=os.fstat(fs[0]).st_size//8\n"
         "for at in range(0,n,65536):\n for i,f in enumerate(fs): os.pread(f,65536,i*n+at)\n")
RANDOM = ("import mmap,os,random,sys\nf=os.open(sys.argv[1],os.O_RDONLY)\nm=mmap.mmap(f,0,prot=mmap.PROT_READ)\nrandom.seed(1)\n"
          "for _ in range(int(sys.argv[2])): m[random.randrange(len(m)//4096)*4096]\n")
LONE = ("import mmap,os,sys,time\nf=os.open(sys.argv[1],os.O_RDONLY|os.O_DIRECT)\nb=mmap.mmap(-1,4096)\nt=[]\n"
        "for n in range(int(sys.argv[2])):\n s=time.perf_counter_ns(); os.preadv(f,[b],n*65536); t.append(time.perf_counter_ns()-s)\n"
        "print(sorted(t)[len(t)//2])\n")
NEIGHBOUR = ("import os,random,sys,time\nf=os.open(sys.argv[1],os.O_RDONLY)\nn=os.fstat(f).st_size//4096\nos.posix_fadvise(f,0,0,os.POSIX_FADV_RANDOM)\n"
             "random.seed(5)\nt=[]\nend=time.monotonic()+float(sys.argv[2])\n"
             "while time.monotonic()<end:\n b=time.monotonic(); os.pread(f,4096,random.randrange(n)*4096); t.append(time.monotonic()-b)\n"
             "t.sort(); print(t[len(t)//2]*1e6, t[len(t)*19//20]*1e6, len(t))\n")


@contextlib.contextmanager
def group(controller):
    """A cgroup of this controller; `None` where the first generation has it not and the second no root that can be used."""
    root = GROUPS / controller if (GROUPS / controller / "cgroup.procs").exists() else GROUPS
    if not (root / "cgroup.procs").exists():
        yield None
        return
    folder = root / f"forerun-bench-{os.getpid()}-{controller}"
    folder.mkdir()
    try:
        yield folder
    finally:
        until = time.monotonic() + LEFT_SECONDS
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.05)


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


def fill(path, mib, seed=9):
    """A file of chance, the same on every machine."""
    chance = random.Random(seed)
    with open(path, "wb") as out:
        out.writelines(chance.randbytes(1 << 20) for _ in range(mib))


def make_tree(at, files, unpacked=False):
    """Text files in folders, the same on every machine; `unpacked`: one folder after the other, as tar and git leave them."""
    chance = random.Random(7)
    words = [bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(5000)]
    for number in sorted(range(files), key=lambda number: (number % 37, number % 11)) if unpacked else range(files):
        folder = at / f"d{number % 37:02}" / f"e{number % 11:02}"
        folder.mkdir(parents=True, exist_ok=True)
        size = int(min(chance.lognormvariate(8.9, 1.3), 1 << 20))
        text = b" ".join(chance.choices(words, k=max(1, size // 7)))
        (folder / f"f{number:05}.txt").write_bytes(text.replace(b" q", b"\nq"))


def make_repository(at, files, unpacked=False):
    """The same as a repository."""
    make_tree(at, files, unpacked)
    git = ["git", "-C", str(at), "-c", "user.email=a@b", "-c", "user.name=a", "-c", "gc.auto=0"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        run(*git, *words)


@contextlib.contextmanager
def mounted(image, mount):
    """The image as it is, for files to be put on it."""
    run("mount", "-o", "loop,noatime", str(image), str(mount))
    try:
        yield mount
    finally:
        run("umount", str(mount))


# Without discarding, which would make holes again, and ext4 with all its tables: it zeroes those of a lazy one behind the readers, the
# loop device learns by this that the file below cannot be zeroed, notes it, and with that the kernel sets read_ahead_kb anew.
SYSTEMS = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
    "btrfs": ["mkfs.btrfs", "-q", "-f", "-K"],
}


def format_image(image, mib, solid=False, system="ext4"):
    """An empty file system; `solid` writes every block of the image first and reads it once, so that the disk below holds what is
    read of it: a hole takes no time, and a block that was never touched takes more than the next time."""
    with open(image, "wb") as out:
        if solid:
            for _ in range(mib):
                out.write(os.urandom(1 << 20))
            out.flush()
            os.fsync(out.fileno())
        else:
            out.truncate(mib << 20)
    run(*SYSTEMS[system], str(image))
    if solid:
        run("dd", f"if={image}", "of=/dev/null", "bs=1M", "iflag=direct")


@contextlib.contextmanager
def work_folder(name, place=None):
    """A folder in memory, or at a place, with places for a rig; nothing of it is left."""
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    work = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}.", dir=place or shm))
    try:
        for folder in ("rig", "mount", "state"):
            (work / folder).mkdir()
        yield work
    finally:
        subprocess.run(["umount", str(work / "mount")], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(work, ignore_errors=True)


class Rig:
    """The image under a model, mounted; under `own` the image itself, so that the disk is that on which it lies."""

    def __init__(self, model, image, work, binary, way=0):
        self.way = way
        self.model, self.work = model, work
        self.at, self.mount = work / "rig", work / "mount"
        self.loop = self.server = None
        if model != "own":
            self.serve(image, binary)
            image = self.at / "disk"
        self.loop = run("losetup", "--direct-io=on", "--show", "-f", str(image)).strip()
        queue = pathlib.Path("/sys/block") / pathlib.Path(self.loop).name / "queue"
        self.setting = queue / "read_ahead_kb"
        self.before = self.setting.read_text()
        (queue / "rotational").write_text(str(int(model == "hdd")))
        run("mount", "-o", "noatime", self.loop, str(self.mount))
        self.set_window(128)

    def set_window(self, kib):
        """Sets read_ahead_kb for this and all further runs. What changes limits of the queue sets it anew, as `rotational` does, so it comes last."""
        self.window = str(kib)
        self.setting.write_text(self.window)
        self.check_window()

    def check_window(self):
        """A figure with another window than its table says would be worse than none."""
        found = self.setting.read_text().strip()
        assert found == self.window, f"read_ahead_kb of {self.loop} is {found}, and was set to {self.window}"

    def serve(self, image, binary):
        # The timer must not wait for the work it times.
        first = ["chrt", "-f", "50"] if shutil.which("chrt") else []
        words = [str(binary), "--model", self.model, "--image", str(image), "--at", str(self.at), "--way", str(self.way)]
        self.server = subprocess.Popen(first + words)
        while not (self.at / "disk").exists():
            if self.server.poll() is not None:
                sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: forerun-rig did not start")
            time.sleep(0.02)

    def cold(self):
        """The next run finds nothing in memory; the one before had the window that was set."""
        self.check_window()
        run("umount", str(self.mount))
        run("mount", "-o", "noatime", self.loop, str(self.mount))
        self.set_window(self.window)

    def stats(self):
        return json.loads((self.at / "stats").read_text())

    def close(self):
        if self.loop:
            subprocess.run(["umount", str(self.mount)], check=False)
            self.setting.write_text(self.before)
            subprocess.run(["losetup", "-d", self.loop], check=False)
        if self.server:
            self.server.terminate()
            self.server.wait()


def way(work, binary, count=4000):
    """What the way to the rig and back takes, nanoseconds: the median of lone reads of 4 KiB with no model."""
    rig = Rig("none", work / "image", work, binary)
    try:
        return int(float(run(*FIRST, "python3", "-c", LONE, rig.loop, str(count))))
    finally:
        rig.close()


# A device without any times of its own, so that what the rig takes itself is seen.
NO_TIME = """kind = "cloud"
about = "No time at all"
sources = ["Made up: what is left is the rig's"]

[volume]
sectors = 1953525168
operations_per_s = 100000000
throughput_mib_per_s = 1000000
burst_ms = 10
operation_bytes = 1048576
latency_median_us = 1.0
latency_p99_us = 1.0
queue_depth = 128
"""


def rate(work, binary, file="big"):
    """How many bytes a second a reader in order gets through the rig at most, whatever the model: the median of some reads of a file with windows of 8 MiB."""
    model = work / "no-time.toml"
    model.write_text(NO_TIME)
    rig = Rig(str(model), work / "image", work, binary)
    try:
        rig.set_window(8192)
        took = []
        for _ in range(7):
            rig.cold()
            took.append(float(run(*FIRST, sys.executable, "-S", "-c", f"import time\n_begun=time.monotonic()\n{READ}print(time.monotonic()-_begun)", str(rig.mount / file))))
        return int((rig.mount / file).stat().st_size / statistics.median(took))
    finally:
        rig.close()


def on_rigs(models, work, said, each, loads=None):
    """What `each` yields of the image under each model in turn, said on stderr as it comes."""
    rows = []
    if said.way < 0 and models != ["own"]:
        said.way = way(work, said.bin / "forerun-rig")
    for model in models:
        rig = Rig(model, work / "image", work, said.bin / "forerun-rig", max(0, said.way))
        try:
            for row in each(rig):
                print(table([row]).split("\n")[1], file=sys.stderr, flush=True)
                rows.append(row)
        finally:
            rig.close()
        if loads is not None:
            loads.append(os.getloadavg()[0])
    return rows


class Daemon:
    """`forerun watch --only` on the rig's file system."""

    def __init__(self, forerun, mount, state, first=(), more=()):
        words = [*first, str(forerun), "watch", "--only", str(mount), "--state", str(state), "--json", "--quiet", *more]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline()
        assert json.loads(ready)["event"] == "ready", ready

    def end(self):
        """Its events, the last of them the sums; what it says of a recording is none."""
        self.process.send_signal(signal.SIGTERM)
        lines = [json.loads(line) for line in self.process.stdout if line.startswith('{"event"')]
        assert self.process.wait() == 0
        return lines


def table(rows, left=("model", "work", "program", "advice")):
    names = list(rows[0])
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    pad = lambda name, text: text.ljust(widths[name]) if name in left else text.rjust(widths[name])
    line = lambda row: "  ".join(pad(name, row[name]) for name in names).rstrip()
    return "\n".join([line({name: name for name in names})] + [line(row) for row in rows])


def head(loads, way, more):
    """The line above a table: the machine, what else it did, what the way to the rig and back takes, and how was measured."""
    taken = f"{way / 1000:.0f} µs of way taken off; " if way else ""
    kernel = os.uname().release.split("-")[0]
    return f"Linux {kernel}, {os.cpu_count()} CPUs, load {' '.join(f'{load:.1f}' for load in loads)}; {taken}{more}\n"


def options(description, **usual):
    """Options that every benchmark on the rig has, and those given by name with their default (and help)."""
    if os.geteuid() != 0 and not {"-h", "--help"} & set(sys.argv):
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: run as root: it mounts file systems and traces")
    parser = argparse.ArgumentParser(description=description)
    for name, value in usual.items():
        value, words = value if isinstance(value, tuple) else (value, None)
        parser.add_argument(f"--{name}", type=type(value), default=value, help=words)
    parser.add_argument("--way", type=int, default=0, help="nanoseconds that the way to the rig and back takes: answers leave so much earlier; -1 measures it")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/release", help="folder of forerun and forerun-rig")
    return parser.parse_args()
