"""Completion of a command line in bash, zsh and fish, with argcomplete (extra ``completion``).

The shell runs ``spanwire`` without arguments and with the line in its environment. The words before the cursor choose a
command as in a run. The command's parser, or its list of actions, then answers, and the process ends.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable

import argcomplete
from argcomplete.lexers import split_line

from spanwire.registry import COMPLETING


def words_before(commands: Iterable[str]) -> list[str]:
    """Return the complete words behind the program's name and before the cursor.

    The first word is one of ``commands``. The process ends if the cursor is in the first word.
    """
    line, point = os.environ["COMP_LINE"], int(os.environ["COMP_POINT"])
    words = split_line(line, point)[3]
    before = [str(word) for word in words[int(os.environ[COMPLETING]) :]]
    if not before:
        complete_action("spanwire", commands)
    return before


def complete(parser: argparse.ArgumentParser, skipped: int) -> None:
    """Print what the word under the cursor may be, and end the process.

    ``skipped`` words between the program's name and the parser's arguments chose the parser.
    """
    os.environ[COMPLETING] = str(int(os.environ[COMPLETING]) + skipped)
    argcomplete.autocomplete(parser)


def complete_action(program: str, names: Iterable[str]) -> None:
    """Print the names of actions that fit the word under the cursor, and end the process."""
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("action", choices=list(names))
    complete(parser, len(program.split()) - 1)
