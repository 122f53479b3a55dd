#!/usr/bin/env bash
# Proves what is small enough for it (SPECIFICATION.md): arithmetic in GF(2^8), the geometry's bijection, the ledger of slots, and the extents
# of the wire. Where Kani is installed it proves the harnesses (the modules `proofs`). Where it is not, tests of all cases up to a bound stand in,
# which call the same properties, and the harnesses run over drawn values with a stand-in of a few lines instead of Kani (scripts/kani).
# Usage: prove.sh [--check [CARGO-OPTION...]]   --check: only whether the harnesses compile with the stand-in, for CI; the options go to cargo.
set -euo pipefail
cd "$(dirname "$0")/.."

# The stand-in as a library for rustc, which is how Kani brings its own: no crate depends on it. Named in full: rustc is not run in this folder.
stand_in=$(realpath -m "${CARGO_TARGET_DIR:-target}/kani")
with_stand_in() {
    mkdir -p "$stand_in"
    rustc --edition 2024 --crate-name kani_macros --crate-type proc-macro --extern proc_macro --out-dir "$stand_in" scripts/kani/macros.rs
    rustc --edition 2024 --crate-name kani --crate-type rlib --extern "kani_macros=$(echo "$stand_in"/libkani_macros.*)" \
        --out-dir "$stand_in" scripts/kani/lib.rs
    flags=(-D warnings --cfg kani --extern "kani=$stand_in/libkani.rlib" -L "dependency=$stand_in")
}

if [ "${1:-}" = --check ]; then
    with_stand_in
    for crate in forerun-core forerun-serve; do
        cargo rustc --locked --quiet "${@:2}" -p "$crate" --lib --profile check -- "${flags[@]}"
    done
    exit
fi

if cargo kani --version >/dev/null 2>&1; then
    cargo kani -p forerun-core
    cargo kani -p forerun-serve --no-default-features
    exit
fi

echo "Kani is not here, so nothing is proven: all cases up to a bound are tested instead, and the harnesses over drawn values."
echo "(cargo install --locked kani-verifier && cargo kani setup, which fetches its verifier from GitHub)"
cargo test --locked --quiet -p forerun-core --lib -- --exact \
    array::gf::tests::the_tables_agree_with_multiplication_on_paper \
    array::gf::tests::every_element_but_zero_has_an_inverse_and_is_a_power_of_two \
    array::model::every_block_of_every_small_array_has_its_places_and_every_place_one_role \
    slots::tests::every_history_of_eight_steps_over_three_slots_keeps_the_ledger \
    units::tests::a_divisor_divides_as_division_does \
    units::tests::any_bytes_touch_the_blocks_that_they_begin_and_end_in \
    assemble::tests::a_range_has_the_edges_and_the_bytes_of_its_blocks_that_counting_bytes_finds
cargo test --locked --quiet -p forerun-serve --lib -- --exact \
    nbd::wire::tests::every_extent_that_is_taken_lies_within_the_export \
    nbd::wire::tests::a_request_survives_its_own_bytes_and_is_short_at_every_cut
with_stand_in
for crate in forerun-core forerun-serve; do
    cargo rustc --locked --quiet -p "$crate" --lib --profile test --message-format json -- "${flags[@]}" |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | while read -r tests; do "$tests" --quiet proofs::; done
done
