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
BLOCK: Final = re.compile(r"^ *```(console|sh)\b[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
FENCE: Final = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
PROMPT: Final = re.compile(r"^ *(?:\S*[$#]) (.*)$", re.MULTILINE)
NEXT: Final = re.compile(r"[|&;]+")  # ends a command; another one follows in the line
REDIRECTION: Final = re.compile(r"[0-9]?[<>].*")  # ends the arguments of a command
OF_THE_PAST: Final = ("docs/internals/adr/", "docs/internals/benchmarks/")
MAKEFILES: Final = (ROOT / "Makefile", ROOT / "src/spanwire/pipeline/project/files/Makefile.txt")
EXTRAS: Final = frozenset(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
TARGETS: Final = frozenset(
    target for path in MAKEFILES for target in re.findall(r"^([a-z-]+):", path.read_text("utf-8"), re.MULTILINE)
)


class Accepted(BaseException):
    """Ends a command behind its parser, before it acts; no handler of a command catches it."""


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(path for path in found if not path.relative_to(ROOT).as_posix().startswith(OF_THE_PAST))


def commands(text: str) -> Iterator[list[str]]:
    """Return the words of each command in the blocks of a page, without variables before and redirections behind it."""
    for kind, block in BLOCK.findall(text):
        joined = block.replace("\\\n", " ")
        for line in PROMPT.findall(joined) if kind == "console" else joined.splitlines():
            yield from commands_of(shlex.split(re.sub(r";(?=\s|$)", " ;", line), comments=True))


def commands_of(line: list[str]) -> Iterator[list[str]]:
    """Return the commands of one line of a shell, and that behind ``kubectl exec … --`` as one of its own."""
    words: list[str] = []
    for word in [*line, ";"]:
        if not NEXT.fullmatch(word):
            words.append(word)
            continue
        while words and re.match(r"[A-Z_]+=|sudo$", words[0]):
            del words[0]
        del words[next((index for index, one in enumerate(words) if REDIRECTION.fullmatch(one)), len(words)) :]
        if words[:2] == ["kubectl", "exec"] and "--" in words:
            del words[: words.index("--") + 1]
        if words:
            yield words
        words = []


def named_commands(text: str) -> Iterator[list[str]]:
    """Return the commands in backticks of sentences, unless a part is left out."""
    for command in re.findall(r"`((?:spanwire|pip install|make) [^`…]+)`", FENCE.sub("", text)):
        if "COMMAND" not in command:
            yield from commands_of(shlex.split(command))


def fault(words: list[str], page: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what is wrong with a command, or nothing. No command is run."""
    name, *rest = Path(words[0]).name, *words[1:]
    if name == "spanwire":
        try:
            status: object = main(rest)
        except Accepted:
            return ""
        except SystemExit as ended:
            status = ended.code
        return "" if rest in (["--version"], ["--help"]) else capsys.readouterr().err.strip() or f"status {status}"
    if name == "make":
        unknown = [word for word in rest if re.fullmatch(r"[a-z][a-z-]*", word) and word not in TARGETS]
        return f"no target {unknown[0]}" if unknown else ""
    if re.match(r"python3?$", name) and rest[:2] == ["-m", "pip"]:
        name, *rest = rest[1:]
    if re.match(r"pip3?$", name):
        named = [extra for word in rest for extra in re.findall(r"(?:^\.|spanwire|\.whl)\[(.+)\]", word)]
        unknown = [extra for extras in named for extra in extras.split(",") if extra not in EXTRAS]
        return f"no extra {unknown[0]}" if unknown else ""
    if re.match(r"python3?$", name) and rest and rest[0].endswith(".py"):
        is_made = f'title="{rest[0]}"' in page.read_text("utf-8")  # the page has the reader write this file
        is_there = is_made or (ROOT / rest[0]).is_file() or (page.parent / rest[0]).is_file()
        return "" if is_there else f"no file {rest[0]}"
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


def test_every_command_in_a_sentence_exists(capsys: pytest.CaptureFixture[str]) -> None:
    faults = []
    for page in pages():
        for words in named_commands(page.read_text("utf-8")):
            if re.search("unknown|there is no|^no ", found := fault(words, page, capsys)):  # arguments may be left out
                faults.append(f"{page.relative_to(ROOT)}: {shlex.join(words)}: {found}")
    assert faults == []


def test_every_printed_command_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    tried = 0
    faults = []
    for page in pages():
        for words in commands(page.read_text("utf-8")):
            tried += Path(words[0]).name == "spanwire"
            if found := fault(words, page, capsys):
                faults.append(f"{page.relative_to(ROOT)}: {shlex.join(words)}: {found}")
    assert faults == []
    assert tried > 200


@pytest.mark.parametrize("form", ["console\n$ {}", 'sh title="x"\n{}', "sh\ntrue && {}", "sh\nexport A=b; {}"])
@pytest.mark.parametrize(
    "line",
    [
        "spanwire definitions import orders.toml orders-test",
        "spanwire start --no-such-option",
        "spanwire no-such-command | head",
        "TOKEN=x spanwire queue no-such-action",
        "/opt/spanwire/bin/spanwire queue list --no-such-option > out.txt",
        "kubectl exec broker-0 -- spanwire no-such-command",
        "pip install '.[no-such-extra]'",
        "python -m pip install '.[spark,no-such-extra]'",
        "make venv no-such-target",
        "python examples/none.py",
    ],
)
def test_a_command_that_is_wrong_is_found(line: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = list(commands(f"```{form.format(line)}\n```\n"))
    assert any(fault(one, ROOT / "README.md", capsys) for one in words)
