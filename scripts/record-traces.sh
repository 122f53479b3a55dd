#!/bin/bash
# Records the file traces that this project ships (traces/*.parquet but the demo's): what real programs read, file by
# file, with the time that they computed between two reads.
#
#   sudo scripts/record-traces.sh [OUT-FOLDER [NAME…]]       OUT-FOLDER: traces; NAME: only these traces
#
# It makes its inputs itself, from a seed and nothing else, so that a fresh machine records the same reads: a source
# tree of C with a Makefile, documents of made-up prose, a database as the TPC-H benchmark's in SQLite, and the frames of
# a scene. They lie on an ext4 file system in a sparse file on a loop device; every program begins with a cold cache
# (drop_caches). Forerun then records what cscope, ripgrep, gcc, sqlite3 and a viewer read (forerun trace record --files).
#
#   cscope       cscope indexes the tree and answers queries from its index, again and again
#   ripgrep      ripgrep looks through all documents, for several words one after the other
#   gcc          make compiles and links a part of the tree
#   tpch-index   queries over the database with index plans forced: mostly random reads
#   tpch-scan    queries with the plans that SQLite chooses, without indexes to help: sequential scans and joins
#   view         a viewer shows the frames of the scene, in rounds: sequential and looping reads, thinking between frames
#   mix-seq      gcc, cscope and view at once
#   mix-random   ripgrep and tpch-index at once
#
# Needs root, Linux 6.12 or later (the page cache's tracepoints), 2 GB in TMPDIR (/var/tmp), some minutes, and on Debian:
#   apt-get install -y cscope ripgrep gcc make sqlite3 python3 e2fsprogs util-linux
# (it installs what is missing). Environment: FORERUN = the binary (target/release/forerun), SEED = 1.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "$0")/.." && pwd)
forerun=${FORERUN:-$root/target/release/forerun}
seed=${SEED:-1}
all=(cscope ripgrep gcc tpch-index tpch-scan view mix-seq mix-random)
names=("${all[@]}")
packages=(cscope ripgrep gcc make sqlite3 python3 e2fsprogs util-linux)

fail() { echo "record-traces: $*" >&2; exit 1; }

check() {
    [ "$(id -u)" = 0 ] || fail "run as root: loop devices, mounts and tracepoints need it"
    [ -x "$forerun" ] || fail "no binary at FORERUN=$forerun; cargo build --release"
    local tool missing=no
    for tool in cscope rg gcc make sqlite3 python3 mkfs.ext4 losetup unshare; do
        command -v "$tool" >/dev/null || missing=yes
    done
    if [ "$missing" = yes ]; then
        command -v apt-get >/dev/null || fail "install ${packages[*]}"
        apt-get install -y --no-install-recommends "${packages[@]}" >/dev/null || fail "cannot install ${packages[*]}"
    fi
}

mount_tracing() {
    [ -d /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing ||
        fail "cannot mount tracefs at /sys/kernel/tracing: the recorder reads the kernel's tracepoints there"
}

make_file_system() {
    truncate -s 2G "$work/disk.img"
    loop=$(losetup --show -f "$work/disk.img")
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$loop"
    mount "$loop" "$data"
}

# ---------------------------------------------------------------- what is recorded

run_cscope() {
    cd "$data/tree"
    cscope -b -k -q -i files.txt -f "$data/cscope.out"
    local round symbol
    for round in 1 2 3; do
        for symbol in value_0007 value_0123 step_0042 table_0311; do
            cscope -d -k -L -0 "$symbol" -i files.txt -f "$data/plain.out" >/dev/null
        done
    done
}

run_ripgrep() {
    local word
    for word in 'harbour' 'the quiet' 'engine[s]? of' 'zzz-not-there'; do
        rg --no-mmap --threads 1 --sort path --count "$word" "$data/documents" >/dev/null || [ $? -le 1 ]
    done
}

run_gcc() {
    rm -rf "$data/build"
    make -s -C "$data/tree" BUILD="$data/build" UNITS="${GCC_UNITS:-60}"
}

run_tpch_index() { head -n "${INDEX_LINES:-1000}" "$data/index.sql" | sqlite3 "$data/tpch.db" >/dev/null; }
run_tpch_scan() { sqlite3 "$data/scan.db" <"$data/scan.sql" >/dev/null; }
run_view() { python3 "$data/view.py" "$data/scene" "${VIEW_ROUNDS:-3}"; }

run_mix_seq() {
    run_gcc &
    run_cscope &
    run_view &
    wait
}
run_mix_random() {
    run_ripgrep &
    INDEX_LINES=200 run_tpch_index &
    wait
}

# ---------------------------------------------------------------- around them

clean_up() {
    set +e
    cd /
    mountpoint -q "$data" && umount "$data"
    rmdir "$data" 2>/dev/null
    [ -n "${loop:-}" ] && losetup -d "$loop"
    rm -rf --one-file-system "$work"
}

describe() {
    local name units
    units=$(wc -l <"$data/tree/files.txt")
    cat <<TEXT
# The traces of files

What real programs read, file by file, recorded by Forerun itself above the page cache: path, first byte, length, time, and
how long each read took. [docs/traces.md](../docs/traces.md) says how such a trace is made and replayed. This page and the
traces were written by

    sudo scripts/record-traces.sh        # or: make record-traces

which makes all inputs itself, from a seed. There is no content in a trace. Its comments say what each program does:

| trace | what it is |
|---|---|
| cscope | cscope indexes a tree of ${units} C files, and answers twelve queries from an uncompressed index: the index again and again |
| ripgrep | ripgrep looks through all documents for four words, one after the other |
| gcc | make compiles and links sixty files: compiler, assembler and linker, one after the other |
| tpch-index | 330 queries shaped as TPC-H's over SQLite, through indexes, and four that scan a small table: mostly random reads of 4 KiB |
| tpch-scan | five queries with SQLite's own plans and no indexes: scans and a join |
| view | a viewer shows the frames of a scene in three rounds, each mesh twice, computing on each piece |
| mix-seq | gcc, cscope and view at once |
| mix-random | ripgrep and the first two hundred queries of tpch-index at once |

| | |
|---|---|
| recorded on | $(date -u +%Y-%m-%d) |
| kernel | $(uname -sr), $(nproc) processors |
| file system | ext4 on a loop device, mkfs defaults, its read-ahead $(cat "/sys/block/${loop#/dev/}/queue/read_ahead_kb") KiB |
| seed of the inputs | $seed |
| programs | $(dpkg-query -W -f='${Package} ${Version}, ' cscope ripgrep gcc make sqlite3 python3 2>/dev/null | sed 's/, $//') |

| trace | reads | files | bytes read | footprint | processes | sequential requests | lasted |
|---|---|---|---|---|---|---|---|
TEXT
    for name in "${all[@]}"; do
        [ -f "$out/$name.parquet" ] || continue
        "$forerun" trace info --json "$out/$name.parquet" | python3 -c '
import json, sys
i = json.load(sys.stdin)
mib = lambda key: f"{i[key] / 2**20:.1f} MiB"
count = lambda key: f"{i[key]:,}"
share, seconds = 100 * i["sequential_share"], i["duration_ns"] / 1e9
cells = [sys.argv[1], count("reads"), count("files"), mib("bytes_read"), mib("footprint_bytes"), count("processes")]
print("|", " | ".join([*cells, f"{share:.1f}%", f"{seconds:.1f} s"]), "|")' "$name"
    done
}

main() {
    out=$(realpath -m "${1:-$root/traces}")
    [ $# -le 1 ] || names=("${@:2}")
    work=$(mktemp -d "${TMPDIR:-/var/tmp}/forerun-traces.XXXXXX")
    data=/mnt/forerun
    mkdir -p "$out" "$data"
    loop=
    trap clean_up EXIT
    echo "making the inputs ..." >&2
    mount_tracing
    make_file_system
    python3 "$root/scripts/trace-inputs.py" "$data" "$seed"
    (cd "$data/tree" && cscope -b -k -c -i files.txt -f "$data/plain.out")
    sync
    local name
    for name in "${names[@]}"; do
        echo "recording $name ..." >&2
        rm -rf "$data/build" "$data"/cscope.out*
        sync
        echo 3 >/proc/sys/vm/drop_caches
        data=$data "$forerun" trace record --files --dir "$data" -o "$out/$name.parquet" -- \
            "$root/scripts/record-traces.sh" --run "$name" >&2
    done
    describe >"$out/files.md"
}

if [ "${1:-}" = --run ]; then
    "run_${2//-/_}"
elif [ "${FORERUN_TRACES_PRIVATE:-}" = yes ]; then
    main "$@"
else
    check
    FORERUN_TRACES_PRIVATE=yes FORERUN=$forerun exec unshare -m --propagation private "$0" "$@"
fi
