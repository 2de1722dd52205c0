#!/bin/sh
# Print the first interpreter that is Python 3.11 or later; say in one line if there is none.
# That of the distribution comes first: the headers and the venv module that apt offers belong to it, and it is built with
# profile-guided optimisation. An interpreter that was compiled by hand, as pyenv does, often is not, and takes a third more
# processor time.
for name in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
    path=$("$name" -c 'import sys; print(sys.executable if sys.version_info >= (3, 11) else "")' 2>/dev/null)
    if [ -n "$path" ]; then
        echo "$path"
        exit 0
    fi
done
echo "no Python 3.11 or later found: install one (apt-get install python3), or name it: make PYTHON=/path/to/python3 ..." >&2
exit 1
