"""C of mypyc is mended before it is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.peers import require
from tools.mend_c import NATIVE_IMPORT, without_trashcan

ROOT = Path(__file__).resolve().parents[3]
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


MODULES = {
    "base": 'class Base:\n    def name(self) -> str:\n        return "base"\n\n\nNUMBER = 7\n',
    "user": "from package.base import NUMBER, Base\nfrom package.other import Other\n\n\n"
    "def answer() -> str:\n    return Base().name() + Other().name() + str(NUMBER)\n",
    "other": "from package.base import NUMBER, Base\n\n\nclass Other(Base):\n    pass\n",
    "broken": 'from package.base import NUMBER\n\nraise ValueError(f"nothing is {NUMBER}")\n',
    "after": "from package.base import NUMBER\nfrom package.broken import missing  # type: ignore\n",
}
IMPORTS = """
import traceback
import package.user
print(package.user.answer(), package.user.__file__.endswith(".so"))
for attempt in range(2):
    try:
        import package.after
    except ValueError as failure:
        print(failure, [(entry.name, entry.lineno) for entry in traceback.extract_tb(failure.__traceback__)][-2:])
"""


@pytest.mark.long
def test_mended_modules_import_each_other_and_pass_on_what_an_import_raises(tmp_path: Path) -> None:
    require("cc")
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "package").mkdir(parents=True)
    target.mkdir()
    (source / "package/__init__.py").touch()
    for name, text in MODULES.items():
        (source / f"package/{name}.py").write_text(text, "utf-8")
    files = [f"package/{name}.py" for name in MODULES]
    command = [sys.executable, str(ROOT / "tools/compile_modules.py"), str(target), "0", *files]
    subprocess.run(command, cwd=source, check=True)
    generated = {path.name: path.read_text("utf-8") for path in (target / "c").glob("__native_package___*.c")}
    calls = {name.split("___")[-1][:-2]: text.count(" = import_values(") for name, text in generated.items()}
    assert calls == {"base": 0, "user": 2, "other": 1, "broken": 1, "after": 2}
    assert [name for name, text in generated.items() if NATIVE_IMPORT.search(text)] == []
    (target / "lib/package/__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], env=os.environ | {"PYTHONPATH": str(target / "lib")}, text=True,
        capture_output=True,
    )  # fmt: skip
    failure = "nothing is 7 [('<module>', 2), ('<module>', 3)]"
    assert (done.stderr, done.stdout.splitlines()) == ("", ["basebase7 True", failure, failure])
