"""``spanwire pipeline cursors``, ``release``, ``sinks`` and ``forget``: what programs hold of queues and have
committed, and the end of those that will not come back. Needs neither Spark nor Java.
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
from spanwire.pipeline.link.control_client import Control, CursorView, SinkView

DEFAULT_URL: Final = "tcp://127.0.0.1:61616"
PASSWORD: Final = "SPANWIRE_PASSWORD"
FAILURE: Final = 1
UNSAID: Final = -1


def run_cursors(arguments: Sequence[str]) -> int:
    """Lists cursors and what they hold."""
    options = _listing(arguments, "cursors", "List the broker's cursors and what they hold.")
    with _connect(options) as connection:
        found = sorted(Control(connection).cursors(), key=lambda view: view.name)
    return _show("cursors", [(asdict(view), _line_of(view)) for view in found], options.json)


def run_sinks(arguments: Sequence[str]) -> int:
    """Lists sinks: what was committed last, and what is staged."""
    options = _listing(arguments, "sinks", "List the broker's sinks: who commits batches there.")
    with _connect(options) as connection:
        found = sorted(Control(connection).sinks(), key=lambda view: view.query)
    return _show("sinks", [(asdict(view), _line_of_sink(view)) for view in found], options.json)


def run_release(arguments: Sequence[str]) -> int:
    """Ends a cursor, and gives back what it holds."""
    options = _ending(
        arguments,
        "release",
        "cursor",
        "End a cursor whose program will not come back; what it holds goes back into the queue.\n"
        "Without --epoch it shows the cursor and asks for its epoch, so that nobody ends a newer run by mistake.",
    )
    with _connect(options) as connection:
        control = Control(connection)
        found = next((view for view in control.cursors() if view.name == options.name), None)
        if found is None:
            raise _not_there("cursor", options.name)
        if found.released:
            raise JmsError(f"cursor {found.name} was released already, at epoch {found.epoch - 1}")
        if not _is_confirmed("release", f"cursor {found.name}", options.epoch, found.epoch, _line_of(found)):
            return FAILURE
        count = control.release(found.name, found.epoch)
    sys.stdout.write(f"release: cursor {found.name} of {found.destination} is ended, {count} messages went back\n")
    return 0


def run_forget(arguments: Sequence[str]) -> int:
    """Forgets a sink, and drops what is staged for it."""
    options = _ending(
        arguments,
        "forget",
        "sink",
        "Forget a sink whose program will not come back, with all that is staged for it. If the program\n"
        "comes back all the same, its last batch may be doubled. Without --epoch it shows the sink and asks for it.",
    )
    with _connect(options) as connection:
        control = Control(connection)
        found = next((view for view in control.sinks() if view.query == options.name), None)
        if found is None:
            raise _not_there("sink", options.name)
        if not _is_confirmed("forget", f"sink {found.query}", options.epoch, found.epoch, _line_of_sink(found)):
            return FAILURE
        count = control.forget(found.query, found.epoch)
    sys.stdout.write(f"forget: sink {found.query} is forgotten, {count} staged messages are dropped\n")
    return 0


def _listing(arguments: Sequence[str], command: str, description: str) -> argparse.Namespace:
    parser = Parser(prog=f"spanwire pipeline {command}", description=description)
    _broker_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    return parser.parse(arguments)


def _show(command: str, found: list[tuple[dict[str, object], str]], as_json: bool) -> int:
    for fields, line in found:
        sys.stdout.write((json.dumps(fields) if as_json else line) + "\n")
    if not found and not as_json:
        sys.stdout.write(f"{command}: there are none\n")
    return 0


def _ending(arguments: Sequence[str], command: str, what: str, description: str) -> argparse.Namespace:
    parser = Parser(prog=f"spanwire pipeline {command}", description=description)
    parser.add_argument("name", metavar="NAME", help=f"the {what}, as spanwire pipeline {what}s shows it")
    _broker_options(parser)
    parser.whole_number("epoch", f"the epoch that the {what} has now; do not ask", UNSAID)
    return parser.parse(arguments)


def _not_there(what: str, name: str) -> JmsError:
    return JmsError(f"there is no {what} {name[:60]!r}; spanwire pipeline {what}s shows those there are")


def _is_confirmed(command: str, what: str, said: int, epoch: int, line: str) -> bool:
    """Whether the epoch that is said, or typed, is that of now; tells when not."""
    given = said if said != UNSAID else _asked(command, epoch, line)
    if given != epoch:
        sys.stderr.write(
            f"spanwire pipeline {command}: {what} is at epoch {epoch}, not {given}: nothing is done; look at it again\n"
        )
    return given == epoch


def _asked(command: str, epoch: int, line: str) -> int:
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"{command} needs --epoch {epoch} where nobody can be asked; the program must not run any more"
        )
    sys.stdout.write(line + "\nThe program must not run any more. Type the epoch to go on: ")
    sys.stdout.flush()
    text = sys.stdin.readline().strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else UNSAID


def _line_of(view: CursorView) -> str:
    held = view.end - view.start
    what = f"holds {held} messages, {view.start} to {view.end}" if held else "holds none"
    what = "released" if view.released else what
    alone = ", exclusive" if view.exclusive and not view.released else ""
    return printable(f"{view.name}: {view.destination}, epoch {view.epoch}, {what}{alone}, {_who(view.run, view.user)}")


def _line_of_sink(view: SinkView) -> str:
    last = f"batch {view.batch} is committed" if view.batch >= 0 else "no batch is committed"
    staged = f", staged messages: {view.staged}" if view.staged else ""
    return printable(f"{view.query}: epoch {view.epoch}, {last}{staged}, {_who(view.run, view.user)}")


def _who(run: str, user: str) -> str:
    return f"run {run} of {user}"


def _broker_options(parser: Parser) -> None:
    parser.option("url", "the broker", DEFAULT_URL, metavar="URL")
    parser.option("user", f"who asks; the password is taken from the variable {PASSWORD}")


def _connect(options: argparse.Namespace) -> blocking.Connection:
    return blocking.connect(options.url, user_name=options.user, password=os.environ.get(PASSWORD))
