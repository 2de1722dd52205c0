"""``spanwire pipeline cursors`` and ``release``: what programs hold of queues, and the end of one that will not come
back. Needs neither Spark nor Java.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.client import blocking
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.control import Control, CursorView

DEFAULT_URL: Final = "tcp://127.0.0.1:61616"
PASSWORD: Final = "SPANWIRE_PASSWORD"
FAILURE: Final = 1
UNSAID: Final = -1


def run_cursors(arguments: Sequence[str]) -> int:
    """Lists cursors and what they hold."""
    parser = Parser(prog="spanwire pipeline cursors", description="List the broker's cursors and what they hold.")
    _broker_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse(arguments)
    with _connect(options) as connection:
        found = Control(connection).cursors()
    for view in sorted(found, key=lambda view: view.name):
        sys.stdout.write((json.dumps(asdict(view)) if options.json else _line_of(view)) + "\n")
    if not found and not options.json:
        sys.stdout.write("cursors: there are none\n")
    return 0


def run_release(arguments: Sequence[str]) -> int:
    """Ends a cursor, and gives back what it holds."""
    parser = Parser(
        prog="spanwire pipeline release",
        description="End a cursor whose program will not come back; what it holds goes back into the queue.\n"
        "Without --epoch it shows the cursor and asks for its epoch, so that nobody ends a newer run by mistake.",
    )
    parser.add_argument("name", metavar="NAME", help="the cursor, as spanwire pipeline cursors shows it")
    _broker_options(parser)
    parser.whole_number("epoch", "the epoch that the cursor has now; do not ask", UNSAID)
    options = parser.parse(arguments)
    with _connect(options) as connection:
        control = Control(connection)
        found = next((view for view in control.cursors() if view.name == options.name), None)
        if found is None:
            raise JmsError(f"there is no cursor {options.name[:60]!r}; spanwire pipeline cursors shows those there are")
        if found.released:
            raise JmsError(f"cursor {found.name} was released already, at epoch {found.epoch - 1}")
        epoch = options.epoch if options.epoch != UNSAID else _asked(found)
        if epoch != found.epoch:
            sys.stderr.write(
                f"spanwire pipeline release: cursor {found.name} is at epoch {found.epoch}, not {epoch}: nothing is "
                f"done; look at it again\n"
            )
            return FAILURE
        count = control.release(found.name, epoch)
    sys.stdout.write(f"release: cursor {found.name} of {found.destination} is ended, {count} messages went back\n")
    return 0


def _asked(view: CursorView) -> int:
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"release needs --epoch {view.epoch} where nobody can be asked; its program must not run any more"
        )
    sys.stdout.write(_line_of(view) + "\nIts program must not run any more. Its epoch, to release it: ")
    sys.stdout.flush()
    text = sys.stdin.readline().strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else UNSAID


def _line_of(view: CursorView) -> str:
    held = view.end - view.start
    what = f"holds {held} messages, {view.start} to {view.end}" if held else "holds none"
    what = "released" if view.released else what
    alone = ", exclusive" if view.exclusive and not view.released else ""
    line = f"{view.name}: {view.destination}, epoch {view.epoch}, {what}{alone}, run {view.run} of {view.user}"
    return "".join(mark if mark.isprintable() else "?" for mark in line)


def _broker_options(parser: Parser) -> None:
    parser.option("url", "the broker", DEFAULT_URL, metavar="URL")
    parser.option("user", f"who asks; the password is taken from the variable {PASSWORD}")


def _connect(options: argparse.Namespace) -> blocking.Connection:
    return blocking.connect(options.url, user_name=options.user, password=os.environ.get(PASSWORD))
