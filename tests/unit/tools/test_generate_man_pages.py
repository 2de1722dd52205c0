"""Man pages name all commands and options, and the programs that show them find nothing to complain about."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from spanwire.cli.main import COMMANDS
from tools.generate_man_pages import escaped, line, pages, synopsis

ROOT = Path(__file__).resolve().parents[3]
MAN = ROOT / "man"


def test_each_command_has_a_page_which_wheels_bring_along() -> None:
    names = {path.name for path in MAN.glob("*.1")}
    assert names == {"spanwire.1"} | {f"spanwire-{name}.1" for name in COMMANDS}
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["shared-data"] == {"man": "share/man/man1"}


def test_the_pages_are_what_the_parsers_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "78")
    assert pages() == {path.name: path.read_text("utf-8") for path in MAN.glob("*.1")}


def test_a_text_is_never_markup() -> None:
    assert line(".TH is a macro") == r"\&.TH is a macro"
    assert line("'quoted'") == r"\&'quoted'"
    assert escaped(r"a\b --c …") == r"a\eb \-\-c \[u2026]"


@pytest.mark.parametrize(
    "command",
    [["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-ww", "-mandoc", "-T", "utf8"]],
    ids=["mandoc", "groff"],
)
def test_no_page_has_a_warning(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} on the path")
    done = subprocess.run([*command, *sorted(map(str, MAN.glob("*.1")))], capture_output=True, text=True, check=False)
    problems = done.stdout if command[0] == "mandoc" else done.stderr
    assert (problems, done.returncode) == ("", 0)


def test_a_page_shows_options_with_their_meaning() -> None:
    text = (MAN / "spanwire-start.1").read_text("utf-8")
    assert r"\fB\-\-web\fR" in text
    assert "serve metrics, health and an HTTP API" in text


def test_the_lines_of_a_synopsis_stand_below_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "78")
    parser = argparse.ArgumentParser("spanwire start")
    for name in ("first", "second", "third"):
        parser.add_argument(f"--{name}-of-the-long-options", metavar="VALUE")
    lines = [line.replace("\\", "") for line in synopsis(parser)]
    assert lines[2].startswith("spanwire start [-h]")
    assert [len(line) - len(line.lstrip()) for line in lines[3:-1]] == [len("spanwire start ")] * len(lines[3:-1])
    assert len(lines) > 4
