"""The changing actions: operations of the operation table, with a dry run and a question before."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.management.moving import begin, preview_text
from spanwire.cli.management.rows import Row, counted, fetch, qualified
from spanwire.cli.running import control_client
from spanwire.management.control_client import ControlClient
from spanwire.management.tables.attributes import BOOLEAN, INTEGER, LIST, OBJECT, ViewTable
from spanwire.management.tables.operation_table import DRY_RUN, LATER, ONLY_TASKS, Argument, Operation
from spanwire.model.destination import parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped

PASSWORD_VARIABLE: Final = "SPANWIRE_PASSWORD"
PATIENCE_S: Final = 3_600.0  # seconds; purging ten million messages takes minutes
ONE: Final = ("browse", "send")  # commands for one destination; others take a list
# These remove messages, or end what a client is at. They ask before, unless --yes is given.
ENDING: Final = ("purge", "delete", "remove-subscription", "job-remove", "jobs-remove", "end-consumer", "disconnect")
MOVING: Final = ("move", "copy", "retry", "task-undo", "task-resume")  # commands that wait for the end of a task
NOT_DONE: Final = 1
FROM_INPUT: Final = "-"
AS_USER: Final = ("send", "create-subscription")  # commands with the rights of a user
MAX_SHOWN: Final = 20  # destinations named before an operation; more are counted


def operate(word: str, operation: Operation, view: ViewTable, arguments: Sequence[str]) -> int:
    """Run an operation of a running broker, and print the result."""
    action = operation.path.rpartition("/")[2]
    parser = Parser(
        prog=f"spanwire {word} {action}", description=f"{operation.meaning[0].upper()}{operation.meaning[1:]}."
    )
    _add_arguments(parser, operation)
    _add_extra(parser, operation)
    parser.add_argument("--json", action="store_true", help="print the broker's answer as JSON")
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    values = _values(operation, view, options)
    if operation.command in AS_USER and options.user is not None:
        values |= {"user": options.user, "password": options.password or os.environ.get(PASSWORD_VARIABLE)}
    client = control_client(options, PATIENCE_S)
    if operation.command in ENDING and (options.dry_run or not options.yes):
        effect = _effect(word, action, operation, view, values, client)
        if options.dry_run:
            sys.stdout.write(f"{effect}; nothing was changed\n")
        if options.dry_run or not _is_wanted(effect):
            return 0 if options.dry_run else NOT_DONE
    answer = _run(operation, values, options, client)
    if answer is None:  # it goes on in the background
        return 0
    if values.get(DRY_RUN.name) and not options.json:
        sys.stdout.write(preview_text(operation.command, answer))
        return 0
    sys.stdout.write(json.dumps(answer, indent=2) + "\n" if options.json else _shown(word, action, values, answer))
    return 0


def _add_extra(parser: Parser, operation: Operation) -> None:
    """Add the options of some commands beside the operation's arguments."""
    if operation.command in ENDING:
        parser.add_argument("--yes", action="store_true", help="do not ask before")
        parser.add_argument(
            "--dry-run", "--dryRun", action="store_true", help="show what would be affected, and change nothing"
        )
    if operation.command in AS_USER:
        parser.option("user", "user whose rights count; not needed at a broker without users", metavar="NAME")
        parser.option("password", f"its password, better in ${PASSWORD_VARIABLE}", metavar="SECRET")
    if operation.command in MOVING:
        parser.add_argument("--background", action="store_true", help="do not wait for the end of the task")


def _run(
    operation: Operation, values: dict[str, object], options: argparse.Namespace, client: ControlClient
) -> object | None:
    """Run the operation and return the answer; None for a task in the background."""
    if operation.command not in MOVING or values.get(DRY_RUN.name):
        return client.ask(operation.command, **values)
    as_task = {LATER.name: True} if operation.subject else {}
    row = begin(client, operation.command, {**values, **as_task}, options.background)
    return None if row is None else row["result"]


def _add_arguments(parser: Parser, operation: Operation) -> None:
    """Add the operation's arguments: its subject as words, all others as options."""
    if operation.subject:
        is_one = operation.command in ONE or operation.command == "create"
        meaning = f"name of the {operation.subject}" + ("" if is_one else ", or a pattern such as 'ORDERS.>'")
        parser.add_argument("names", nargs=1 if is_one else "+", metavar="NAME", help=meaning)
    for argument in operation.arguments:
        if argument is LATER:  # a command waits
            continue
        name = _option_name(argument)
        if argument.type == LIST:
            parser.add_argument(argument.name, nargs="+", metavar="NAME", help=argument.meaning)
        elif argument.type == BOOLEAN:
            parser.flag(name, _meaning(argument))
            parser.set_defaults(**{argument.name: None})
        elif argument.type == OBJECT:
            parser.add_argument(
                "--property",
                dest=argument.name,
                action="append",
                metavar="NAME=VALUE",
                help=f"one of the {argument.meaning}",
            )
        elif argument.type == INTEGER:
            parser.whole_number(name, _meaning(argument), 0, lowest=argument.least or 0)
            parser.set_defaults(**{argument.name: None})
        elif argument.required and not operation.subject:
            parser.add_argument(argument.name, metavar=argument.name.upper(), help=argument.meaning)
        elif argument.required:
            parser.add_argument(f"--{name}", dest=argument.name, required=True, metavar="TEXT", help=_help(argument))
        else:
            parser.option(name, argument.meaning)


def _help(argument: Argument) -> str:
    return f"{argument.meaning}; {FROM_INPUT} reads the standard input" if argument.name == "body" else argument.meaning


def _meaning(argument: Argument) -> str:
    """Return the meaning for the help: commands make tasks without a request."""
    return argument.meaning.removesuffix(ONLY_TASKS)


def _option_name(argument: Argument) -> str:
    first, *others = argument.name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _values(operation: Operation, view: ViewTable, options: argparse.Namespace) -> dict[str, object]:
    """Return the arguments of the request. Raises `ConfigurationError`."""
    values: dict[str, object] = {}
    if operation.subject:
        names = [qualified(view, name) for name in options.names]
        values = {"destination": names[0]} if operation.command in ONE else {"destinations": names}
    for argument in operation.arguments:
        value = getattr(options, argument.name, None)
        if value is None:
            continue
        if argument.type == OBJECT:
            value = dict(_property(text) for text in value)
        if argument.name == "body" and value == FROM_INPUT:
            value = sys.stdin.read()
        values[argument.name] = value
    return values


def _property(text: str) -> tuple[str, object]:
    """Return a property; numbers, true and false are no texts, as in JSON."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigurationError(f"--property {text[:60]}: write NAME=VALUE")
    try:
        plain = json.loads(value)
    except ValueError:
        return name, value
    return name, plain if isinstance(plain, (bool, int, float)) else value


def _effect(
    word: str, action: str, operation: Operation, view: ViewTable, values: dict[str, object], client: ControlClient
) -> str:
    """Return the effect of an operation before its run, with the number of waiting messages.

    Raises:
        ConfigurationError: the broker has no such queue or topic
    """
    if not operation.subject:
        every = (
            f" of {counted(len(fetch(client, view)), view)}"
            if not any(one.required for one in operation.arguments)
            else ""
        )
        given = "".join(f" {value}" for value in values.values())
        return escaped(f"{action.replace('_', ' ')} {word}{given}{every}")
    names = values["destinations"]
    assert isinstance(names, list)
    patterns = [parse_destination(str(name)) for name in names]
    chosen: list[Row] = [
        row
        for row in fetch(client, view)
        if any(pattern.matches(parse_destination(str(row["destination"]))) for pattern in patterns)
    ]
    if not chosen:
        shown_names = escaped(", ".join(map(str, names)))
        raise ConfigurationError(f"{action}: no {word} matches {shown_names}; spanwire {word} list shows all")
    shown = [f"{escaped(str(row['destination']))} ({row['pending']} pending)" for row in chosen[:MAX_SHOWN]]
    more = f" and {len(chosen) - MAX_SHOWN} more" if len(chosen) > MAX_SHOWN else ""
    pending = sum(count for row in chosen if isinstance(count := row["pending"], int))
    messages = "those that the selector chooses of " if values.get("selector") else ""
    return f"{action} {', '.join(shown)}{more}: {counted(len(chosen), view)}, {messages}{pending} pending messages"


def _is_wanted(effect: str) -> bool:
    """Ask the user for consent. Raises `ConfigurationError` without a person at a terminal."""
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{effect}: nobody can be asked here, so give --yes, or --dry-run to change nothing")
    sys.stderr.write(f"{effect}\ngo on? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _shown(word: str, action: str, values: dict[str, object], answer: object) -> str:
    """Return a line for each object of an answer: its name, then the other values; messages are JSON."""
    if isinstance(answer, list):
        return "".join(_line(row) for row in answer if isinstance(row, dict)) or f"{action}: no {word} was affected\n"
    if isinstance(answer, dict):
        messages = answer.get("messages")
        if isinstance(messages, list):
            return "".join(f"{json.dumps(one)}\n" for one in messages)
        is_named = next(iter(values.values()), None) in answer.values()
        return _line(answer if is_named else {**_named(word, values), **answer})
    return f"{action}: done\n"


def _named(word: str, values: dict[str, object]) -> Row:
    """Return the subject of the operation, for an answer without a name."""
    first = next(iter(values.values()), word)
    return {"name": ", ".join(map(str, first)) if isinstance(first, list) else str(first)}


def _line(row: Row) -> str:
    first = next(iter(row.values()))
    others = [(name, value) for name, value in list(row.items())[1:] if value is not None and value != ""]
    words = ", ".join(f"{name.replace('_', ' ')} {_plain(value)}" for name, value in others)
    return escaped(f"{first}: {words or 'done'}") + "\n"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
