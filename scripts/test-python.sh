#!/usr/bin/env bash
# Builds a wheel (dev profile; WHEEL=release, or WHEEL=FILE for one that is there), installs it into a fresh environment with its extras,
# runs the tests of crates/python there, and executes the notebooks on small inputs. Everything that was there before is made anew;
# packages come from pip's cache where they can.
set -euo pipefail
cd "$(dirname "$0")/.."
wheels=$(mktemp -d)
environment=$(mktemp -d)
trap 'rm -rf "$wheels" "$environment"' EXIT
wheel=${WHEEL:-dev}
if ! [ -f "$wheel" ]; then
    OUT=$wheels scripts/wheel.sh "$wheel"
    wheel=$(echo "$wheels"/*.whl)
fi
python3 -m venv "$environment"
pip=("$environment/bin/pip" install --quiet --disable-pip-version-check)
"${pip[@]}" "$wheel"
"$environment/bin/python" -c 'import forerun; print("forerun", forerun.__version__, "alone")'
"${pip[@]}" pytest numpy tqdm 'pyright[nodejs]' nbclient ipykernel pandas-stubs "$wheel[pandas,polars,plot,tune]"
"$environment/bin/forerun" --version
"$environment/bin/python" -m pytest -q crates/python/tests "$@"
