"""A shell completes commands, actions and options of a line, and nothing of the line is carried out."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from spanwire.cli import completion
from spanwire.cli.main import COMMANDS, main
from spanwire.registry import COMPLETING

SEPARATOR = "\013"  # argcomplete's, between two proposals
PROGRAM = """
import sys
from spanwire.cli.main import main
raise SystemExit(main())
"""


def completed(line: str, directory: Path) -> set[str]:
    """Return the proposals for the last word of a line, asked for as argcomplete's function of bash does."""
    answer = directory / "answer"
    environment = {
        **os.environ,
        COMPLETING: "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
        "_ARGCOMPLETE_SHELL": "bash",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "XDG_RUNTIME_DIR": str(directory),
    }
    command = [sys.executable, "-c", PROGRAM]
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
    return set(answer.read_text().split(SEPARATOR)) if answer.exists() else set()


def test_the_first_word_is_a_command(tmp_path: Path) -> None:
    assert completed("spanwire ", tmp_path) >= set(COMMANDS)
    assert completed("spanwire que", tmp_path) == {"query", "queue"}


@pytest.mark.parametrize(
    ("line", "actions"),
    [
        ("spanwire queue p", {"pause", "purge"}),
        ("spanwire config ", {"check"}),
        ("spanwire store ex", {"export"}),
        ("spanwire connector st", {"start", "stop"}),
        ("spanwire network m", {"map"}),
        ("spanwire bridge re", {"restart", "resume"}),
        ("spanwire dlq ", {"retry"}),
    ],
)
def test_the_second_word_is_an_action(line: str, actions: set[str], tmp_path: Path) -> None:
    assert completed(line, tmp_path) >= actions


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("spanwire start --allow", {"--allow-anonymous", "--allowAnonymous"}),
        ("spanwire queue purge ORDERS --dry", {"--dry-run", "--dryRun"}),
        ("spanwire config check --conn", {"--connect"}),
        ("spanwire start --log-level ", {"debug", "info", "warning", "error"}),
    ],
)
def test_options_and_their_values_follow(line: str, options: set[str], tmp_path: Path) -> None:
    assert completed(line, tmp_path) >= options


class ParserAsked(Exception):
    """Raised instead of the end of the process, with the parser that was asked."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__(parser.prog)
        self.parser: Final = parser


def asked(monkeypatch: pytest.MonkeyPatch, *words: str) -> argparse.ArgumentParser:
    """Return the parser that is asked for the word behind some words. Raises `AssertionError` if a command runs."""
    line = " ".join(["spanwire", *words, ""])
    for name, value in ((COMPLETING, "1"), ("COMP_LINE", line), ("COMP_POINT", str(len(line)))):
        monkeypatch.setenv(name, value)

    def complete(parser: argparse.ArgumentParser, skipped: int) -> None:
        raise ParserAsked(parser)

    monkeypatch.setattr(completion, "complete", complete)
    try:
        main([])
    except ParserAsked as question:
        return question.parser
    raise AssertionError(f"{words} ran")


def actions_of(parser: argparse.ArgumentParser) -> list[str]:
    """Return the proposed actions of a command; empty for a command with options of its own."""
    return [str(word) for action in parser._actions if action.dest == "action" for word in action.choices or ()]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_while_its_options_are_completed(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parser = asked(monkeypatch, command)
    for action in actions_of(parser):
        parser = asked(monkeypatch, command, action)
        for inner in actions_of(parser):
            assert asked(monkeypatch, command, action, inner).prog == f"spanwire {command} {action} {inner}"
    assert parser.prog.startswith(f"spanwire {command}")
