#!/usr/bin/env bash
# Speed of the simulator on this machine: cache-only runs beside libCacheSim (its Python wheel, in an environment
# of its own under target/), and the simulator's own benchmark. One core each; results go to out/bench/.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p out/bench

if [ -f benches/retention_vs_libcachesim.py ]; then
    echo "== cache-only runs beside libCacheSim"
    if ! command -v python3 >/dev/null || ! python3 -c 'import venv' 2>/dev/null; then
        echo "bench-sim: needs python3 and its venv module (Debian: apt-get install python3-venv)" >&2
        exit 1
    fi
    python3 benches/retention_vs_libcachesim.py | tee out/bench/retention.txt
fi

if [ -f crates/sim/examples/bench_sim.rs ]; then
    echo "== the simulator"
    cargo build --release --locked --quiet -p forerun-sim --example bench_sim
    target/release/examples/bench_sim | tee out/bench/sim.txt
fi
