"""What is done to the C files of mypyc before they are compiled."""

from __future__ import annotations

from pathlib import Path

import mypyc.build

from tools import compile_modules
from tools.compile_modules import UNIT_BYTES, joined, mend, tolerant, without_trashcan

ACYCLIC = """\
static void
MessageId_dealloc(MessageIdObject *self)
{
    CPy_TRASHCAN_BEGIN(self, MessageId_dealloc)
    MessageId_clear((PyObject *)self);
    Py_TYPE(self)->tp_free((PyObject *)self);
    CPy_TRASHCAN_END(self)
}
"""
CYCLIC = ACYCLIC.replace("{\n", "{\n    PyObject_GC_UnTrack(self);\n", 1)


def test_only_deallocators_without_garbage_collection_lose_the_trashcan() -> None:
    assert "TRASHCAN" not in without_trashcan(ACYCLIC)
    assert "tp_free" in without_trashcan(ACYCLIC)
    assert without_trashcan(CYCLIC) == CYCLIC


def test_small_extensions_read_no_header_and_declare_all_that_they_call(tmp_path: Path) -> None:
    template = Path(mypyc.build.__file__).with_name("lib-rt") / "module_shim.tmpl"
    path = tmp_path / "shim.c"
    path.write_text(template.read_text("utf-8").format(modname="a", libname="b", full_modname="c"), "utf-8")
    mend(path)
    text = path.read_text("utf-8")
    assert [line for line in text.splitlines() if line.startswith("#include")] == []
    called = {word.split("(")[0].strip("*") for word in text.split() if word.startswith(("Py", "*Py")) and "(" in word}
    assert {"PyImport_ImportModuleLevel", "PyCapsule_GetPointer", "PyErr_Clear"} <= called
    for name in called - {"PyInit_a", "PyInit___init__", "Py_DECREF"}:
        assert f"{name}(" in compile_modules.SHIM_HEADER, name


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
    included = [line.split('"')[1] for unit in units for line in Path(unit).read_text("utf-8").splitlines()]
    assert sorted(included) == sorted(modules)
    assert [len(Path(unit).read_text("utf-8").splitlines()) for unit in units] == [1, 2, 1]


def test_a_warning_of_a_newer_compiler_is_no_error() -> None:
    assert tolerant(["-O3", "-Werror"]) == ["-O3"]
