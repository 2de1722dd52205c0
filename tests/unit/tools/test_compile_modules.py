"""What is done to the C files of mypyc before they are compiled."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.peers import require
from tools.compile_modules import NO_COPIES, SHIM_NAMES, UNIT_BYTES, joined, shims, tolerant
from tools.mend_c import PRELUDE

# A library that holds two modules with the same last name, and one that cannot be loaded.
LIBRARY = """\
#include <Python.h>
static struct PyModuleDef one = {PyModuleDef_HEAD_INIT, "first.l", NULL, -1};
static struct PyModuleDef two = {PyModuleDef_HEAD_INIT, "second.l", NULL, -1};
static struct PyModuleDef library = {PyModuleDef_HEAD_INIT, "library", NULL, -1};
static PyObject *init_one(void) { return PyModule_Create(&one); }
static PyObject *init_two(void) { return PyModule_Create(&two); }
static PyObject *init_bad(void) { PyErr_SetString(PyExc_ImportError, "an extra is missing"); return NULL; }
PyMODINIT_FUNC PyInit_library(void)
{
    PyObject *module = PyModule_Create(&library);
    PyModule_AddObject(module, "init_first___l", PyCapsule_New((void *)init_one, "library.init_first___l", NULL));
    PyModule_AddObject(module, "init_second___l", PyCapsule_New((void *)init_two, "library.init_second___l", NULL));
    PyModule_AddObject(module, "init_bad", PyCapsule_New((void *)init_bad, "library.init_bad", NULL));
    return module;
}
"""
IMPORTS = """
import first.l, second.l
for module in (first.l, second.l):
    print(module.__name__, module.__spec__.name, module.__file__.endswith(".so"))
try:
    import bad
except ImportError as refusal:
    print(refusal)
"""


def test_copies_of_a_small_extension_load_the_module_that_they_are_imported_as(tmp_path: Path) -> None:
    require("cc")
    names = ["first.l", "second.l", "bad"]
    ((shim, _),) = shims("library", names)
    sources = {"library": LIBRARY, "shim": shim}
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for name, source in sources.items():
        (tmp_path / f"{name}.c").write_text(source, "utf-8")
        words = [*sysconfig.get_config_var("CC").split(), "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}"]
        subprocess.run([*words, f"{name}.c", "-o", f"{name}{suffix}"], cwd=tmp_path, check=True)
    for name in names:
        path = tmp_path / (name.replace(".", "/") + suffix)
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(tmp_path / f"shim{suffix}", path)
    done = subprocess.run([sys.executable, "-c", IMPORTS], cwd=tmp_path, text=True, capture_output=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "first.l first.l True", "second.l second.l True", "an extra is missing",
    ]  # fmt: skip


def test_each_module_has_one_small_extension_with_its_name() -> None:
    names = [f"a.m{index}" for index in range(SHIM_NAMES + 1)] + ["b.m0"]
    found = shims("library", names)
    assert sorted(name for _, modules in found for name in modules) == sorted(names)
    assert len(found) == 2
    for source, modules in found:
        assert source.count("PyMODINIT_FUNC") <= SHIM_NAMES
        for name in modules:
            assert f" PyInit_{name.rpartition('.')[2]}(void)" in source


def test_a_name_with_three_underscores_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"^first\.a___b: "):
        shims("library", ["first.a___b"])


def test_units_hold_each_module_once_and_are_as_large_as_one_may_be(tmp_path: Path) -> None:
    (tmp_path / "units").mkdir()
    sizes = {"large": UNIT_BYTES + 1, "half": UNIT_BYTES // 2, "rest": UNIT_BYTES // 2, "small": 10}
    modules = []
    for name, size in sizes.items():
        path = tmp_path / f"__native_{name}.c"
        path.write_bytes(b" " * size)
        modules.append(str(path))
    library = str(tmp_path / "getargs.c")
    *units, last = joined([*modules, library], tmp_path / "units")
    assert last == library
    texts = [Path(unit).read_text("utf-8") for unit in units]
    assert all(text.startswith(PRELUDE) for text in texts)
    included = [[line.split('"')[1] for line in text.removeprefix(PRELUDE).splitlines()] for text in texts]
    assert sorted(name for names in included for name in names) == sorted(modules)
    assert [len(names) for names in included] == [1, 2, 1]


def test_a_warning_of_a_newer_compiler_is_no_error() -> None:
    assert tolerant(["-O3", "-Werror"]) == ["-O3", NO_COPIES]
