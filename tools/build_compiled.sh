#!/bin/bash
# Compile the hot packages with mypyc and install the wheel into another environment.
#
#     tools/build_compiled.sh BUILD_PYTHON TARGET_PYTHON [OPTIMIZE]
#
# OPTIMIZE is gcc's level of optimisation, 3 by default, as pyproject.toml has it.
# BUILD_PYTHON has the build requirements. The build runs in a copy of the sources: it leaves extension modules beside
# them, and an editable install would load those instead of the .py files.
set -eu
cd "$(dirname "$0")/.."
usage="usage: tools/build_compiled.sh BUILD_PYTHON TARGET_PYTHON [OPTIMIZE]"
builder=$(realpath -s "${1:?$usage}")
target=$(realpath -s "${2:?$usage}")
level=${3:-3}

parallel=$(realpath tools/parallel_compiler)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -cf - --exclude='*.so' --exclude='__pycache__' pyproject.toml README.md LICENSE NOTICE src | tar -xf - -C "$copy"
sed -i "s/opt_level = \"3\"/opt_level = \"$level\"/" "$copy/pyproject.toml"
grep -q "opt_level = \"$level\"" "$copy/pyproject.toml"  # else the build would not be what its caller asked for

started=$SECONDS
(cd "$copy" && HATCH_BUILD_HOOK_ENABLE_MYPYC=1 PYTHONPATH="$parallel" "$builder" -m pip wheel --quiet --no-deps \
    --no-build-isolation --wheel-dir dist .)
echo "compiled at -O$level in $((SECONDS - started)) s"
"$target" -m pip install --quiet --no-deps --no-index --force-reinstall "$copy"/dist/*.whl
