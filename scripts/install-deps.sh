#!/usr/bin/env bash
# Installs what building and testing Forerun needs and is not there yet: a C compiler, curl, and the Rust
# toolchain of rust-toolchain.toml. Does nothing, quickly, when all is there. Made for Debian 12; elsewhere it
# says what to install by hand. Environment: none. Touches nothing but system packages, ~/.cargo, ~/.rustup and, with the
# word `clients`, ~/.cache/forerun.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"

say() { printf 'install-deps: %s\n' "$*" >&2; }

# command -> Debian package
missing=()
command -v cc >/dev/null || missing+=(build-essential)
command -v make >/dev/null || missing+=(make)
command -v git >/dev/null || missing+=(git)
command -v pkg-config >/dev/null || missing+=(pkg-config)
if ! command -v cargo >/dev/null; then
    command -v curl >/dev/null || missing+=(curl)
    [ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
fi

# With the word `clients`: real NBD clients and peers, for the tests and measurements of the server, which pass without.
if [ "${1:-}" = clients ] && command -v apt-get >/dev/null; then
    command -v fio >/dev/null || missing+=(fio)
    command -v nbdinfo >/dev/null || missing+=(libnbd-bin)
    command -v nbdsh >/dev/null || missing+=(python3-libnbd)
    command -v nbdkit >/dev/null || missing+=(nbdkit)
    command -v qemu-img >/dev/null || missing+=(qemu-utils)
    command -v mkfs.ext4 >/dev/null || missing+=(e2fsprogs)
    command -v mkfs.xfs >/dev/null || missing+=(xfsprogs)
    command -v mkfs.btrfs >/dev/null || missing+=(btrfs-progs)
    command -v losetup >/dev/null || missing+=(mount)
    command -v python3 >/dev/null && python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
fi

if [ ${#missing[@]} -gt 0 ]; then
    if ! command -v apt-get >/dev/null; then
        say "please install: ${missing[*]} (this is no Debian system, so it is left to you)"
        exit 1
    fi
    sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { say "run as root or install sudo: needs ${missing[*]}"; exit 1; }
        sudo=(sudo)
    fi
    say "installing ${missing[*]}"
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# A server that speaks S3, for the tests of members that are objects: in an environment of its own, since Debian's Python
# takes no packages. Without a network the tests that need it say so and pass.
moto=${XDG_CACHE_HOME:-$HOME/.cache}/forerun/moto
if [ "${1:-}" = clients ] && ! [ -e "$moto/ready" ] && command -v python3 >/dev/null; then
    say "installing moto, a server that speaks S3, into $moto"
    if python3 -m venv --clear "$moto" &&
        "$moto/bin/pip" install --quiet --disable-pip-version-check 'moto[s3]~=5.2' 'flask~=3.1' 'flask-cors~=6.0'; then
        touch "$moto/ready"
    else
        rm -rf "$moto"
        say "moto was not installed: the tests over S3 will be skipped"
    fi
fi

if ! command -v cargo >/dev/null; then
    say "installing the Rust toolchain with rustup"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
        sh -s -- -y --no-modify-path --profile minimal --default-toolchain none
fi

channel=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
if command -v rustup >/dev/null; then
    # The file rust-toolchain.toml picks the version; installing it here shows the download where it is expected.
    if ! rustup toolchain list 2>/dev/null | grep -q "^$channel"; then
        say "installing Rust $channel"
        rustup toolchain install "$channel" --profile minimal --component clippy --component rustfmt
    fi
else
    have=$(cargo --version | awk '{print $2}')
    oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    if [ "$(printf '%s\n%s\n' "$oldest" "$have" | sort -V | head -n1)" != "$oldest" ]; then
        say "cargo $have is older than $oldest and not managed by rustup (install rustup, or a newer Rust)"
        exit 1
    fi
fi
