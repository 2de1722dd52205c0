"""What `spanwire start` says about the pure build is so: the command that it names makes a compiled one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spanwire.cli.process.start import PURE
from tests.service.started import Started
from tests.support.peers import require

ROOT = Path(__file__).resolve().parents[3]
FOUND = re.search(
    r"([\d.]+ to \d+) times the processor time .* or (\S+ pip install \.) in the sources, .*\((\S+)\)", PURE
)


def test_the_line_of_the_pure_build_says_what_its_page_says() -> None:
    assert FOUND is not None
    page = (ROOT / FOUND[3]).read_text("utf-8")
    assert f"takes {FOUND[1]} times the processor time" in page
    assert f"\n$ {FOUND[2]} " in page
    least, _, most = FOUND[1].split()
    figures = (ROOT / "docs/performance.md").read_text("utf-8")
    assert re.search(rf"The pure build .* takes it {re.escape(least)} times .* to {most} times ", figures)


def test_the_command_that_the_line_names_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("cc")
    assert FOUND is not None
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in ("src", "tools", "man"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE", "NOTICE"):
        shutil.copyfile(ROOT / name, source / name)
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    # The module that tells the build and another one compile in seconds.
    text, replaced = re.subn(r'("/src/spanwire/_build.py",\n)[^\]]*', r'\1    "/src/spanwire/model/text.py",\n', text)
    assert replaced == 1
    (source / "pyproject.toml").write_text(text, "utf-8")
    # pip as it is here: with the packages of this environment, into a folder of its own, and nothing from a registry.
    variables = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_TARGET": str(target),
    }  # fmt: skip
    done = subprocess.run(
        ["sh", "-c", FOUND[2]], cwd=source, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.setenv("PYTHONPATH", str(target))
    with Started(tmp_path) as broker:
        assert broker.output[0] == "Build: compiled"
