"""``spanwire definitions``: exports, imports and compares the definitions of a broker as a file.

A second broker with the same definitions is the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spanwire.cli.arguments import Command, Parser, placement, run_command
from spanwire.cli.management.actions import PASSWORD_VARIABLE
from spanwire.cli.running import ANSWER_TIMEOUT_S, control_client
from spanwire.management.control_client import SOCKET_NAME, ControlClient, ControlError
from spanwire.management.definitions.differences import compared, differences
from spanwire.management.definitions.document import MAX_BYTES, Document, from_rows, from_toml, is_document, to_toml
from spanwire.management.definitions.kinds import KINDS, LEFT_OUT
from spanwire.management.definitions.steps import Step, steps
from spanwire.management.definitions.xml_document import to_xml
from spanwire.management.running_brokers import running_brokers
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped
from spanwire.service.administration.definitions import configured_rows
from spanwire.service.config.loading import load_configuration
from spanwire.service.data_directory import data_directory

DIFFERENT: Final = 1  # also: something was refused
ADDS: Final = frozenset({"connector-add", "network-add"})
ROUNDS: Final = 2  # what is added has the policies of its broker, and is compared with the document after that
FILE_MODE: Final = 0o600
ANSWER_S: Final = 6 * ANSWER_TIMEOUT_S  # a broker lists 100,000 destinations in less


def run(arguments: Sequence[str]) -> int:
    """Run a command about definitions and return the exit status."""
    commands: dict[str, tuple[Command, str]] = {
        "export": (_export, "write the definitions of a running broker to a file"),
        "import": (_import, "make in a running broker what a file says, and it does not have"),
        "diff": (_diff, "compare two files, a file and a broker, or two brokers"),
    }
    return run_command("spanwire definitions", arguments, commands)


def _export(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="spanwire definitions export",
        description="Write queues, topics, durable subscriptions, connectors, network connectors, limits, paused\n"
        "queues, bridges, strategies for slow consumers and levels of loggers of a running broker. No messages, no\n"
        "secrets.",
    )
    parser.add_argument("--to", type=Path, metavar="FILE", help="the file; else standard output")
    parser.add_argument(
        "--format", choices=("toml", "xml"), default="toml", help="xml is an activemq.xml, which cannot say all"
    )
    parser.add_argument("--dry-run", "--dryRun", action="store_true", help="count what would be written")
    placement(parser)
    options = parser.parse(arguments)
    document = _of_broker(control_client(options, ANSWER_S))
    text, unsaid = (to_toml(document), _left_out(document)) if options.format == "toml" else to_xml(document)
    counts = [f"{len(document.of(kind))} {kind.plural}" for kind in KINDS.values() if kind.keys]
    summary = f"broker {document.broker}: {', '.join(counts)}"
    if options.dry_run:
        sys.stdout.write(escaped(summary) + "\n")
    elif options.to is None:
        sys.stdout.write(text)
    else:
        _write(options.to, text)
        sys.stdout.write(escaped(f"{summary}; in {options.to}") + "\n")
    for line in unsaid:
        sys.stderr.write(escaped(f"left out: {line}") + "\n")
    return 0


def _import(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="spanwire definitions import",
        description="Make a running broker what a file says: add what it does not have, and change what differs.\n"
        "What it has beyond the file stays. Queues, topics, subscriptions, paused bridges and network connectors\n"
        "without passwords last; other changes do until the next start of the broker, so write them into its\n"
        "configuration as well.\n"
        "Exit status 1 if something was refused; all else is done.",
    )
    parser.add_argument("file", metavar="FILE", help="a document of definitions, or a configuration in XML or TOML")
    parser.add_argument("--dry-run", "--dryRun", action="store_true", help="show what would be done, and do nothing")
    parser.flag("replace", "end and make anew the connectors and network connectors whose address or settings differ")
    parser.option("user", "a user of the broker, for new durable subscriptions")
    parser.option("password", f"its password, better in ${PASSWORD_VARIABLE}", metavar="SECRET")
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    wanted = _of_file(Path(options.file), dict(options.definitions))
    client = control_client(options, ANSWER_S)
    login = {} if options.user is None else {"user": str(options.user)}
    password = options.password or os.environ.get(PASSWORD_VARIABLE)
    if login and password:
        login["password"] = str(password)
    done, refused = 0, set[str]()
    for _ in range(1 if options.dry_run else ROUNDS):
        for step in steps(differences(_of_broker(client), wanted), login, replaces=bool(options.replace)):
            if step.text in refused:
                continue
            refusal = step.obstacle if options.dry_run else _do(client, step)
            done += not refusal
            if refusal:
                refused.add(step.text)
            sys.stdout.write(escaped(f"{step.text}: refused: {refusal}" if refusal else step.text) + "\n")
    mark = "would be done" if options.dry_run else "done"
    sys.stdout.write(f"{done} {mark}, {len(refused)} refused\n")
    return DIFFERENT if refused else 0


def _do(client: ControlClient, step: Step) -> str:
    """Perform a step and return the reason of a refusal, "" without a refusal.

    What was done of a refused step is undone, or named. A connector that was added before the refusal stays.
    """
    if step.obstacle:
        return step.obstacle
    done: list[str] = []
    try:
        for command, arguments in step.requests:
            client.ask(command, **arguments)
            done.append(command)
    except ControlError as error:
        if any(command in ADDS for command in done):
            return f"{error}; the new one is there and runs"
        if done and step.undo:
            return f"{error}; {_undone(client, step)}"
        return f"{error}; done before: {', '.join(done)}" if done else str(error)
    return ""


def _undone(client: ControlClient, step: Step) -> str:
    """Put an object back, and return in words whether it is as it was."""
    try:
        for command, arguments in step.undo:
            client.ask(command, **arguments)
    except ControlError as error:
        return f"it is removed, and was not put back: {error}"
    return "it is as it was"


def _diff(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="spanwire definitions diff",
        description="Compare definitions: + is before what only the second one has, - before what only the first one\n"
        "has, ~ before what differs. Each is a file, the name of a running broker or its data directory. Without a\n"
        "second one, the broker of the other options is. Exit status 0 if they are equal, 1 if not.",
    )
    parser.add_argument("first", metavar="FIRST", help="a file, the name of a running broker, or its data directory")
    parser.add_argument("second", nargs="?", metavar="SECOND", help="the same")
    parser.add_argument("--dry-run", "--dryRun", action="store_true", help="accepted; a comparison changes nothing")
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    definitions = dict(options.definitions)
    first = _named(options.first, definitions)
    second = (
        _of_broker(control_client(options, ANSWER_S)) if options.second is None else _named(options.second, definitions)
    )
    found, not_compared = compared(first, second)
    for difference in found:
        for line in difference.lines():
            sys.stdout.write(escaped(line) + "\n")
    sys.stdout.write(f"{len(found)} differences\n" if len(found) != 1 else "1 difference\n")
    for line in not_compared:
        sys.stderr.write(escaped(f"not compared: {line}") + "\n")
    return DIFFERENT if found else 0


def _named(name: str, definitions: dict[str, str]) -> Document:
    """Return the document of a file or of a running broker. Raises `ConfigurationError`, `ControlError`."""
    path = Path(name)
    if path.is_file():
        return _of_file(path, definitions)
    if (path / SOCKET_NAME).exists():
        return _of_broker(ControlClient(path.absolute(), ANSWER_S))
    found = [broker for broker in running_brokers(os.environ) if broker.name == name and not broker.waits_for]
    if len(found) != 1:
        count = "several running brokers" if found else "no file, data directory or running broker"
        raise ConfigurationError(f"{count} of the name {name[:100]}; spanwire list shows those that run")
    return _of_broker(ControlClient(Path(found[0].data_directory), ANSWER_S))


def _of_broker(client: ControlClient) -> Document:
    """Return the document of a running broker. Raises `ControlError`."""
    rows, known = client.ask("definitions"), client.ask("ping")
    name = known.get("name", "") if isinstance(known, dict) else ""
    return from_rows(str(name), [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else [])


def _of_file(path: Path, definitions: dict[str, str]) -> Document:
    """Return the document in a file, or the document of a configuration. Raises `ConfigurationError`."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from error
    if is_document(content):
        return from_toml(content, str(path))
    configuration = load_configuration(str(path), definitions, skip_unsupported=True)
    directory = configuration.persistence.directory or data_directory(configuration, None, os.environ)
    while not directory.exists():
        directory = directory.parent
    return from_rows(configuration.broker_name, configured_rows(configuration, directory))


def _left_out(document: Document) -> list[str]:
    """Return a line for each object with omitted secrets."""
    return [
        f"{KINDS[kind].title(key)}: {', '.join(map(str, left_out))}"
        for (kind, key), values in document.items.items()
        if isinstance(left_out := values.get(LEFT_OUT, []), list) and left_out
    ]


def _write(path: Path, text: str) -> None:
    """Write a file with read permission for the owner alone. Raises `ConfigurationError`."""
    new = path.with_name(f"{path.name}.new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror or error}") from error
