#!/bin/sh
# Exit 0 if the given interpreter can build extension modules here, else print what is missing and exit 1.
python=${1:?usage: tools/find_compiler.sh PYTHON}
if ! command -v cc >/dev/null 2>&1; then
    echo "no C compiler (cc) on the path; install gcc"
    exit 1
fi
header=$("$python" -c 'import os, sysconfig; print(os.path.join(sysconfig.get_path("include"), "Python.h"))')
if [ ! -e "$header" ]; then
    echo "no Python.h at $header; install the development package of this Python (python3-dev)"
    exit 1
fi
