#!/bin/bash
# Run all tests with one interpreter: everything in parallel, then tests/interop and tests/spark one after the other,
# because their tests start whole brokers, foreign clients and Spark.
#
#     tools/run_tests.sh PYTHON PROCESSES [PYTEST ARGUMENTS]
set -eu
cd "$(dirname "$0")/.."
python=${1:?usage: tools/run_tests.sh PYTHON PROCESSES [PYTEST ARGUMENTS]}
processes=${2:?usage: tools/run_tests.sh PYTHON PROCESSES [PYTEST ARGUMENTS]}
shift 2

"$python" -c 'from spanwire._build import version_text; print(version_text())'
"$python" -m pytest -q -n "$processes" --dist worksteal --ignore tests/interop --ignore tests/spark "$@"
if compgen -G 'tests/interop/test_*.py' >/dev/null; then
    "$python" -m pytest -q -rs tests/interop "$@"
fi
if compgen -G 'tests/spark/test_*.py' >/dev/null; then
    "$python" -m pytest -q -rs tests/spark "$@"
fi
