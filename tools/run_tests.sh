#!/bin/bash
# Run all tests with one interpreter, in so many processes: first those that need no peers, test by test, then
# tests/spark and tests/interop, whose tests share brokers, foreign clients and Spark with those of their group.
# What failed once and passed when it was tried again (tests/conftest.py says which tests may) is listed as RERUN.
#
#     tools/run_tests.sh PYTHON PROCESSES [PYTEST ARGUMENTS]
set -eu
cd "$(dirname "$0")/.."
python=${1:?usage: tools/run_tests.sh PYTHON PROCESSES [PYTEST ARGUMENTS]}
processes=${2:?usage: tools/run_tests.sh PYTHON PROCESSES [PYTEST ARGUMENTS]}
shift 2

"$python" -c 'from spanwire._build import version_text; print(version_text())'
"$python" -m pytest -q -rR -n "$processes" --dist worksteal --ignore tests/interop --ignore tests/spark "$@"
# Spark takes as long as all the rest, so it starts first; more than two others beside it would slow it down.
"$python" -m pytest -q -rRs -n "$((processes > 3 ? 3 : processes))" --dist loadgroup --no-loadscope-reorder tests/spark tests/interop "$@"
