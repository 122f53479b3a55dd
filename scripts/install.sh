#!/usr/bin/env bash
# Installs the release binary, its manual pages and its shell completions under PREFIX (default ~/.local).
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${PREFIX:-$HOME/.local}
binary=target/release/forerun
install -Dm755 "$binary" "$prefix/bin/forerun"
"$binary" --quiet man "$prefix/share/man/man1"
shell() { mkdir -p "$(dirname "$2")" && "$binary" completions "$1" > "$2"; }
shell bash "$prefix/share/bash-completion/completions/forerun"
shell zsh "$prefix/share/zsh/site-functions/_forerun"
shell fish "$prefix/share/fish/vendor_completions.d/forerun.fish"
install -Dm644 -t "$prefix/share/forerun/traces" traces/*.parquet
echo "forerun is installed under $prefix"
