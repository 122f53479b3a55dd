#!/usr/bin/env bash
# Builds a wheel (dev profile, or WHEEL=release), installs it into a fresh environment with its extras, and runs the tests of
# crates/python there. Everything that was there before is made anew; packages come from pip's cache where they can.
set -euo pipefail
cd "$(dirname "$0")/.."
wheels=$(mktemp -d)
environment=$(mktemp -d)
trap 'rm -rf "$wheels" "$environment"' EXIT
OUT=$wheels scripts/wheel.sh "${WHEEL:-dev}"
python3 -m venv "$environment"
pip=("$environment/bin/pip" install --quiet --disable-pip-version-check)
wheel=$(echo "$wheels"/*.whl)
"${pip[@]}" "$wheel"
"$environment/bin/python" -c 'import forerun; print("forerun", forerun.__version__, "alone")'
"${pip[@]}" pytest numpy tqdm pyright "$wheel[pandas,polars,plot]"
"$environment/bin/forerun" --version
"$environment/bin/python" -m pytest -q crates/python/tests "$@"
