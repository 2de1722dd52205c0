"""The commands ``spanwire pipeline cursors``, ``release``, ``sinks`` and ``forget``.

The commands list the cursors and sinks of programs at a broker, or end the cursor or sink of an abandoned program.
Neither Spark nor Java is needed.
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
from spanwire.model.text import printable
from spanwire.pipeline.link.control_answers import CursorView, SinkView
from spanwire.pipeline.link.control_client import Control

DEFAULT_URL: Final = "tcp://127.0.0.1:61616"
PASSWORD: Final = "SPANWIRE_PASSWORD"
FAILURE: Final = 1
NO_EPOCH: Final = -1
MAX_SHOWN: Final = 80  # characters of a selector in a line; --json has all


def run_cursors(arguments: Sequence[str]) -> int:
    """List cursors and reservations."""
    options = _parse_listing(arguments, "cursors", "List the broker's cursors and their reserved messages.")
    with connect_to(options) as connection:
        views = sorted(Control(connection).cursors(), key=lambda view: view.name)
    return _show("cursors", [(asdict(view), cursor_text(view)) for view in views], options.json)


def run_sinks(arguments: Sequence[str]) -> int:
    """List sinks with the last committed batch and staged messages."""
    options = _parse_listing(arguments, "sinks", "List the broker's sinks: the programs that commit batches there.")
    with connect_to(options) as connection:
        views = sorted(Control(connection).sinks(), key=lambda view: view.query)
    return _show("sinks", [(asdict(view), sink_text(view)) for view in views], options.json)


def run_release(arguments: Sequence[str]) -> int:
    """End a cursor and release the reservation."""
    options = _parse_ending(
        arguments,
        "release",
        "cursor",
        "End the cursor of a program that will not return; its reserved messages go back to the queue.\n"
        "Without --epoch it shows the cursor and asks for its epoch, so that nobody ends a newer run by mistake.",
    )
    with connect_to(options) as connection:
        control = Control(connection)
        view = next((view for view in control.cursors() if view.name == options.name), None)
        if view is None:
            raise _not_found("cursor", options.name)
        if view.released:
            raise JmsError(f"cursor {view.name} was released already, at epoch {view.epoch - 1}")
        if not _is_confirmed("release", f"cursor {view.name}", options.epoch, view.epoch, cursor_text(view)):
            return FAILURE
        count = control.release(view.name, view.epoch)
    sys.stdout.write(f"release: cursor {view.name} of {view.destination} is ended, {count} messages went back\n")
    return 0


def run_forget(arguments: Sequence[str]) -> int:
    """Remove a sink and all staged messages."""
    options = _parse_ending(
        arguments,
        "forget",
        "sink",
        "Remove the sink of a program that will not return, with its staged messages. If the program\n"
        "returns nevertheless, its last batch may be duplicated. Without --epoch the command shows the sink and\n"
        "asks for its epoch.",
    )
    with connect_to(options) as connection:
        control = Control(connection)
        view = next((view for view in control.sinks() if view.query == options.name), None)
        if view is None:
            raise _not_found("sink", options.name)
        if not _is_confirmed("forget", f"sink {view.query}", options.epoch, view.epoch, sink_text(view)):
            return FAILURE
        count = control.forget(view.query, view.epoch)
    sys.stdout.write(f"forget: sink {view.query} is forgotten, {count} staged messages are dropped\n")
    return 0


def _parse_listing(arguments: Sequence[str], command: str, description: str) -> argparse.Namespace:
    parser = Parser(prog=f"spanwire pipeline {command}", description=description)
    name_broker(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    return parser.parse(arguments)


def _show(command: str, rows: list[tuple[dict[str, object], str]], as_json: bool) -> int:
    for fields, text in rows:
        sys.stdout.write((json.dumps(fields) if as_json else text) + "\n")
    if not rows and not as_json:
        sys.stdout.write(f"{command}: there are none\n")
    return 0


def _parse_ending(arguments: Sequence[str], command: str, kind: str, description: str) -> argparse.Namespace:
    parser = Parser(prog=f"spanwire pipeline {command}", description=description)
    parser.add_argument("name", metavar="NAME", help=f"the {kind}, as spanwire pipeline {kind}s shows it")
    name_broker(parser)
    parser.whole_number("epoch", f"the present epoch of the {kind}; do not ask", NO_EPOCH)
    return parser.parse(arguments)


def _not_found(kind: str, name: str) -> JmsError:
    return JmsError(f"there is no {kind} {name[:60]!r}; spanwire pipeline {kind}s lists them")


def _is_confirmed(command: str, kind: str, requested: int, epoch: int, text: str) -> bool:
    """Return True if the epoch of the option or the prompt is the present one.

    Otherwise report the difference.
    """
    epoch_given = requested if requested != NO_EPOCH else _ask_epoch(command, epoch, text)
    if epoch_given != epoch:
        sys.stderr.write(
            f"spanwire pipeline {command}: {kind} is at epoch {epoch}, not {epoch_given}: "
            "nothing was changed; check it again\n"
        )
    return epoch_given == epoch


def _ask_epoch(command: str, epoch: int, text: str) -> int:
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{command} needs --epoch {epoch} without a terminal; the program must have ended")
    sys.stdout.write(text + "\nThe program must have ended. Type the epoch to go on: ")
    sys.stdout.flush()
    answer = sys.stdin.readline().strip()
    return int(answer) if answer.isascii() and answer.isdecimal() and len(answer) < 19 else NO_EPOCH


def cursor_text(view: CursorView) -> str:
    """Return a cursor as a line."""
    reserved = view.end - view.start
    state = f"holds {reserved} messages, {view.start} to {view.end}" if reserved else "holds none"
    state = "released" if view.released else state
    alone = ", exclusive" if view.exclusive and not view.released else ""
    chosen = f" where {view.selector[:MAX_SHOWN]}" if view.selector else ""
    return printable(
        f"{view.name}: {view.destination}{chosen}, epoch {view.epoch}, {state}{alone}, {_who(view.run, view.user)}"
    )


def sink_text(view: SinkView) -> str:
    """Return a sink as a line."""
    last = f"batch {view.batch} is committed" if view.batch >= 0 else "no batch is committed"
    staged = f", staged messages: {view.staged}" if view.staged else ""
    return printable(f"{view.query}: epoch {view.epoch}, {last}{staged}, {_who(view.run, view.user)}")


def _who(run: str, user: str) -> str:
    return f"run {run} of {user}"


def name_broker(parser: Parser) -> None:
    """Add the options that name a broker."""
    parser.option("url", "the broker", DEFAULT_URL, metavar="URL")
    parser.option("user", f"the user; the password is taken from the variable {PASSWORD}")


def connect_to(options: argparse.Namespace) -> blocking.Connection:
    """Connect to the broker of the options."""
    return blocking.connect(options.url, user_name=options.user, password=os.environ.get(PASSWORD))
