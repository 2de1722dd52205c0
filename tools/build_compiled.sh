#!/bin/bash
# Compile the hot packages with mypyc and install the wheel into another environment.
#
#     tools/build_compiled.sh BUILD_PYTHON TARGET_PYTHON [OPTIMIZE]
#
# OPTIMIZE is gcc's level of optimisation, 3 by default. BUILD_PYTHON has the build requirements.
set -eu
cd "$(dirname "$0")/.."
usage="usage: tools/build_compiled.sh BUILD_PYTHON TARGET_PYTHON [OPTIMIZE]"
builder=$(realpath -s "${1:?$usage}")
target=$(realpath -s "${2:?$usage}")
level=${3:-3}

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
started=$SECONDS
SPANWIRE_COMPILE=1 SPANWIRE_OPTIMIZE=$level "$builder" -m pip wheel --quiet --no-deps --no-build-isolation \
    --wheel-dir "$wheels" .
echo "compiled at -O$level in $((SECONDS - started)) s"
"$target" -m pip install --quiet --no-deps --no-index --force-reinstall "$wheels"/*.whl
