#!/bin/bash
# Records the trace that this project ships (traces/demo.*): what real programs ask of a disk.
#
#   sudo scripts/record-demo-trace.sh [OUT]        OUT: traces/demo.parquet unless given
#
# It makes a sparse image, a loop device on it and an ext4 file system in that, copies documents, headers and
# libraries of this machine into it, makes a git repository and a database of them, and then lets git, grep,
# sqlite3, cscope and tar work there, partly side by side, while Forerun records every request that reaches the
# loop device. Nothing of it is made up by a benchmark tool. Three settings are unusual, on purpose:
#
#   read-ahead off   (read_ahead_kb=0 and inode_readahead_blks=0): the trace then holds what the programs ask and
#                    not what this kernel guesses, so a replay can put its own prefetcher there. The price:
#                    buffered reads are recorded page by page, 4 KiB each.
#   little memory    (a memory control group of 128 MiB around the programs): re-reads reach the disk, as they
#                    do where data is larger than memory, instead of being answered by the page cache.
#   cold start       (drop_caches after the data is made).
#
# Everything happens in a private mount namespace and is taken away at the end. Needs root, Linux with the block
# tracepoints, about 2.5 GB in TMPDIR (/var/tmp), a few minutes, and on Debian:
#   apt-get install -y git grep sqlite3 cscope tar e2fsprogs util-linux gawk
# Environment: FORERUN = the binary (target/release/forerun), MEMORY_MIB = 128, SEED = 1.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "$0")/.." && pwd)
memory_mib=${MEMORY_MIB:-128}
seed=${SEED:-1}
forerun=${FORERUN:-$root/target/release/forerun}
# Copied into the image: folder of this machine, name there. What is absent on a smaller machine is left out.
sources='/usr/include include
/usr/lib/python3.11 python3.11
/usr/lib/python3 python3
/usr/share/perl perl
/usr/share/vim vim
/usr/share/doc doc'

fail() { echo "record-demo-trace: $*" >&2; exit 1; }

# git as anybody would have it, without this machine's settings, and the same each time.
git_here() {
    GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z' \
        git -c user.name=demo -c user.email=demo@example.invalid -c gc.auto=0 -c pack.threads=1 \
        -c pack.windowMemory=16m -c core.fsmonitor=false -C "$data/repo" "$@"
}

check() {
    [ "$(id -u)" = 0 ] || fail "run as root: loop devices, mounts and tracepoints need it"
    local tool
    for tool in git grep sqlite3 cscope tar mkfs.ext4 losetup unshare gawk; do
        command -v "$tool" >/dev/null ||
            fail "no $tool; apt-get install -y git grep sqlite3 cscope tar e2fsprogs util-linux gawk"
    done
    [ -x "$forerun" ] || fail "no binary at FORERUN=$forerun; cargo build --release"
}

# ---------------------------------------------------------------- the data, not recorded

make_file_system() {
    truncate -s 4G "$work/disk.img"
    loop=$(losetup --direct-io=on --show -f "$work/disk.img" 2>/dev/null) || loop=$(losetup --show -f "$work/disk.img")
    loop_name=${loop#/dev/}
    readahead_before=$(cat "/sys/block/$loop_name/queue/read_ahead_kb")
    echo 0 >"/sys/block/$loop_name/queue/read_ahead_kb"
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$loop"
    mount -o inode_readahead_blks=0 "$loop" "$data"
}

# A repository of headers and libraries, one commit per folder, then twenty commits of small edits all over it.
make_repository() {
    mkdir -p "$data/repo"
    git_here init -q
    local from to
    while read -r from to; do
        [ -d "$from" ] || continue
        if [ "$to" = doc ]; then cp -a "$from" "$data/doc"; continue; fi
        cp -a "$from" "$data/repo/$to"
        git_here add -A >/dev/null 2>&1
        git_here commit -q -m "Add $to"
    done <<<"$sources"
    (cd "$data/repo" && find . -path ./.git -prune -o -type f -size -64k -print) | sort >"$work/files"
    local round
    for round in $(seq 1 20); do
        gawk -v seed="$((seed * 1000 + round))" 'BEGIN { srand(seed) } rand() < 0.004' "$work/files" |
            (cd "$data/repo" && while read -r file; do echo "# edit $round" >>"$file"; done)
        git_here commit -q -a -m "Edit $round"
    done
}

# A table with a row for each of the first million lines of the headers; the queries over it, by a seeded generator.
make_database() {
    (cd "$data/repo" && find include -type f -name '*.h' | sort |
        xargs gawk '{ gsub(/[\036\037\000]/, ""); printf "%s\037%d\037%s\036", FILENAME, FNR, $0 }
                    ++n >= 1000000 { exit }' 2>/dev/null || true) | head -c 160000000 >"$work/lines"
    sqlite3 "$data/lines.db" <<SQL
CREATE TABLE lines(file TEXT, line INTEGER, text TEXT);
.mode ascii
.import $work/lines lines
SQL
    local rows
    rows=$(sqlite3 "$data/lines.db" 'SELECT max(rowid) FROM lines')
    gawk -v seed="$seed" -v rows="$rows" 'BEGIN {
        srand(seed)
        for (i = 0; i < 12000; i++) {
            r = rand(); if (i % 2) r = r * r * r    # every second query prefers the front of the table
            printf "SELECT file, line FROM lines WHERE text = (SELECT text FROM lines WHERE rowid = %d) LIMIT 1;\n", 1 + int(r * (rows - 1))
        }
    }' >"$work/points.sql"
    gawk -v seed="$((seed + 1))" -v rows="$rows" 'BEGIN {
        srand(seed)
        for (i = 0; i < 30; i++) {
            a = 1 + int(rand() * (rows - 20000))
            printf "SELECT count(*), sum(length(text)) FROM lines WHERE rowid BETWEEN %d AND %d;\n", a, a + 20000
        }
    }' >"$work/ranges.sql"
}

make_data() {
    make_file_system
    make_repository
    make_database
    mkdir -p "$data/tmp"
    (cd "$data/repo" && find include -type f \( -name '*.h' -o -name '*.hpp' \) | sort) >"$work/cscope.files"
    sync
}

# ---------------------------------------------------------------- the programs, recorded

build_index() { sqlite3 "$data/lines.db" 'CREATE INDEX by_text ON lines(text);'; }
point_queries() { sqlite3 "$data/lines.db" <"$work/points.sql"; }
range_queries() { sqlite3 "$data/lines.db" <"$work/ranges.sql"; }
build_cscope() { (cd "$data/repo" && cscope -b -k -u -i "$work/cscope.files" -f "$data/cscope.out"); }
query_cscope() {
    local symbol
    for symbol in size_t mutex_lock; do
        (cd "$data/repo" && cscope -d -k -L -0 "$symbol" -i "$work/cscope.files" -f "$data/cscope.out")
    done
}
search() { grep -rFc "$1" "$2" || [ $? -le 1 ]; }
archive() { tar -cf "$data/backup.tar" -C "$data" doc repo/python3; }
list_archive() { tar -tf "$data/backup.tar"; }

workload() {
    export SQLITE_TMPDIR=$data/tmp HOME=$work
    build_index >/dev/null &
    build_cscope >/dev/null &
    git_here status --short >/dev/null
    wait
    point_queries >/dev/null &
    search deprecated "$data/repo/python3.11" >/dev/null &
    git_here grep -c deprecated -- perl vim >/dev/null
    wait
    archive &
    query_cscope >/dev/null &
    git_here log -p --since=2025-01-01 -- vim python3 >/dev/null
    wait
    git_here gc -q &
    range_queries >/dev/null &
    search Copyright "$data/doc" >/dev/null
    wait
    search import "$data/repo/python3.11" >/dev/null
    list_archive >/dev/null
    point_queries >/dev/null
    git_here status --short >/dev/null
    sync -f "$data"
}

# ---------------------------------------------------------------- around them

# A control group with a limit on memory, of whichever version this machine has; prints the folder.
make_group() {
    local folder
    if [ -w /sys/fs/cgroup/memory/cgroup.procs ]; then
        folder=/sys/fs/cgroup/memory/forerun-demo-$$
        mkdir "$folder"
        echo "$((memory_mib << 20))" >"$folder/memory.limit_in_bytes"
    else
        folder=/sys/fs/cgroup/forerun-demo-$$
        echo +memory >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
        mkdir "$folder" && [ -f "$folder/memory.max" ] || fail "no memory control group"
        echo "$((memory_mib << 20))" >"$folder/memory.max"
    fi
    echo "$folder"
}

clean_up() {
    set +e
    cd /
    mountpoint -q "$data" && umount "$data"
    if [ -n "${loop:-}" ]; then
        echo "$readahead_before" >"/sys/block/$loop_name/queue/read_ahead_kb"
        losetup -d "$loop"
    fi
    [ -n "${group:-}" ] && rmdir "$group"
    rm -rf --one-file-system "$work"
}

# Debian packages with their versions, or just the names elsewhere.
versions() {
    dpkg-query -W -f='${Package} ${Version}, ' "$@" 2>/dev/null | sed 's/, $//' || echo "$@"
}

describe() {
    cat <<TEXT
# The demo trace

The other traces here are of files: [files.md](files.md).

\`$(basename "$out")\` holds what real programs asked of a real disk, recorded by Forerun itself below the page
cache. It is what \`make demo\` replays. This page was written by the script that recorded it:

    sudo scripts/record-demo-trace.sh

The recording itself was this command (\`LOOP\` is the loop device; the comments of the script say what the
programs do and why read-ahead was off):

    forerun trace record -o $(basename "$out") --device LOOP -- scripts/record-demo-trace.sh --workload …

| | |
|---|---|
| recorded on | $(date -u +%Y-%m-%d) |
| kernel | $(uname -sr), $(nproc) processors |
| disk | loop device on a sparse file, 4 GiB, read_ahead_kb=0 |
| file system | ext4, mkfs defaults, inode_readahead_blks=0, made anew: $(du -sm --apparent-size "$data/repo" "$data/doc" | gawk '{ s += $1 } END { print s }') MB of files |
| memory of the programs | $memory_mib MiB, page cache included (memory control group) |
| seed of the queries | $seed |
| programs | $(versions git grep sqlite3 cscope tar) |
| made with | $(versions e2fsprogs util-linux) |

What the programs did, in five phases; those of one phase ran side by side:

1. sqlite3 builds an index over a table of a million lines of source; cscope indexes C headers; git status
2. sqlite3 answers 12,000 point queries (half uniform, half skewed); grep -r over Python's library; git grep
3. tar archives documents and libraries onto the same disk; cscope answers two queries; git log -p
4. git gc; sqlite3 sums 30 ranges of 20,000 rows; grep -r over the documents
5. one after the other: grep -r over Python's library again, tar lists its archive, the point queries again, git status

There is no content in it: only times, offsets, lengths, and the names of the programs. \`kworker\` is the kernel
writing back what programs wrote, \`jbd2\` the journal of the file system.

## What is in it

\`forerun trace info $(basename "$out")\`:

$("$forerun" trace info "$out" | sed "s|$out|$(basename "$out")|; s/^/    /; s/ *$//")
TEXT
}

main() {
    out=$(realpath -m "${1:-$root/traces/demo.parquet}")
    work=$(mktemp -d "${TMPDIR:-/var/tmp}/forerun-demo.XXXXXX")
    data=$work/mnt
    mkdir "$data"
    trap clean_up EXIT
    echo "making the data ..." >&2
    make_data
    group=$(make_group)
    echo 3 >/proc/sys/vm/drop_caches
    echo "recording ..." >&2
    data=$data work=$work seed=$seed group=$group \
        "$forerun" trace record -o "$out" --device "$loop" -- "$root/scripts/record-demo-trace.sh" --workload
    describe >"$root/traces/README.md"
}

if [ "${1:-}" = --workload ]; then
    echo $$ >"$group/cgroup.procs"
    workload
elif [ "${FORERUN_DEMO_PRIVATE:-}" = yes ]; then
    main "$@"
else
    check
    FORERUN_DEMO_PRIVATE=yes FORERUN=$forerun exec unshare -m --propagation private "$0" "$@"
fi
