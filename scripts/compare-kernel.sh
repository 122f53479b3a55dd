#!/usr/bin/env bash
# Compares the running kernel's read-ahead with the scheme linux-6, page by page (crates/watch/src/kernel.rs).
#
#   scripts/compare-kernel.sh [FOLDER]      FOLDER: target unless given; on ext4 or xfs
#
# On the file system of FOLDER with its settings as they are, for which no privilege is needed; as root also on an
# ext4 file system of its own on a loop device, with the usual 128 KiB of read-ahead and with 1 MiB. That one lives in a
# private mount namespace and is taken away at the end. Nothing of the machine is changed.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-target}
mkdir -p "$folder"
cargo build --release --locked --quiet -p forerun-watch --example compare_kernel
program=$(pwd)/${CARGO_TARGET_DIR:-target}/release/examples/compare_kernel
[ -z "${CARGO_TARGET_DIR:-}" ] || program=$CARGO_TARGET_DIR/release/examples/compare_kernel
"$program" "$folder"

if [ "$(id -u)" != 0 ]; then
    echo "not root: no loop device with other settings is tried"
    exit 0
fi
work=$(mktemp -d "${TMPDIR:-/var/tmp}/compare-kernel.XXXXXX")
loop=
clean() {
    if [ -n "$loop" ]; then
        echo "$before" > "$setting" # it would outlive the device
        losetup -d "$loop"
    fi
    rm -rf "$work"
}
trap clean EXIT
truncate -s 256M "$work/disk.img"
mkfs.ext4 -q "$work/disk.img"
loop=$(losetup --show -f "$work/disk.img")
setting=/sys/block/${loop#/dev/}/queue/read_ahead_kb
before=$(cat "$setting")
mkdir "$work/mount"
for kib in 128 1024; do
    echo "$kib" > "$setting"
    echo
    # The mount goes away with its namespace.
    unshare -m bash -c 'mount "$1" "$2" && "$3" "$2"' _ "$loop" "$work/mount" "$program"
done
