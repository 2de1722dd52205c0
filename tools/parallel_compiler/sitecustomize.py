"""Lets setuptools compile the C files of an extension side by side, one for each processor.

mypyc makes one extension of all modules, and setuptools compiles the files of an extension one after the other; the
object files are the same either way. `tools/build_compiled.sh` puts this folder on the path of the build, where Python
runs this module at its start. It changes nothing but `setup.py build_ext`.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any


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
