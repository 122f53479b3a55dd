#!/usr/bin/env python3
"""Measures `forerun watch` and `forerun load` on emulated devices, and prints a table.

    scripts/bench-watch.py [--models ssd,cloud] [--works 'git grep,rustc'] [--rounds 5] [--files 4000] [--bin DIR]

As root, on Linux 6.12 or later (`--models none` is a device that answers at once: what is left then is processor time), on devices as scripts/bench_rig.py makes them, each run from cold. Ways of running a command take turns, and medians are printed. *in memory* is a run that finds everything there, and *at most* what that makes of the run alone. Beside the elapsed time stands how long the command's
threads waited for reads: on a machine with other work that is the steadier figure. rustc and PostgreSQL are measured where they are installed.
"""
import json
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import time

import bench_rig

IMPORTS = ("argparse ast asyncio base64 bdb bz2 calendar cgi cmd code codecs concurrent.futures configparser csv ctypes curses dataclasses "
           "decimal difflib dis doctest email.mime.multipart ensurepip fractions ftplib getpass gettext glob gzip hashlib heapq html.parser "
           "http.cookiejar http.server imaplib inspect ipaddress json lib2to3.pgen2.driver logging.config lzma mailbox mimetypes "
           "multiprocessing.pool netrc nntplib optparse pathlib pdb pickletools platform plistlib poplib pprint profile pstats pyclbr pydoc "
           "queue random sched secrets shelve shlex smtplib socketserver sqlite3 ssl statistics string subprocess symtable tabnanny tarfile "
           "telnetlib tempfile textwrap timeit tokenize trace turtle typing unittest.mock urllib.request uuid venv wave webbrowser wsgiref.simple_server "
           "xml.dom.minidom xml.etree.ElementTree xml.sax xmlrpc.client xmlrpc.server zipapp zipfile zoneinfo")

# A program that needs the standard library and the optimiser, and little else.
PROGRAM = """use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Write};
fn main() -> std::io::Result<()> {
    let (mut words, mut lengths) = (HashMap::<String, usize>::new(), BTreeMap::<usize, f64>::new());
    for line in std::io::stdin().lock().lines() {
        for word in line?.split_whitespace() {
            *words.entry(word.to_lowercase()).or_default() += 1;
            *lengths.entry(word.len()).or_default() += 1.0;
        }
    }
    let mut sorted: Vec<_> = words.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut out = std::io::stdout().lock();
    sorted.iter().take(10).try_for_each(|(word, count)| writeln!(out, "{word} {count}"))?;
    lengths.iter().try_for_each(|(length, count)| writeln!(out, "{length:>3} {count:.1}"))
}
"""


# A table in an order that has nothing to do with its index, and no hint left to be written.
TABLE = """create table orders as select (k::bigint * 7919 % 120011)::int as customer, repeat(md5(k::text), 18) as note from generate_series(1, 120000) k;
create index by_customer on orders (customer);
vacuum (freeze, analyze) orders;
checkpoint;
"""
QUERY = "select count(*), sum(length(note)) from orders where customer between 20000 and 22000\n"
BY_INDEX = ["-c", "enable_seqscan=off", "-c", "enable_bitmapscan=off"]


def postgres():
    """The folder of the newest server, where there is one and its user."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    known = subprocess.run(["id", "postgres"], capture_output=True).returncode == 0
    return found[-1].parent if found and known and shutil.which("setpriv") else None


def as_postgres(*words):
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *words]


def make_database(at, table, query):
    # The server does not run as root, and has to come here.
    at.parent.parent.chmod(0o755)
    at.mkdir()
    shutil.chown(at, "postgres", "postgres")
    server = postgres()
    bench_rig.run(*as_postgres(f"{server}/initdb", "-D", str(at), "--no-sync", "-A", "trust", "-E", "UTF8", "--locale=C"), cwd="/")
    bench_rig.run(*as_postgres(f"{server}/postgres", "--single", "-c", "autovacuum=off", "-D", str(at), "postgres"), input=table, cwd="/")
    (at / "query.sql").write_text(query)


def toolchain():
    """The compiler's folder and its host, where there is one."""
    if not shutil.which("rustc"):
        return None
    root = pathlib.Path(bench_rig.run("rustc", "--print", "sysroot").strip())
    host = next(line.split()[1] for line in bench_rig.run("rustc", "-vV").split("\n") if line.startswith("host:"))
    return root, host


def copy_toolchain(to):
    """The compiler and the standard library of its host."""
    root, host = toolchain()
    target = pathlib.Path("lib/rustlib") / host / "lib"
    (to / "bin").mkdir(parents=True)
    (to / target).mkdir(parents=True)
    shutil.copy2(root / "bin/rustc", to / "bin")
    for found in (*(root / "lib").glob("*.so*"), *(root / target).iterdir()):
        if not found.is_dir():
            shutil.copy2(found, to / found.parent.relative_to(root), follow_symlinks=False)
    (to / "words.rs").write_text(PROGRAM)


def make_files(mount, files, big_mib, is_wanted):
    """What the works below need, on a file system that is mounted; `is_wanted` says by a work's name whether it is measured."""
    if is_wanted("git grep"):
        bench_rig.make_repository(mount / "tree", files)
    if is_wanted("git grep (clone)"):
        bench_rig.make_repository(mount / "clone", files, unpacked=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    home = pathlib.Path(sys.base_prefix)
    left_out = shutil.ignore_patterns("site-packages", "dist-packages", "test", "tests", "config-*", "*.a")
    (mount / "py/bin").mkdir(parents=True)
    (mount / "py/lib").mkdir()
    shutil.copy2(os.path.realpath(sys.executable), mount / "py/bin/python3")
    shutil.copytree(home / "lib" / version, mount / "py/lib" / version, ignore=left_out, symlinks=True)
    for library in (home / "lib").glob("libpython*.so*"):
        shutil.copy2(library, mount / "py/lib", follow_symlinks=False)
    if toolchain() and is_wanted("rustc"):
        copy_toolchain(mount / "rust")
    if postgres() and is_wanted("PostgreSQL index"):
        make_database(mount / "pg", TABLE, QUERY)
    bench_rig.fill(mount / "big", big_mib)
    (mount / "stride.py").write_text(bench_rig.STRIDE)
    (mount / "read.py").write_text(bench_rig.READ)


def make_image(image, mount, files, big_mib, works):
    bench_rig.format_image(image, 3 << 10)
    with bench_rig.mounted(image, mount):
        make_files(mount, files, big_mib, lambda name: not works or name in works)


def server_words(at, more=()):
    """A server without a socket that runs what it reads, a query a line, and ends."""
    words = as_postgres(f"{postgres()}/postgres", "--single", "-c", "shared_buffers=16MB", "-c", "autovacuum=off", *more, "-D", str(at), "postgres")
    return ["sh", "-c", f"exec {shlex.join(words)} < {at}/query.sql > /dev/null"]


def cases(mount):
    """Name, folder, command, and whether it is loaded as a whole file."""
    python = ["env", f"PYTHONHOME={mount}/py", f"LD_LIBRARY_PATH={mount}/py/lib", "PYTHONDONTWRITEBYTECODE=1", f"{mount}/py/bin/python3", "-W", "ignore"]
    safe = "\n".join(f"try: import {name}\nexcept ImportError: pass" for name in IMPORTS.split())
    rust = mount / "rust"
    return [
        ("git grep", mount / "tree", ["git", "grep", "-c", "qua"], False),
        ("git grep (clone)", mount / "clone", ["git", "grep", "-c", "qua"], False),
        ("Python imports", mount, python + ["-c", safe], False),
        ("rustc", rust, [f"{rust}/bin/rustc", "-O", "--edition", "2021", "--emit", "obj", "-o", "/dev/null", f"{rust}/words.rs"], False),
        ("PostgreSQL index", mount / "pg", server_words(mount / "pg", BY_INDEX), False),
        ("stride 16K/256K", mount, ["python3", f"{mount}/stride.py", f"{mount}/big"], False),
        ("sequential 64K", mount, ["python3", f"{mount}/read.py", f"{mount}/big"], True),
    ]


def once(rig, folder, words, forerun, watch, cold=True):
    """One run, from cold unless all is to be in memory; returns elapsed s, waited s, bytes from the device, CPU of Forerun s, pages issued and used."""
    if cold:
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
        "used": told.get("used_pages") or 0,
    }


def measure(rig, forerun, rounds, state, works):
    for name, folder, words, whole in cases(rig.mount):
        if works and name not in works or not folder.exists():
            continue
        shutil.rmtree(state, ignore_errors=True)
        watch = ["watch", "--state", str(state)]
        ways = {"alone": None, "recorded": watch + ["--no-replay"], "replayed": watch}
        if whole:
            ways = {"alone": None, "loaded": ["load", f"{rig.mount}/big"]}
        found = {way: [] for way in (*ways, "in memory")}
        for _ in range(rounds):
            for way, how in ways.items():
                if way == "recorded":
                    # Each round begins with no manifest: the record of a first run, then the second run.
                    shutil.rmtree(state, ignore_errors=True)
                found[way].append(once(rig, folder, words, forerun, how))
            # What reading ahead at no cost would come to.
            found["in memory"].append(once(rig, folder, words, forerun, None, cold=False))
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
            "in memory": f"{middle['in memory']['elapsed']:.2f}",
            "gain": f"{alone['elapsed'] / ours['elapsed']:.2f}×",
            "at most": f"{alone['elapsed'] / middle['in memory']['elapsed']:.2f}×",
            "waited": f"{waited:.2f}" if waited is not None else "–",
            "waits now": f"{ours['waited']:.2f}",
            "used": f"{100 * ours['used'] / ours['issued']:.0f}%" if ours["issued"] else "–",
            "bytes": f"{ours['bytes'] / max(1, alone['bytes']):.2f}",
            "CPU": f"{ours['cpu']:.2f}",
        }


def main():
    said = bench_rig.options("measures forerun watch and load on emulated devices (root, Linux 6.12)",
                             models="hdd,ssd,cloud,net", rounds=5, files=4000, big=(256, "MiB of the large file"),
                             works=("", "only these of git grep, git grep (clone), Python imports, rustc, PostgreSQL index, stride 16K/256K, sequential 64K"))
    works = [name for name in said.works.split(",") if name]
    loads = [os.getloadavg()[0]]
    with bench_rig.work_folder("bench-watch") as work:
        make_image(work / "image", work / "mount", said.files, said.big, works)
        each = lambda rig: measure(rig, said.bin / "forerun", said.rounds, work / "state", works)
        rows = bench_rig.on_rigs(said.models.split(","), work, said, each, loads)
    print(bench_rig.head(loads, said.way, f"ext4, read-ahead 128 KiB, cold; medians of {said.rounds}; seconds"))
    print(bench_rig.table(rows))


if __name__ == "__main__":
    main()
