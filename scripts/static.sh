#!/usr/bin/env bash
# Builds a binary that needs no library of the system (musl), into OUT (out/static): for other distributions and for an image that
# holds nothing else.
# Usage: scripts/static.sh [release|dev]. Needs the Rust target and a C compiler for musl; what is missing is installed, or said with exit code 4.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"
BYTES_MAX=20000000 # of the release binary, as the Debian package's
out=${OUT:-out/static}
profile=${1:-release}
case $profile in
release) folder=release ;;
dev) folder=debug ;;
*) echo "static.sh: release or dev, not $profile" >&2; exit 2 ;;
esac
target=$(uname -m)-unknown-linux-musl
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] && ! rustup target add "$target" 2>/dev/null; then
    echo "static.sh: the target $target cannot be had here" >&2
    exit 4
fi
if ! command -v musl-gcc >/dev/null; then
    sudo=(); [ "$(id -u)" -eq 0 ] || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends musl-tools
fi
# The C that is in it is compiled for musl; the linking is left to rustc, which brings musl's start files and library itself: musl-gcc knows no
# -static-pie, and what it links asks for an interpreter and ends at once.
export "CC_${target//-/_}=musl-gcc"
FORERUN_VERSION="$(scripts/version.sh)" cargo build --profile "$profile" --locked -p forerun --target "$target"
install -d "$out"
strip -o "$out/forerun" "${CARGO_TARGET_DIR:-target}/$target/$folder/forerun"
# It asks for no library and no interpreter, it runs, and it serves.
if readelf -d "$out/forerun" | grep -q NEEDED || readelf -lW "$out/forerun" | grep -q INTERP; then
    echo "static.sh: the binary asks for a library of the system" >&2
    exit 1
fi
"$out/forerun" --version
"$out/forerun" --quiet compare 'forward:size=4MiB' --scheme asp --device wd-7200 --no-bounds >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
truncate -s 8M "$work/disk.img"
"$out/forerun" --quiet serve --over "$work/disk.img" --cache 16MiB --run 'test -S "$unixsocket"' >/dev/null
bytes=$(stat -c %s "$out/forerun")
if [ "$profile" = release ] && [ "$bytes" -gt "$BYTES_MAX" ]; then
    echo "static.sh: $bytes bytes, and $BYTES_MAX is the most" >&2
    exit 1
fi
ls -l "$out" | awk 'NR > 1 { print $5, $9 }'
