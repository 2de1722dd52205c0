"""``spanwire bridge list``, ``status``, ``pause``, ``resume``, ``restart``: bridges of a live broker."""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.process.status import bridge_line
from spanwire.cli.running import UnknownBrokerError, control_client
from spanwire.management.running_brokers import running_brokers
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped

FAILURE: Final = 1
FORMATS: Final = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".xml": "xml"}
FROM_INPUT: Final = "-"
MAX_FILE_BYTES: Final = 64 * 1024  # bytes that are read of a file; the broker takes less, and says how much
COLUMNS: Final = ("name", "state", "since_s", "received", "forwarded", "batches", "retries", "dead_letters", "lag_s")
TEXTS: Final = {
    "pause": "Pause bridges: each completes its batch and closes its connections, until resume; a restart of the "
    "broker resumes none.",
    "resume": "Start paused bridges.",
    "restart": "Close the connections of bridges after the batch under way, and start anew; also starts failed and "
    "paused bridges.",
}

Row = dict[str, object]


def list_bridges(arguments: Sequence[str]) -> int:
    """Show the bridges of a running broker as a table."""
    parser = Parser(prog="spanwire bridge list", description="Show the bridges of a running broker, one on a line.")
    placement(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse(arguments)
    try:
        client = control_client(options)
    except UnknownBrokerError as error:
        raise ConfigurationError(f"{error}; spanwire bridge status NAME shows a bridge") from None
    _print(_rows(client.ask("status")), options.json, _table)
    return 0


def status(arguments: Sequence[str]) -> int:
    """Show all about some or all bridges. The exit status is 1 if a bridge has given up."""
    parser = Parser(
        prog="spanwire bridge status",
        description="Show source, target, state, counters and last error of bridges; fail if one has given up.",
    )
    placement(parser, names_others=True)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of bridges; without one all")
    options = parser.parse(arguments)
    rows = _rows(control_client(options).ask("status"))
    missing = [name for name in options.names if name not in [row["name"] for row in rows]]
    if missing:
        raise ConfigurationError(no_bridge(missing[0], os.environ))
    chosen = [row for row in rows if not options.names or row["name"] in options.names]
    _print(chosen, options.json, lambda rows: [bridge_line(row) for row in rows])
    return FAILURE if any(row["gave_up"] for row in chosen) else 0


def no_bridge(name: str, environment: Mapping[str, str]) -> str:
    """Return the error about an unknown bridge, with the option of a broker for the name of one."""
    text = f"this broker has no bridge {name[:100]!r}; spanwire bridge list shows all"
    if name not in [broker.name for broker in running_brokers(environment)]:
        return text
    return f"{text}; the name of a broker is written as --configuration {name}"


def _operation(action: str) -> Callable[[Sequence[str]], int]:
    """Return the command for an action of the broker."""

    def run(arguments: Sequence[str]) -> int:
        parser = Parser(prog=f"spanwire bridge {action}", description=TEXTS[action])
        placement(parser, names_others=True)
        parser.add_argument("names", nargs="+", metavar="NAME", help="names of bridges")
        options = parser.parse(arguments)
        rows = _list(control_client(options).ask(f"bridge-{action}", bridges=list(options.names)))
        _print(rows, False, lambda rows: [f"bridge {row['name']}: {row['state']}, {action} under way" for row in rows])
        return 0

    return run


def create(arguments: Sequence[str]) -> int:
    """Create the bridge of a file at a running broker."""
    parser = Parser(
        prog="spanwire bridge create",
        description="Create the bridge or route of a file at a running broker, and start it. It stays over starts of "
        "the broker, until it is deleted; one with a password in clear until the next start.",
    )
    placement(parser, names_others=True)
    parser.add_argument("file", type=Path, metavar="FILE", help="bridge in .toml, or route in .yaml or .xml; one alone")
    parser.add_argument("--replace", action="store_true", help="take the place of a created bridge of the same name")
    options = parser.parse(arguments)
    form = FORMATS.get(options.file.suffix)
    if form is None:
        parser.error(f"{options.file}: the name must end with {', '.join(FORMATS)}")
    try:
        with options.file.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"{options.file}: {error.strerror if isinstance(error, OSError) else 'it is no text in UTF-8'}")
    words = {"definition": text, "format": form, "file": options.file.name, "replace": bool(options.replace)}
    for row in _list(control_client(options).ask("bridge-create", **words)):
        lines = [f"bridge {row['name']}: created, {row['source']} to {row['target']}"]
        lines += [f"bridge {row['name']} {row['note']}"] if row.get("note") else []
        sys.stdout.write("".join(f"{escaped(line)}\n" for line in lines))
    return 0


def parameters(arguments: Sequence[str]) -> int:
    """Show the parameters of a bridge, or set some until the next start of its broker."""
    parser = Parser(
        prog="spanwire bridge parameters",
        description="Show the parameters of a bridge of a running broker, or set some: the bridge completes its batch "
        "and starts anew, and they hold until the next start of the broker.",
    )
    placement(parser, names_others=True)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("name", metavar="NAME", help="name of a bridge")
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="PARAMETER=VALUE",
        help="a parameter such as maxBatchSize=100; without a value it is taken away, and the value - of a password "
        "is asked for",
    )
    options = parser.parse(arguments)
    settings = dict(_setting(parser, text) for text in options.settings)
    client = control_client(options)
    if settings:
        client.ask("bridge-change", name=options.name, settings=settings)
    answer = client.ask("bridge-parameters", name=options.name)
    found = answer.get("parameters") if isinstance(answer, dict) else None
    shown = found if isinstance(found, dict) else {}
    if options.json:
        sys.stdout.write(json.dumps(shown, indent=2) + "\n")
    else:
        lines = [f"{name} = {_shown(value)}" for name, value in shown.items() if value is not None]
        sys.stdout.write("".join(f"{escaped(line)}\n" for line in lines or ["a route has no parameters"]))
    return 0


def _setting(parser: Parser, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        parser.error(f"{text[:100]}: write PARAMETER=VALUE")
    if not name.endswith("Password") or not value:
        return name, value
    if value != FROM_INPUT:
        parser.error(f"{name}=…: the list of processes would show it; write {name}=- to be asked for it")
    if sys.stdin.isatty():
        return name, getpass.getpass(f"{name}: ")
    return name, sys.stdin.readline().rstrip("\r\n")


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def delete(arguments: Sequence[str]) -> int:
    """Delete bridges that were created at a running broker."""
    parser = Parser(
        prog="spanwire bridge delete",
        description="Let created bridges of a running broker complete their batches and end, and forget them.",
    )
    placement(parser, names_others=True)
    parser.add_argument("names", nargs="+", metavar="NAME", help="names of created bridges")
    options = parser.parse(arguments)
    rows = _list(control_client(options).ask("bridge-delete", bridges=list(options.names)))
    sys.stdout.write("".join(escaped(f"bridge {row['name']}: deleted") + "\n" for row in rows))
    return 0


pause: Final = _operation("pause")
resume: Final = _operation("resume")
restart: Final = _operation("restart")


def _rows(answer: object) -> list[Row]:
    return _list(answer.get("bridges")) if isinstance(answer, dict) else []


def _list(rows: object) -> list[Row]:
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _table(rows: list[Row]) -> list[str]:
    """Return a heading and a line for each bridge, in columns."""
    if not rows:
        return ["this broker has no bridges"]
    cells = [[name.removesuffix("_s").replace("_", " ") for name in COLUMNS]]
    cells += [[str(row[name]) for name in COLUMNS] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def _print(rows: list[Row], as_json: bool, lines_of: Callable[[list[Row]], list[str]]) -> None:
    lines = [json.dumps(rows, indent=2)] if as_json else [escaped(line) for line in lines_of(rows)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
