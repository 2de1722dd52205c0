#!/bin/bash
# Run the tests with one interpreter, in so many processes. tests/support/groups.py says which of them share brokers or
# Spark and so a process, and which begin first; all others stay together by file.
# What failed once and passed when it was tried again (tests/conftest.py says which tests may) is listed as RERUN.
#
#     tools/run_tests.sh PYTHON PROCESSES [--smoke | --compiled] [PYTEST ARGUMENTS]
#
# With --smoke, of the tests with foreign peers or Spark only those run that have the mark `smoke`; with --compiled those
# are left out that are the same in each build, which the other build has, and those with the mark `long`.
set -eu
cd "$(dirname "$0")/.."
usage="usage: tools/run_tests.sh PYTHON PROCESSES [--smoke | --compiled] [PYTEST ARGUMENTS]"
python=${1:?$usage}
processes=${2:?$usage}
shift 2

# What they test is the tools and the tests' own support: no package of a build.
without_build=(tests/unit/support tests/unit/tools)
chosen=()
case ${1:-} in
    --smoke) chosen=(-m "smoke or not peers"); shift ;;
    --compiled) chosen=("${without_build[@]/#/--ignore=}" -m "not long"); shift ;;
esac

# Tests start some thousand processes. Where Python keeps no bytecode, each compiles all that it imports again.
unset PYTHONDONTWRITEBYTECODE
# pytest rewrites and compiles each module of the tests once. In a fresh clone all processes would do so at the same time.
[ -d tests/__pycache__ ] || "$python" -m pytest -q --collect-only > /dev/null || true

"$python" -c 'from spanwire._build import version_text; print(version_text())'
# A process that crashes fails the run: pytest-xdist may wait forever for the one that it starts instead.
exec "$python" -m pytest -q -rRs -n "$processes" --dist loadgroup --no-loadscope-reorder \
    --max-worker-restart 0 \
    ${chosen[@]+"${chosen[@]}"} "$@"
