#!/bin/bash
# Run all tests with one interpreter: everything in parallel, then tests/interop one after the other, because its tests
# start whole brokers and foreign clients.
#
#     tools/run_tests.sh PYTHON PROCESSES [PYTEST ARGUMENTS]
set -eu
cd "$(dirname "$0")/.."
python=${1:?usage: tools/run_tests.sh PYTHON PROCESSES [PYTEST ARGUMENTS]}
processes=${2:?usage: tools/run_tests.sh PYTHON PROCESSES [PYTEST ARGUMENTS]}
shift 2

"$python" -c 'from spanwire._build import version_text; print(version_text())'
"$python" -m pytest -q -n "$processes" --dist worksteal --ignore tests/interop "$@"
if compgen -G 'tests/interop/test_*.py' >/dev/null; then
    "$python" -m pytest -q -rs tests/interop "$@"
fi
