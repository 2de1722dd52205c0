"""Printed commands are accepted by the parsers of ``spanwire``; extras, targets and programs on pages exist."""

from __future__ import annotations

import argparse
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spanwire.cli.arguments import Parser
from spanwire.cli.main import main

ROOT: Final = Path(__file__).resolve().parents[3]
BLOCK: Final = re.compile(r"^ *```console[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
PROMPT: Final = re.compile(r"^ *(?:\S*[$#]) (.*)$", re.MULTILINE)
END: Final = re.compile(r"[|&;]+|[0-9]?[<>].*")  # of a command, in a line of a shell
OF_THE_PAST: Final = ("docs/internals/adr/", "docs/internals/benchmarks/")
EXTRAS: Final = frozenset(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
TARGETS: Final = frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


class Accepted(BaseException):
    """Ends a command behind its parser, before it acts; no handler of a command catches it."""


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(path for path in found if not path.relative_to(ROOT).as_posix().startswith(OF_THE_PAST))


def commands(text: str) -> Iterator[list[str]]:
    """Return the words of each command in the blocks of a page, without variables before and pipes behind it."""
    for block in BLOCK.findall(text):
        for line in PROMPT.findall(block.replace("\\\n", " ")):
            words = shlex.split(line, comments=True)
            while words and re.match(r"[A-Z_]+=", words[0]):
                del words[0]
            end = next((index for index, word in enumerate(words) if END.fullmatch(word)), len(words))
            if end:
                yield words[:end]


def fault(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return what is wrong with a command, or nothing. No command is run."""
    name, *rest = words
    if Path(name).name == "spanwire":
        try:
            status: object = main(rest)
        except Accepted:
            return ""
        except SystemExit as ended:
            status = ended.code
        return "" if rest in (["--version"], ["--help"]) else capsys.readouterr().err.strip() or f"status {status}"
    if name in ("pip", "pip3") and (extras := re.search(r"\[(.+)\]", " ".join(rest))):
        unknown = set(extras[1].split(",")) - EXTRAS
        return f"no extra {', '.join(sorted(unknown))}" if unknown and "." in "".join(rest) else ""
    if name == "make" and rest and re.fullmatch(r"[a-z-]+", rest[0]):
        return "" if rest[0] in TARGETS else f"no target {rest[0]}"
    if re.match(r"python3?$", name) and rest and rest[0].startswith(("examples/", "tools/")):
        return "" if (ROOT / rest[0]).is_file() else f"no file {rest[0]}"
    return ""


@pytest.fixture(autouse=True)
def _no_command_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(self: argparse.ArgumentParser, arguments: list[str] | None = None, namespace: object = None) -> None:
        _, unknown = self.parse_known_args(arguments)
        if unknown:
            self.error(f"unknown {unknown[0]}")
        raise Accepted

    monkeypatch.setattr(Parser, "parse", parse)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)


def test_every_printed_command_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    tried = 0
    faults = []
    for page in pages():
        for words in commands(page.read_text("utf-8")):
            tried += words[0] == "spanwire"
            if found := fault(words, capsys):
                faults.append(f"{page.relative_to(ROOT)}: {shlex.join(words)}: {found}")
    assert faults == []
    assert tried > 150


@pytest.mark.parametrize(
    "line",
    [
        "spanwire definitions import orders.toml orders-test",
        "spanwire start --no-such-option",
        "spanwire no-such-command | head",
        "TOKEN=x spanwire queue no-such-action",
        "pip install '.[no-such-extra]'",
        "make no-such-target",
        "python examples/none.py",
    ],
)
def test_a_command_that_is_wrong_is_found(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    (words,) = commands(f"```console\n$ {line}\n```\n")
    assert fault(words, capsys)
