#!/usr/bin/env bash
# Makes every figure of the docs anew. A page names the command of a figure in a comment of its own line,
#   <!-- figure: docs/figures/NAME.txt: forerun compare … -->
# and this script runs it with the release binary and writes its output there.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/target/release:$PATH"
pages=$(git ls-files '*.md')
# shellcheck disable=SC2086
grep -hoE '<!-- figure: [^ ]+: .* -->' $pages | sed -E 's/^<!-- figure: ([^ ]+): (.*) -->$/\1\t\2/' | sort -u |
    while IFS=$'\t' read -r file command; do
        echo "$file: $command"
        mkdir -p "$(dirname "$file")"
        bash -c "$command" > "$file.new" </dev/null
        mv "$file.new" "$file"
    done
