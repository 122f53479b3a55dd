#!/usr/bin/env python3
"""Measures `forerun watch` and `forerun load` on emulated devices, and prints a table.

    scripts/bench-watch.py [--models ssd,cloud] [--rounds 5] [--files 4000] [--bin DIR]

As root, on Linux 6.12 or later. An image in memory with ext4 is shown by forerun-rig with the timing of each model, a loop
device with direct I/O lies over it, and every run begins cold: the file system is mounted anew, nothing else of the machine is
dropped. Ways of running a command take turns, and medians are printed. Beside the elapsed time stands how long the command's
threads waited for reads: on a machine with other work that is the steadier figure. Everything is taken away at the end.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMPORTS = ("argparse ast asyncio base64 bdb bz2 calendar cgi cmd code codecs concurrent.futures configparser csv ctypes curses dataclasses "
           "decimal difflib dis doctest email.mime.multipart ensurepip fractions ftplib getpass gettext glob gzip hashlib heapq html.parser "
           "http.cookiejar http.server imaplib inspect ipaddress json lib2to3.pgen2.driver logging.config lzma mailbox mimetypes "
           "multiprocessing.pool netrc nntplib optparse pathlib pdb pickletools platform plistlib poplib pprint profile pstats pyclbr pydoc "
           "queue random sched secrets shelve shlex smtplib socketserver sqlite3 ssl statistics string subprocess symtable tabnanny tarfile "
           "telnetlib tempfile textwrap timeit tokenize trace turtle typing unittest.mock urllib.request uuid venv wave webbrowser wsgiref.simple_server "
           "xml.dom.minidom xml.etree.ElementTree xml.sax xmlrpc.client xmlrpc.server zipapp zipfile zoneinfo")
STRIDE = ("import os,sys\nf=os.open(sys.argv[1],os.O_RDONLY)\n"
          "for at in range(0,os.fstat(f).st_size,262144): os.pread(f,16384,at)\n")
READ = ("import sys\nf=open(sys.argv[1],'rb',buffering=0)\nb=bytearray(65536)\n"
        "while f.readinto(b): pass\n")


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


def make_tree(at, files):
    """A repository of text files in folders, the same on every machine."""
    chance = random.Random(7)
    words = [bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(5000)]
    for number in range(files):
        folder = at / f"d{number % 37:02}" / f"e{number % 11:02}"
        folder.mkdir(parents=True, exist_ok=True)
        size = int(min(chance.lognormvariate(8.9, 1.3), 1 << 20))
        text = b" ".join(chance.choices(words, k=max(1, size // 7)))
        (folder / f"f{number:05}.txt").write_bytes(text.replace(b" q", b"\nq"))
    git = ["git", "-C", str(at), "-c", "user.email=a@b", "-c", "user.name=a", "-c", "gc.auto=0"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        run(*git, *words)


def make_image(image, mount, files, big_mib):
    with open(image, "wb") as out:
        out.truncate(3 << 30)
    run("mkfs.ext4", "-q", "-F", str(image))
    run("mount", "-o", "loop,noatime", str(image), str(mount))
    try:
        make_tree(mount / "tree", files)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        home = pathlib.Path(sys.base_prefix)
        left_out = shutil.ignore_patterns("site-packages", "dist-packages", "test", "tests", "config-*", "*.a")
        (mount / "py/bin").mkdir(parents=True)
        (mount / "py/lib").mkdir()
        shutil.copy2(os.path.realpath(sys.executable), mount / "py/bin/python3")
        shutil.copytree(home / "lib" / version, mount / "py/lib" / version, ignore=left_out, symlinks=True)
        for library in (home / "lib").glob("libpython*.so*"):
            shutil.copy2(library, mount / "py/lib", follow_symlinks=False)
        with open(mount / "big", "wb") as out:
            chance = random.Random(9)
            for _ in range(big_mib):
                out.write(chance.randbytes(1 << 20))
        (mount / "stride.py").write_text(STRIDE)
        (mount / "read.py").write_text(READ)
    finally:
        run("umount", str(mount))


class Rig:
    """The image under a model, mounted."""

    def __init__(self, model, image, work, binary):
        self.model, self.work = model, work
        self.at, self.mount = work / "rig", work / "mount"
        self.loop = None
        # The timer must not wait for the work it times.
        first = ["chrt", "-f", "50"] if shutil.which("chrt") else []
        self.server = subprocess.Popen(first + [str(binary), "--model", model, "--image", str(image), "--at", str(self.at)])
        while not (self.at / "disk").exists():
            if self.server.poll() is not None:
                sys.exit("bench-watch: forerun-rig did not start")
            time.sleep(0.02)
        self.loop = run("losetup", "--direct-io=on", "--show", "-f", str(self.at / "disk")).strip()
        queue = pathlib.Path("/sys/block") / pathlib.Path(self.loop).name / "queue"
        # In this order: the first resets the second.
        self.setting = queue / "read_ahead_kb"
        self.before = self.setting.read_text()
        for name, value in (("rotational", str(int(model == "hdd"))), ("read_ahead_kb", "128")):
            (queue / name).write_text(value)
            assert (queue / name).read_text().strip() == value, f"{name} is not {value}"
        run("mount", "-o", "noatime", self.loop, str(self.mount))

    def cold(self):
        run("umount", str(self.mount))
        run("mount", "-o", "noatime", self.loop, str(self.mount))

    def stats(self):
        return json.loads((self.at / "stats").read_text())

    def close(self):
        if self.loop:
            subprocess.run(["umount", str(self.mount)], check=False)
            self.setting.write_text(self.before)
            subprocess.run(["losetup", "-d", self.loop], check=False)
        self.server.terminate()
        self.server.wait()


def cases(mount):
    """Name, folder, command, and whether it is loaded as a whole file."""
    python = ["env", f"PYTHONHOME={mount}/py", f"LD_LIBRARY_PATH={mount}/py/lib", "PYTHONDONTWRITEBYTECODE=1", f"{mount}/py/bin/python3", "-W", "ignore"]
    safe = "\n".join(f"try: import {name}\nexcept ImportError: pass" for name in IMPORTS.split())
    return [
        ("git grep", mount / "tree", ["git", "grep", "-c", "qua"], False),
        ("Python imports", mount, python + ["-c", safe], False),
        ("stride 16K/256K", mount, ["python3", f"{mount}/stride.py", f"{mount}/big"], False),
        ("sequential 64K", mount, ["python3", f"{mount}/read.py", f"{mount}/big"], True),
    ]


def once(rig, folder, words, forerun, watch):
    """One run from cold; returns elapsed s, waited s, bytes from the device, CPU of Forerun s, pages issued and used."""
    rig.cold()
    before = rig.stats()
    start = time.monotonic()
    done = subprocess.run([str(forerun)] + watch + ["--json", "--"] + words if watch else words, cwd=folder, capture_output=True, text=True)
    elapsed = time.monotonic() - start
    after = rig.stats()
    told = json.loads(done.stdout.strip().rsplit("\n", 1)[-1]) if watch else {}
    if done.returncode not in (0, 1):
        sys.exit(f"bench-watch: {words}: {done.stderr}")
    return {
        "elapsed": elapsed,
        "waited": told.get("waited_ns", 0) / 1e9,
        "bytes": after["bytes"] - before["bytes"],
        "cpu": told.get("cpu_ns", 0) / 1e9,
        "decision": told.get("decision", ""),
        "issued": told.get("replayed_pages", 0) - told.get("replayed_metadata_pages", 0),
        "used": told.get("used_pages", 0),
    }


def measure(rig, forerun, rounds, state):
    for name, folder, words, whole in cases(rig.mount):
        shutil.rmtree(state, ignore_errors=True)
        watch = ["watch", "--state", str(state)]
        ways = {"alone": None, "recorded": watch + ["--no-replay"], "replayed": watch}
        if whole:
            ways = {"alone": None, "loaded": ["load", f"{rig.mount}/big"]}
        found = {way: [] for way in ways}
        for _ in range(rounds):
            for way, how in ways.items():
                if way == "recorded":
                    # Each round begins with no manifest: the record of a first run, then the second run.
                    shutil.rmtree(state, ignore_errors=True)
                found[way].append(once(rig, folder, words, forerun, how))
        middle = {way: {key: statistics.median(one[key] for one in all_of) for key in ("elapsed", "waited", "bytes", "cpu", "issued", "used")}
                  for way, all_of in found.items()}
        last = list(ways)[-1]
        ours, alone = middle[last], middle["alone"]
        waited = middle.get("recorded", {}).get("waited")
        yield {
            "model": rig.model,
            "work": name,
            "alone": f"{alone['elapsed']:.2f}",
            "recorded": f"{middle['recorded']['elapsed']:.2f}" if "recorded" in middle else "–",
            "read ahead": f"{ours['elapsed']:.2f}",
            "gain": f"{alone['elapsed'] / ours['elapsed']:.2f}×",
            "waited": f"{waited:.2f}" if waited is not None else "–",
            "waits now": f"{ours['waited']:.2f}",
            "used": f"{100 * ours['used'] / ours['issued']:.0f}%" if ours["issued"] else "–",
            "bytes": f"{ours['bytes'] / max(1, alone['bytes']):.2f}",
            "CPU": f"{ours['cpu']:.2f}",
        }


def table(rows):
    names = list(rows[0])
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    line = lambda row: "  ".join(row[name].ljust(widths[name]) if name in ("model", "work") else row[name].rjust(widths[name]) for name in names).rstrip()
    return "\n".join([line({name: name for name in names})] + [line(row) for row in rows])


def main():
    parser = argparse.ArgumentParser(description="measures forerun watch and load on emulated devices (root, Linux 6.12)")
    parser.add_argument("--models", default="hdd,ssd,cloud,net")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--big", type=int, default=256, help="MiB of the large file")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/release", help="folder of forerun and forerun-rig")
    said = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench-watch: run as root: it mounts file systems and traces")
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    work = pathlib.Path(tempfile.mkdtemp(prefix="bench-watch.", dir=shm))
    loads = [os.getloadavg()[0]]
    rows = []
    try:
        for folder in ("rig", "mount"):
            (work / folder).mkdir()
        make_image(work / "image", work / "mount", said.files, said.big)
        for model in said.models.split(","):
            rig = Rig(model, work / "image", work, said.bin / "forerun-rig")
            try:
                for row in measure(rig, said.bin / "forerun", said.rounds, work / "state"):
                    print(table([row]).split("\n")[1], file=sys.stderr, flush=True)
                    rows.append(row)
            finally:
                rig.close()
            loads.append(os.getloadavg()[0])
    finally:
        subprocess.run(["umount", str(work / "mount")], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(work, ignore_errors=True)
    kernel = os.uname().release.split("-")[0]
    print(f"Linux {kernel}, {os.cpu_count()} CPUs, load {' '.join(f'{load:.1f}' for load in loads)}; ext4, read-ahead 128 KiB, cold; "
          f"medians of {said.rounds}; seconds\n")
    print(table(rows))


if __name__ == "__main__":
    main()
