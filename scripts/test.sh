#!/usr/bin/env bash
# Everything that CI holds, in the order of how quickly it fails. `make test` calls it after `make deps`.
set -euo pipefail
cd "$(dirname "$0")/.."

# Each step says when it begins, so that a slow one is seen.
step() { printf '\n== %02d:%02d  %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

# A test that hangs must not take all the time there is: a step of tests has half an hour (on two cores it takes ten minutes, most of them compiling).
# When that is over it is said which tests had begun and never ended.
bounded() {
    local log job code=0
    log="$(mktemp)"
    # Not `| tee`: what a test has left behind may hold the pipe open for ever.
    timeout --kill-after=10 30m "$@" > >(tee "$log") 2>&1 &
    job=$!
    trap 'kill "$job"; exit 130' INT TERM # the keyboard does not reach what `timeout` runs
    wait "$job" || code=$?
    trap - INT TERM
    if [ "$code" -ne 0 ]; then
        [ "$code" -ne 124 ] || printf '\n== half an hour is over\n'
        sed -n 's/^test \(.*\) has been running for over 60 seconds$/\1/p' "$log" | sort -u | while read -r name; do
            grep -qE "^test $name \.\.\. " "$log" || printf '== it began and never ended: %s\n' "$name"
        done
    fi
    rm -f "$log"
    return "$code"
}

step "format"
cargo fmt --all --check

if cargo deny --version >/dev/null 2>&1; then
    step "licences"
    # Advisories need a network and change without us; `cargo deny check advisories` is for people.
    cargo deny --locked --offline check licenses bans sources || cargo deny --locked check licenses bans sources
else
    printf '\n== licences: cargo-deny is not installed, skipped\n'
fi

# Clippy is the compiler with more to say, so it compiles the tests and lints them at once, where `cargo clippy` would read everything a second
# time, and all that we depend on. This is how cargo calls it: the toolchain is pinned, and that lints are refused is seen first.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
step "lints, and compiling the tests"
scratch="$(mktemp -d)"
if printf 'pub fn lax(of: &[u8]) -> bool {\n    of.len() == 0\n}\n' | clippy-driver --crate-type lib --emit metadata --out-dir "$scratch" - 2>/dev/null; then
    echo "clippy-driver let a lint pass: how cargo hands it -D warnings is another way now"
    exit 1
fi
rm -r "$scratch"
cargo test --workspace --locked --no-run

# What follows needs processors and no clock, and tests wait half of their time, for servers, disks and programs: so it is done beside them, at the least priority.
# What it says is told when the tests are over.
beside() {
    local code=0
    # First what needs no cargo: one waits for another that compiles.
    step "figures of the docs in virtual time, those that take seconds"
    python3 scripts/docs-figures.py --check --quick --binary "${CARGO_TARGET_DIR:-target}/debug" || code=1

    step "docs"
    RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --locked --document-private-items --quiet || code=1

    # Compiling for a machine without an operating system proves that core needs none.
    local bare=thumbv7em-none-eabi
    if [ -d "$(rustc --print sysroot)/lib/rustlib/$bare" ] ||
        rustup target add $bare 2>/dev/null; then
        step "core without std, for $bare"
        cargo check --locked --quiet -p forerun-core --features serde --target $bare || code=1
    else
        printf '\n== core without std: the target %s cannot be had, skipped\n' $bare
    fi

    step "the targets of the coverage-guided fuzzer, and the harnesses of proofs"
    # With the versions of the workspace; cargo adds what the fuzzer itself needs. Proofs compile with a stand-in for Kani, which is rarely there
    # (`make prove` proves them where it is). Both use what the docs have compiled already.
    cp Cargo.lock fuzz/Cargo.lock
    local fuzzer=(--manifest-path fuzz/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-target}")
    if ! cargo fetch --quiet --manifest-path fuzz/Cargo.toml 2>/dev/null; then
        printf 'skipped: libfuzzer cannot be had without a network\n'
        fuzzer=()
    else
        RUSTC_WORKSPACE_WRAPPER="" cargo check --quiet --bins "${fuzzer[@]}" || code=1
    fi
    RUSTC_WORKSPACE_WRAPPER="" scripts/prove.sh --check "${fuzzer[@]}" || code=1

    # `--workspace` makes cargo choose the features of dependencies as above, so that none is built again.
    step "planted bugs: the engine's model test must find each of them"
    bounded cargo test --locked --quiet --workspace --features forerun-core/planted-bugs --test planted_bugs || code=1

    step "crash points: the server's volume and sessions over simulated members, and bugs planted in them"
    FORERUN_CRASH_POINTS=1000000 bounded cargo test --locked --quiet --workspace --features forerun-serve/crash --test crash_points \
        --config 'profile.dev.package.forerun-serve.opt-level=3' --config 'profile.dev.package.forerun-core.opt-level=3' || code=1
    return "$code"
}
others="$(mktemp)"
export -f step bounded beside
# bash hands neither over: when this began, and that a failure ends it (each of these says by itself whether it failed).
SECONDS_BEFORE=$SECONDS setsid nice -n 19 bash -uc 'SECONDS=$SECONDS_BEFORE; beside' >"$others" 2>&1 &
being_done=$!
trap 'kill -- -"$being_done" 2>/dev/null || true; rm -f "$others"' EXIT

step "tests, and beside them what needs processors and no clock"
RUST_TEST_THREADS=$((3 * $(nproc))) bounded cargo test --workspace --locked

code=0
wait "$being_done" || code=$?
cat "$others"
[ "$code" -eq 0 ] || exit "$code"

step "done"
