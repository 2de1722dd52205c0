#!/bin/bash
# Run the tests with one interpreter, in so many processes: first most of them, test by test, then those with foreign
# brokers, foreign clients and Spark, which tests/support/groups.py keeps together where they share them.
# What failed once and passed when it was tried again (tests/conftest.py says which tests may) is listed as RERUN.
#
#     tools/run_tests.sh PYTHON PROCESSES [--smoke] [PYTEST ARGUMENTS]
#
# With --smoke only those of the second part run that have the mark `smoke`: the other build has them all.
set -eu
cd "$(dirname "$0")/.."
usage="usage: tools/run_tests.sh PYTHON PROCESSES [--smoke] [PYTEST ARGUMENTS]"
python=${1:?$usage}
processes=${2:?$usage}
shift 2
chosen=()
if [ "${1:-}" = --smoke ]; then
    chosen=(-m smoke)
    shift
fi
peers=(tests/spark tests/conformance/differential tests/interop)
# Tests start some thousand processes. Where Python keeps no bytecode, each compiles all that it imports again.
unset PYTHONDONTWRITEBYTECODE

# Arguments may leave nothing of one part (pytest then ends with 5), but not of both.
ran=no
run() {
    local status=0
    "$python" -m pytest -q "$@" || status=$?
    case $status in
        0) ran=yes ;;
        5) ;;
        *) exit "$status" ;;
    esac
}

"$python" -c 'from spanwire._build import version_text; print(version_text())'
run -rR -n "$processes" --dist worksteal "${peers[@]/#/--ignore=}" "$@"
# Spark takes as long as all the rest, so it starts first; more than two others beside it would slow it down.
run -rRs -n "$((processes > 3 ? 3 : processes))" --dist loadgroup --no-loadscope-reorder ${chosen[@]+"${chosen[@]}"} "${peers[@]}" "$@"
[ "$ran" = yes ] || { echo "no test was chosen"; exit 5; }
