"""Compiles modules with mypyc and a C compiler, with as many processes as there are processors.

    python tools/compile_modules.py FOLDER LEVEL FILE ...

The working directory is the root of the packages and `FILE` is relative to it; `FOLDER/lib` gets the extension modules.
`LEVEL` is the C compiler's level of optimisation. `tools/compile_hook.py` runs it.

mypyc writes one shared library of all modules, and for each module a small extension that loads the library.
setuptools would compile them file by file, and spend half of the time on reading the same headers again. So this script
changes two things:

- It joins the C files of modules to units of about `UNIT_BYTES`, the largest first, and compiles units side by side.
  Names do not clash, because mypyc puts the name of the module into each.
- It compiles few small extensions and copies them. Each copy looks up the module under whose name it is imported.

`tools/mend_c.py` mends the C files of mypyc before they are compiled. And warnings are no errors here: mypyc asks for
`-Werror`, with which a warning of a newer compiler would end a user's installation.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import setuptools  # type: ignore[import-untyped]  # brings distutils, so it comes first

# isort: split
from mypyc.build import mypycify
from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tools.mend_c import PRELUDE, mended

# Packages of extras are never read, so the C is the same whether they are installed or not.
EXTRAS: Final = """\
[mypy]
[mypy-h11.*,httptools.*,websockets.*,zlib_ng.*]
ignore_missing_imports = True
follow_imports = skip
follow_imports_for_stubs = True
"""
UNIT_BYTES: Final = 2_000_000  # of C, as much as the headers of a unit; the compiler takes some 300 MB for one
PROCESSES: Final = os.cpu_count() or 1
# A function that is not declared inline is compiled once. clang would copy it into its wrapper for interpreted callers,
# which takes a third more time.
NO_COPIES: Final = "-fno-inline-functions"

# The extension that stands for each module. mypyc's own are compiled with the name of their module in them.
SHIM: Final = """\
#include <Python.h>

static PyObject *create(PyObject *spec, PyModuleDef *definition)
{
    PyObject *(*initialize)(void) = NULL;
    PyObject *name = NULL, *attribute = NULL, *capsule = NULL;
    PyObject *library = PyImport_ImportModule("LIBRARY");
    PyObject *full = library ? PyObject_GetAttrString(spec, "name") : NULL;
    if (full)
        name = PyObject_CallMethod(full, "replace", "ss", ".", "___");
    if (name)
        attribute = PyUnicode_FromFormat("init_%U", name);
    if (attribute)
        capsule = PyObject_GetAttr(library, attribute);
    if (capsule)
        initialize = (PyObject *(*)(void))PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
    Py_XDECREF(capsule);
    Py_XDECREF(attribute);
    Py_XDECREF(name);
    Py_XDECREF(full);
    Py_XDECREF(library);
    return initialize ? initialize() : NULL;
}

static PyModuleDef_Slot slots[] = {{Py_mod_create, (void *)create}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "spanwire", .m_slots = slots};

"""
# Python looks for the last part of a module's name in the file.
SHIM_ENTRY: Final = "PyMODINIT_FUNC PyInit_NAME(void) { return PyModuleDef_Init(&definition); }\n"
SHIM_NAMES: Final = 24  # in a file of 14 kB, as one alone takes; with all names each copy had 47 kB


def shims(library: str, modules: list[str]) -> list[tuple[str, list[str]]]:
    """Return the C source of each small extension, with the modules in `library` that its copies stand for."""
    for name in modules:
        if "___" in name:
            raise SystemExit(f"{name}: mypyc writes three underscores for a dot, so that this name has no one meaning")
    last = {name: name.rpartition(".")[2] for name in modules}
    names = sorted(set(last.values()))
    found = []
    for start in range(0, len(names), SHIM_NAMES):
        group = names[start : start + SHIM_NAMES]
        entries = "".join(SHIM_ENTRY.replace("NAME", name) for name in group)
        source = SHIM.replace("LIBRARY", library) + entries
        found.append((source, [name for name in modules if last[name] in group]))
    return found


def tolerant(words: list[str]) -> list[str]:
    """Return the compiler's options without the one that makes warnings errors, and with `NO_COPIES`."""
    return [*(word for word in words if word != "-Werror"), NO_COPIES]


def joined(sources: list[str], folder: Path) -> list[str]:
    """Return the C files of an extension with those of modules joined to units, the largest first."""
    modules = {name: os.path.getsize(name) for name in sources if Path(name).name.startswith("__native_")}
    units: list[list[str]] = []
    sizes: list[int] = []
    for name, size in sorted(modules.items(), key=lambda entry: (-entry[1], entry[0])):
        index = next((index for index, used in enumerate(sizes) if used + size <= UNIT_BYTES), len(units))
        if index == len(units):
            units.append([])
            sizes.append(0)
        units[index].append(name)
        sizes[index] += size
    files = []
    for index, unit in enumerate(units):
        path = folder / f"unit_{index}.c"
        path.write_text(PRELUDE + "".join(f'#include "{os.path.abspath(name)}"\n' for name in unit), "utf-8")
        files.append(str(path))
    return files + [name for name in sources if name not in modules]


class ParallelBuild(build_ext):  # type: ignore[misc]
    """Builds extensions side by side, and the C files of each extension side by side."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = PROCESSES

    def build_extensions(self) -> None:
        self.compiler.compile = self.compile_side_by_side
        super().build_extensions()

    def compile_side_by_side(
        self,
        sources: Any,
        output_dir: Any = None,
        macros: Any = None,
        include_dirs: Any = None,
        debug: bool = False,
        extra_preargs: Any = None,
        extra_postargs: Any = None,
        depends: Any = None,
    ) -> Any:
        """Compile the sources side by side; the arguments are those of `CCompiler.compile`.

        Raises:
            CompileError: the compiler refuses a file.
        """
        compiler = self.compiler
        _, objects, options, arguments, build = compiler._setup_compile(
            output_dir, macros, include_dirs, sources, depends, extra_postargs
        )
        before = compiler._get_cc_args(arguments, debug, extra_preargs)

        def compile_one(name: str) -> None:
            source, extension = build[name]
            compiler._compile(name, source, extension, before, options, arguments)

        if len(objects) == 1:
            compile_one(objects[0])
            return objects
        with ThreadPoolExecutor(PROCESSES) as threads:
            list(threads.map(compile_one, objects))
        return objects


def main() -> int:
    target, level, *files = sys.argv[1:]
    folder = Path(target)
    started = time.monotonic()
    for name in ("c", "objects", "units", "lib"):
        (folder / name).mkdir()
    settings = folder / "mypy.ini"
    settings.write_text(EXTRAS, "utf-8")
    mypy = ["--strict", f"--config-file={settings}", f"--cache-dir={folder / 'cache'}"]
    library, *modules = mypycify(
        [*mypy, *files], opt_level=level, debug_level="0", multi_file=True, target_dir=str(folder / "c")
    )
    for name in library.sources:
        path = Path(name)
        path.write_text(mended(path.read_text("utf-8")), "utf-8")
    library.sources = joined(library.sources, folder / "units")
    library.include_dirs = [*library.include_dirs, str(folder / "c")]
    extensions = [library]
    copies: list[tuple[str, str]] = []
    for index, (source, names) in enumerate(shims(library.name, [module.name for module in modules])):
        path = folder / f"shim_{index}.c"
        path.write_text(source, "utf-8")
        extensions.append(
            setuptools.Extension(path.stem, [str(path)], extra_compile_args=list(library.extra_compile_args))
        )
        copies += [(path.stem, name) for name in names]
    for extension in extensions:
        extension.extra_compile_args = tolerant(extension.extra_compile_args)
    generated = time.monotonic()
    distribution = setuptools.Distribution({"name": "spanwire", "ext_modules": extensions})
    command = ParallelBuild(distribution)
    command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "objects")
    command.ensure_finalized()
    command.run()
    for shim, name in copies:
        path = Path(command.get_ext_fullpath(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(command.get_ext_fullpath(shim), path)
    for shim in {shim for shim, _ in copies}:
        Path(command.get_ext_fullpath(shim)).unlink()
    used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ended = time.monotonic()
    sys.stdout.write(
        f"compiled {len(files)} modules at -O{level} in {ended - started:.0f} s, {used:.0f} s of processor time; "
        f"mypyc took {generated - started:.0f} s\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
