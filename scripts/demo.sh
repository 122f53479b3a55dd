#!/usr/bin/env bash
# The demo: the trace that the project recorded itself (traces/README.md says how), replayed on a five-disk RAID-5
# under every scheme of the first issue. Ends in a table, and in an HTML report whose path is printed.
# Usage: scripts/demo.sh [FOLDER]    (the report's folder; default out). Environment: FORERUN = the binary (that of the profile `demo`).
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-out}
mkdir -p "$out"

trace=
for file in traces/demo.parquet traces/demo.csv.zst; do [ -z "$trace" ] && [ -e "$file" ] && trace=$file; done
[ -n "$trace" ] || { echo "demo: traces/demo.* is missing (make record-demo-trace)" >&2; exit 1; }

# The cache is a quarter of the trace's footprint or less, so that it matters what is kept.
"${FORERUN:-${CARGO_TARGET_DIR:-target}/demo/forerun}" compare "$trace" \
    --array raid5:5x128KiB --device cheetah-15k4 --scheduler anticipatory --cpu xeon-2005 --cache "${DEMO_CACHE:-96MiB}" --host-cache 16MiB --mode closed:4 \
    --scheme seqp:32KiB --scheme seqp:128KiB --scheme seqp:512KiB --scheme strip --scheme asp --scheme msp \
    --scheme asp+msp --scheme asp+seqp:128KiB --scheme msp+seqp:128KiB --scheme asp+msp+seqp:128KiB \
    --html "$out/demo.html"
printf '\nThe report: %s\n' "$(realpath "$out/demo.html")"
