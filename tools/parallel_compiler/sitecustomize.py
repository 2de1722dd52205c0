"""Compiles the C files of mypyc side by side, one for each processor, and mends one fault in them before.

mypyc makes one extension of all modules, and setuptools compiles the files of an extension one after the other.
`tools/build_compiled.sh` puts this folder on the path of the build, where Python runs this module at its start. It
changes nothing but `setup.py build_ext`.

The fault is in mypyc 2.4.1: the deallocator of a class that garbage collection skips (``acyclic``) uses CPython's
trashcan, which sets an object aside when it is freed inside of 50 others. CPython 3.11 links such objects through the
header that only objects with garbage collection have, so it writes to the memory before this one.
`tests/unit/model/test_deep_deallocation.py` finds a build without the mend.
"""

from __future__ import annotations

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# A deallocator without garbage collection: what has it begins with PyObject_GC_UnTrack.
ACYCLIC_DEALLOCATOR = re.compile(
    r"(_dealloc\(\w+ \*self\)\n\{\n)"
    r"\s*CPy_TRASHCAN_BEGIN\(self, \w+\)\n"
    r"(\s*\w+_clear\(\(PyObject \*\)self\);\n\s*Py_TYPE\(self\)->tp_free\(\(PyObject \*\)self\);\n)"
    r"\s*CPy_TRASHCAN_END\(self\)\n"
)


def without_trashcan(source: str) -> str:
    """The C source whose deallocators use the trashcan only for objects with garbage collection."""
    return ACYCLIC_DEALLOCATOR.sub(r"\1\2", source)


def mend(name: str) -> None:
    """Mend the C file of that name in place."""
    with open(name, encoding="utf-8") as file:
        source = file.read()
    mended = without_trashcan(source)
    if mended != source:
        with open(name, "w", encoding="utf-8") as file:
            file.write(mended)


def compile_side_by_side(
    self: Any,
    sources: Any,
    output_dir: Any = None,
    macros: Any = None,
    include_dirs: Any = None,
    debug: bool = False,
    extra_preargs: Any = None,
    extra_postargs: Any = None,
    depends: Any = None,
) -> Any:
    """As `CCompiler.compile`, which says what the arguments are; the largest files first.

    Raises what a file raises.
    """
    _, objects, postargs, options, build = self._setup_compile(
        output_dir, macros, include_dirs, sources, depends, extra_postargs
    )
    arguments = self._get_cc_args(options, debug, extra_preargs)

    def compile_one(name: str) -> None:
        source, extension = build[name]
        mend(source)
        self._compile(name, source, extension, arguments, postargs, options)

    wanted = sorted((name for name in objects if name in build), key=lambda name: -os.path.getsize(build[name][0]))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(compile_one, wanted))
    return objects


if "build_ext" in sys.orig_argv:
    import setuptools  # type: ignore[import-untyped]  # noqa: F401 -- brings distutils, so it comes first

    # isort: split
    from distutils.ccompiler import CCompiler

    CCompiler.compile = compile_side_by_side  # type: ignore[method-assign, assignment]
