#!/usr/bin/env bash
# Speed on this machine, each figure on one core: cache-only runs beside libCacheSim (its Python wheel, in an
# environment of its own under target/), decisions without a disk model, and the simulator with its disks.
# Results are printed and kept in out/bench/. Run it on a quiet machine; compare only figures of one run.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p out/bench

echo "== decisions without a disk model"
cargo build --release --locked --quiet -p forerun-core --example decide
target/release/examples/decide | tee out/bench/decide.txt

echo "== the simulator"
cargo build --release --locked --quiet -p forerun-sim --example bench_sim --example bench_retention
target/release/examples/bench_sim | tee out/bench/sim.txt

echo "== cache-only runs beside libCacheSim"
if ! command -v python3 >/dev/null || ! python3 -c 'import venv' 2>/dev/null; then
    echo "bench-sim: needs python3 and its venv module (Debian: apt-get install python3-venv)" >&2
    exit 1
fi
environment=target/bench-venv
[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
"$environment/bin/pip" install --quiet 'libcachesim==0.3.5'
"$environment/bin/python" benches/retention_vs_libcachesim.py target/release/examples/bench_retention --reps 3 |
    tee out/bench/retention.txt
