#!/usr/bin/env bash
# What `forerun --version` says of a build: the version, and the commit where there is one; a + for a tree that has changed since.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n1)
if commit=$(git rev-parse --short=10 HEAD 2>/dev/null); then
    git diff --quiet HEAD 2>/dev/null || commit+=+
    version+=" ($commit)"
fi
echo "$version"
