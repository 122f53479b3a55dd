#!/usr/bin/env bash
# Runs under miri, which finds undefined behaviour, what it can run of the tests where that could be: the server's unsafe code
# (crates/serve/src/raw), and of core the tables that rest on the unsafe code of others. `make miri` calls it; some minutes.
#
# Miri knows no io_uring, no way to give parts of a mapping back and no scattered reads of files, so tests of these are left out by name; so is one
# that goes through all cases, which takes it too long.
set -euo pipefail
cd "$(dirname "$0")/.."

toolchain=${MIRI_TOOLCHAIN:-nightly}
if ! cargo "+$toolchain" miri --version >/dev/null 2>&1 &&
    ! rustup component add miri rust-src --toolchain "$toolchain" 2>/dev/null; then
    echo "miri is not there: rustup toolchain install nightly --component miri,rust-src" >&2
    echo "(or name a toolchain that has it: MIRI_TOOLCHAIN=nightly-2026-05-19 make miri)" >&2
    exit 4
fi

# Files and file numbers of this machine are what the server's tests read and write.
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}"

cargo "+$toolchain" miri test --locked -p forerun-core --lib -- slots:: bounded:: retention::list \
    --skip every_history_of_eight_steps
cargo "+$toolchain" miri test --locked -p forerun-serve --no-default-features --lib -- raw:: \
    --skip ring:: --skip filled_from_a_file --skip loose_blocks
