#!/usr/bin/env bash
# The server on this machine, beside its peers in the same run, and an emulated array beside what the simulator predicts
# for it. Needs fio with its nbd engine; nbdkit and qemu-nbd are compared where they are installed. Results are printed
# and kept in out/bench/serve.txt. Run it on a quiet machine; compare only figures of one run.
# Usage: scripts/bench-serve.sh [hits] [misses] [emulated]    (default: all)
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p out/bench
command -v fio >/dev/null || { echo "bench-serve: needs fio (Debian: apt-get install fio)" >&2; exit 1; }
python3 scripts/bench-serve.py "${FORERUN:-target/release/forerun}" "$@" | tee out/bench/serve.txt
