#!/usr/bin/env bash
# The server on this machine, beside its peers in the same run, and an emulated array beside what the simulator predicts
# for it. Needs fio with its nbd engine; nbdkit and qemu-nbd are compared where they are installed. Results are printed
# and kept in out/bench/serve.txt and serve.json; `docs` as the first word keeps them in docs/figures instead, for a release.
# Run it on a quiet machine; compare only figures of one run. A full run takes about fifteen minutes.
# Usage: scripts/bench-serve.sh [docs] [hits] [misses] [emulated] [clients]    (default: all four parts)
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p out/bench
command -v fio >/dev/null || { echo "bench-serve: needs fio (Debian: apt-get install fio)" >&2; exit 1; }
target=${CARGO_TARGET_DIR:-target}
out=out/bench/serve
if [ "${1:-}" = docs ]; then
    out=docs/figures/serve
    shift
fi
[ -x "$target/release/examples/replay" ] || cargo build --release --locked --quiet -p forerun-serve --example replay
python3 scripts/bench-serve.py "${FORERUN:-$target/release/forerun}" "$target/release/examples/replay" "$out" "$@"
