#!/usr/bin/env bash
# Builds the wheel: the Python module and the command `forerun`, into OUT (out/wheel). Usage: scripts/wheel.sh [release|dev].
# maturin makes it; where that is not on the PATH it is installed into ~/.cache/forerun/python, an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"
profile=${1:-release}
out=${OUT:-out/wheel}
case $profile in
release) folder=release ;;
dev) folder=debug ;;
*) echo "wheel.sh: release or dev, not $profile" >&2; exit 2 ;;
esac

maturin=$(command -v maturin || true)
if [ -z "$maturin" ]; then
    tools=${XDG_CACHE_HOME:-$HOME/.cache}/forerun/python
    if ! [ -x "$tools/bin/maturin" ]; then
        python3 -m venv "$tools"
        "$tools/bin/pip" install --quiet --disable-pip-version-check 'maturin~=1.16'
    fi
    maturin=$tools/bin/maturin
fi

# The command as `make build` makes it, so that it is compiled once for all packages. The module has fewer features of what both use, and
# maturin builds a package alone: built here together with the command, it would be compiled with the command's and then anew.
FORERUN_VERSION="$(scripts/version.sh)" cargo build --locked --quiet --profile "$profile" -p forerun
target=${CARGO_TARGET_DIR:-target}
data=crates/python/forerun.data/scripts
rm -rf crates/python/forerun.data
mkdir -p "$data"
strip -o "$data/forerun" "$target/$folder/forerun"
mkdir -p "$out"
"$maturin" build --quiet --locked --profile "$profile" --manifest-path crates/python/Cargo.toml --out "$out" \
    --compatibility "${COMPATIBILITY:-linux}"
ls -l "$out" | awk 'NR > 1 { print $5, $9 }'
