"""Mends C files of mypyc: a fault that ends a process, and code that takes the C compiler long.

*The trashcan.* The deallocator of a class without garbage collection (``acyclic``) uses CPython's trashcan. This defers
an object that is freed inside of 50 others. CPython 3.11 links deferred objects through a header that only objects with
garbage collection have, so it writes to the memory before the object. `tests/unit/model/test_deep_deallocation.py`
finds a build without the mend.

*Imports.* Each import of one compiled module by another is some forty statements with five ways to fail. There are more
of them than anything else that runs once, a tenth of all C. They become calls of one function (`PRELUDE`). For the same
reason what runs once counts references by calls, not in place.

mypyc is pinned to no version. C of another one that does not look as expected is compiled as it is, and takes longer.
"""

from __future__ import annotations

import re
from typing import Final

# A deallocator without garbage collection: what has it begins with PyObject_GC_UnTrack.
ACYCLIC_DEALLOCATOR: Final = re.compile(
    r"(_dealloc\(\w+ \*self\)\n\{\n)"
    r"\s*CPy_TRASHCAN_BEGIN\(self, \w+\)\n"
    r"(\s*\w+_clear\(\(PyObject \*\)self\);\n\s*Py_TYPE\(self\)->tp_free\(\(PyObject \*\)self\);\n)"
    r"\s*CPy_TRASHCAN_END\(self\)\n"
)
# What stands before the C of modules, once for each file that the compiler gets.
PRELUDE: Final = """\
#include "CPy.h"

static __attribute__((noinline, unused)) PyObject *import_values(
    PyObject *name, PyObject *(*create)(void), int (*execute)(PyObject *), PyObject **internal, CPyModuleCache *cache,
    CPyImportState *state, CPyModuleLockAPI *locks, PyObject *library, PyObject *file_attribute, PyObject *suffix,
    PyObject *names, PyObject *globals)
{
    PyObject *module = NULL, *values = NULL;
    if (CPyImport_IsInitialized(state)) {
        module = CPyDict_GetItem(PyImport_GetModuleDict(), name);
    } else {
        PyObject *shared = CPyDict_GetItem(PyImport_GetModuleDict(), library);
        PyObject *file = shared ? CPyObject_GetAttr(shared, file_attribute) : NULL;
        Py_XDECREF(shared);
        if (file)
            module = CPyImport_ImportNative(name, create, execute, internal, cache, state, locks, file, suffix, 0);
        Py_XDECREF(file);
    }
    if (module)
        values = CPyImport_GetNativeAttrs(module, names, names, globals);
    Py_XDECREF(module);
    return values;
}

/* Modules call each other directly, not through the table of functions that another library may replace. */
#pragma GCC visibility push(hidden)
"""
# The import of names of a compiled module. Words with a number stand for what `KINDS` has, each for the same each time.
IMPORT: Final = """\
    register1 = (void *)&name1;
    register2 = (void *)&name2;
    register3 = name3;
    register4 = CPyImport_IsInitialized(register2);
    if (!register4) goto label1;
    register5 = PyImport_GetModuleDict();
    register6 = value1;COMMENT
    register7 = CPyDict_GetItem(register5, register6);
    if (unlikely(register7 == NULL)) {
        trace1
        goto label2;
    }
    register8 = register7;
    goto label3;
label1: ;
    register9 = name4;
    register10 = name5;
    register11 = (PyObject **)&name6;
    register12 = PyImport_GetModuleDict();
    register13 = value2;COMMENT
    register14 = CPyDict_GetItem(register12, register13);
    if (unlikely(register14 == NULL)) {
        trace2
        goto label2;
    }
    register15 = value3;COMMENT
    register16 = CPyObject_GetAttr(register14, register15);
    CPy_DECREF(register14);
    if (unlikely(register16 == NULL)) {
        trace3
        goto label2;
    }
    register17 = value4;COMMENT
    register18 = value1;COMMENT
    register19 = CPyImport_ImportNative(\
register18, register9, register10, register11, register1, register2, register3, register16, register17, 0);
    CPy_DECREF(register16);
    if (unlikely(register19 == NULL)) {
        trace4
        goto label2;
    }
    register8 = register19;
label3: ;
    register20 = value5;COMMENT
    register21 = name7;
    register22 = CPyImport_GetNativeAttrs(register8, register20, register20, register21);
    CPy_DECREF(register8);
"""
CALL: Final = """\
    register22 = import_values(
        value1, name4, name5, (PyObject **)&name6, (CPyModuleCache *)&name1, (CPyImportState *)&name2, name3,
        value2, value3, value4, value5, name7);
"""
WORD: Final = re.compile(r"\b(register|label|value|name|trace)\d+\b")
KINDS: Final = {
    "register": r"cpy_r_r\d+", "label": r"CPyL\d+", "value": r"CPyStatics\[\d+\]", "name": r"\w+",
    "trace": r"CPy_AddTraceback\([^\n]*\);",
}  # fmt: skip
# What a module does when it is imported, which is once.
INITIALIZATION: Final = re.compile(r"^char CPyDef_\w+_____top_level__\(void\) ?\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
COUNTED_IN_PLACE: Final = re.compile(r"\bCPy_DECREF\((cpy_r_r\d+)\)")


def pattern(text: str) -> re.Pattern[str]:
    """Return the expression that finds C like `text`, with a group for each of its words with a number."""
    known = set()

    def group(found: re.Match[str]) -> str:
        word = found.group()
        if word in known:
            return f"(?P={word})"
        known.add(word)
        return f"(?P<{word}>{KINDS[found[1]]})"

    return re.compile(WORD.sub(group, re.escape(text)).replace("COMMENT", r"[^\n]*"))


NATIVE_IMPORT: Final = pattern(IMPORT)


def without_trashcan(source: str) -> str:
    """Return the C source whose deallocators use the trashcan only for objects with garbage collection."""
    return ACYCLIC_DEALLOCATOR.sub(r"\1\2", source)


def with_short_initialization(source: str) -> str:
    """Return the C source whose modules import by a call of `PRELUDE`."""

    def call(found: re.Match[str]) -> str:
        return WORD.sub(lambda word: found[word.group()], CALL)

    def shortened(found: re.Match[str]) -> str:
        return COUNTED_IN_PLACE.sub(r"CPy_DecRef(\1)", NATIVE_IMPORT.sub(call, found.group()))

    return INITIALIZATION.sub(shortened, source)


def mended(source: str) -> str:
    """Return a C source of mypyc as it is compiled."""
    return with_short_initialization(without_trashcan(source))
