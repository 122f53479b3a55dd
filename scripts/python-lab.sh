#!/usr/bin/env bash
# Runs a script with the release wheel installed, and packages beside it, in an environment that is kept for the next time.
# Usage: scripts/python-lab.sh PACKAGE… -- SCRIPT WORD…. Environment: WHEEL=FILE takes that wheel instead of building one.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do packages+=("$1"); shift; done
shift || { echo "python-lab.sh: -- SCRIPT is missing" >&2; exit 2; }
environment=${XDG_CACHE_HOME:-$HOME/.cache}/forerun/lab
wheel=${WHEEL:-}
if [ -z "$wheel" ]; then
    OUT=out/wheel scripts/wheel.sh release >&2
    wheel=$(ls -t out/wheel/*.whl | head -n1)
fi
[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
"$environment/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheel"
exec "$environment/bin/python" "$@"
