"""The parts of a release build that need no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools import build_dist
from tools.build_dist import SMOKE, Interpreter

ROOT = Path(__file__).resolve().parents[3]
HOOK = """
from tools.compile_hook import CompileHook
hook = CompileHook({root!r}, {config!r}, None, None, "", "wheel")
print(hook.dependencies())
data = dict(force_include=dict())
hook.initialize({version!r}, data)
print(data)
"""


def hook(version: str = "standard", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the hook with packages that cannot be compiled."""
    program = HOOK.format(root=str(ROOT), config={"include": [], "compile-dependencies": ["mypy"]}, version=version)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPANWIRE_")}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=inherited | variables, capture_output=True, text=True
    )


def test_a_build_without_the_variable_is_pure_and_needs_nothing() -> None:
    for done in (hook(), hook(SPANWIRE_COMPILE=""), hook(SPANWIRE_COMPILE="0")):
        assert (done.stdout, done.stderr) == ("[]\n{'force_include': {}}\n", "")


def test_a_value_that_means_nothing_is_refused_in_one_line() -> None:
    assert hook(SPANWIRE_COMPILE="yes").stderr == "SPANWIRE_COMPILE='yes' means nothing: set it to one of 0, 1\n"
    refused = hook(SPANWIRE_COMPILE="1", SPANWIRE_OPTIMIZE="fast").stderr
    assert refused == "SPANWIRE_OPTIMIZE='fast' means nothing: set it to one of 0, 1, 2, 3\n"


def test_an_editable_install_is_never_compiled() -> None:
    done = hook("editable", SPANWIRE_COMPILE="1")
    assert (done.stdout, done.returncode) == ("['mypy']\n{'force_include': {}}\n", 0)


def test_other_machines_try_the_same_smoke() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["cibuildwheel"]
    words = settings["test-command"].replace("\\\n", " ").split()
    assert [word for word in words if word.startswith("tests/")] == list(SMOKE)
    assert [name for name in SMOKE if not (ROOT / name).exists()] == []
    assert settings["environment"] == {"SPANWIRE_COMPILE": "1"}


def test_this_interpreter_is_asked_for_its_version() -> None:
    found = build_dist.interpreters([ROOT / "missing", Path(sys.executable)])
    assert [one.version for one in found] in ([], [sys.version_info[:2]])  # none without Python.h


def test_a_file_that_is_no_interpreter_is_passed_by(tmp_path: Path) -> None:
    other = tmp_path / "python3.12"
    other.write_text("#!/bin/sh\nexit 3\n", "utf-8")
    other.chmod(0o755)
    assert build_dist.interpreters([other]) == []


@pytest.mark.parametrize(("libc", "zig"), [(("glibc", "2.28"), False), (("", ""), False), (("glibc", "2.36"), True)])
def test_zig_compiles_where_the_library_of_the_machine_is_newer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, libc: tuple[str, str], zig: bool
) -> None:
    (tmp_path / "ziglang.py").write_text("", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("platform.libc_ver", lambda: libc)
    interpreter = Interpreter(Path(sys.executable), (3, 11), Path("/nowhere"), "")
    variables = build_dist.compiler(interpreter, tmp_path)
    assert ("CC" in variables) is zig
    assert not zig or "-linux-gnu.2.28" in variables["CC"]
    assert not zig or variables["LDSHARED"] == variables["CC"] + " -shared"
