#!/bin/bash
# Run the tests with one interpreter, in so many processes. tests/support/groups.py says which of them share brokers or
# Spark and so a process, and which begin first; all others stay together by file.
# What failed once and passed when it was tried again (tests/conftest.py says which tests may) is listed as RERUN.
#
#     tools/run_tests.sh PYTHON PROCESSES [--smoke | --compiled | --compiled-all] [PYTEST ARGUMENTS]
#
# `make test` runs both: with --smoke, on the pure build, of the tests with foreign peers or Spark only those that have the
# mark `smoke`, and none with the mark `large` or `long`; with --compiled all of these but those with the mark `long`.
# What no build compiles is tested in one of the two runs. --compiled-all is for `make test-all`: all but the folders of
# which no module is compiled; the pure environment alone has the packages that build Spanwire, which some of them need.
set -eu
cd "$(dirname "$0")/.."
usage="usage: tools/run_tests.sh PYTHON PROCESSES [--smoke | --compiled | --compiled-all] [PYTEST ARGUMENTS]"
python=${1:?$usage}
processes=${2:?$usage}
shift 2

# pure_only.txt is left out of the run on the compiled build: tests of packages of which it compiles no module, of the
# tools and of the tests' own support. tests/unit/tools/test_run_tests.py compares them with what is compiled.
# compiled_only.txt is left out of the other run: real processes that show a command, a configuration, a page or an agent
# of discovery, which neither build compiles, and brokers that tests start and kill again and again, or users in theirs,
# which start faster on the compiled build. Both have a file or folder a line, sorted.
pure_only=($(< tools/test_lists/pure_only.txt))
compiled_only=($(< tools/test_lists/compiled_only.txt))
chosen=()
case ${1:-} in
    --smoke) chosen=("${compiled_only[@]/#/--ignore=}" -m "(smoke or not (peers or large)) and not long") ;;
    --compiled) chosen=("${pure_only[@]/#/--ignore=}" -m "not long") ;;
    --compiled-all) shift; set -- "${pure_only[@]/#/--ignore=}" "$@" ;;
esac
if [ ${#chosen[@]} -gt 0 ]; then
    shift
    export HYPOTHESIS_PROFILE=${HYPOTHESIS_PROFILE:-short}  # fewer examples and seeds: tests/support/seeds.py
fi

# Tests start some thousand processes. Where Python keeps no bytecode, each compiles all that it imports again.
unset PYTHONDONTWRITEBYTECODE
# pytest rewrites and compiles each module of the tests once. In a fresh clone all processes would do so at the same time.
[ -d tests/__pycache__ ] || "$python" -m pytest -q --collect-only > /dev/null || true

"$python" -c 'from spanwire._build import version_text; print(version_text())'
# A process that crashes fails the run: pytest-xdist may wait forever for the one that it starts instead.
exec "$python" -m pytest -q -rRs -n "$processes" --dist loadgroup --no-loadscope-reorder \
    --max-worker-restart 0 \
    ${chosen[@]+"${chosen[@]}"} "$@"
