"""The command ``spanwire bridge``: runs or checks bridges of a file, and operates a broker's bridges."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, cast

from spanwire.bridges.engine.counters import BridgeStatus
from spanwire.bridges.files.bridge_beans import has_bridge_beans, read_bridge_beans
from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.files.route_bridges import bridges_of
from spanwire.bridges.jars import with_jars
from spanwire.bridges.model.diagram import diagram
from spanwire.bridges.model.route_definition import Definition, RouteDefinition
from spanwire.bridges.model.route_diagram import route_diagram
from spanwire.bridges.running.convertors import Convertors, convertor_obstacles
from spanwire.bridges.running.process import BridgeProcess, check_bridge
from spanwire.bridges.running.tracing import bridge_traces
from spanwire.cli.arguments import Command, Parser, log_options, run_command
from spanwire.cli.bridges import operate, serve
from spanwire.cli.pipeline.pipeline import content_of, pair
from spanwire.cli.spark_parts import load
from spanwire.client.io.environment import Machine
from spanwire.documents.xml import read_xml
from spanwire.logs.lines import START, begin_log
from spanwire.model.errors import ConfigurationError
from spanwire.routes.model import EMBEDDED, Route
from spanwire.routes.readers.nodes import Location, Word, text_of
from spanwire.routes.readers.placeholders import Placeholders
from spanwire.service.machine.event_loop import loop_factory

FAILURE: Final = 1
SERVE: Final = "serve"
JVM: Final = "jvm"
JVM_PROGRAM: Final = "spanwire.bridges.providers.jvm.inside.program:run"  # loads JPype
TOML_SUFFIX: Final = ".toml"
BEAN: Final = b"JMSBridgeImpl"
STATES: Final = ".state"  # behind the name of the file: the directory of groups and keys of routes
TRANSACTIONS: Final = ".transactions"  # behind the name of the file: the directory of decisions
READ_ROUTES: Final = "spanwire.routes.readers.parsing:read_routes"  # loads PyYAML
STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


class RouteFile(Protocol):
    """The part of a route file for the command."""

    routes: list[Route]
    warnings: list[str]

    def only(self, engine: str) -> RouteFile:
        """Return the routes of one engine."""
        ...


def run(arguments: Sequence[str]) -> int:
    """Run a command about bridges and return the exit status."""
    if arguments and arguments[0] == SERVE:  # not listed, because brokers alone start it
        return serve.run(arguments[1:])
    if list(arguments) == [JVM]:  # not listed either; the provider jvm starts it
        cast("Callable[[], None]", load(JVM_PROGRAM))()
        return 0
    return run_command("spanwire bridge", arguments, COMMANDS)


def run_bridges(arguments: Sequence[str]) -> int:
    """Run the bridges of a file until Ctrl-C or SIGTERM, or until all bridges have ended."""
    parser = Parser(prog="spanwire bridge run", description="Run the bridges of a file.")
    _file_options(parser)
    parser.flag("untilEmpty", "end as soon as the sources have had no message for a second")
    parser.flag("dryRun", "show the bridges as diagrams, and do nothing")
    parser.add_argument(
        "--transactions",
        type=Path,
        metavar="DIRECTORY",
        help="for ONCE_AND_ONLY_ONCE between two brokers: where decisions are stored; default: FILE.transactions",
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIRECTORY",
        help="where routes keep groups and keys of messages; default: FILE.state",
    )
    log_options(parser)
    options = parser.parse(arguments)
    definitions = _checked(options)
    if options.dry_run:
        return _show(definitions)
    reopen_log = begin_log(str(options.log_level), str(options.log_format), options.log_file)
    states = options.state or options.file.with_name(options.file.name + STATES)
    transactions = options.transactions or options.file.with_name(options.file.name + TRANSACTIONS)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(
            _run(
                definitions,
                bool(options.until_empty),
                reopen_log if options.log_file else None,
                transactions,
                states,
                Convertors(options.convertors),
            )
        )


def check(arguments: Sequence[str]) -> int:
    """Check the bridges of a file without connecting, and show diagrams of the bridges."""
    parser = Parser(prog="spanwire bridge check", description="Check the bridges of a file; connect to nothing.")
    _file_options(parser)
    options = parser.parse(arguments)
    return _show(_checked(options))


def _checked(options: argparse.Namespace) -> list[Definition]:
    """Return the definitions of the file after a check for all jars and convertors."""
    definitions = with_jars(_definitions(options), options.jars)
    obstacles = convertor_obstacles(definitions, options.convertors)
    if obstacles:
        raise ConfigurationError("\n".join(obstacles))
    return definitions


async def _run(
    definitions: list[Definition],
    ends_when_empty: bool,
    reopen_log: Callable[[], None] | None,
    transactions: Path,
    states: Path,
    convertors: Convertors,
) -> int:
    start = logging.getLogger(START)
    traces = bridge_traces(os.environ, Machine().now)
    process = BridgeProcess(
        definitions,
        lambda line: start.info("%s", line),
        ends_when_empty,
        transactions=transactions,
        states=states,
        traces=traces,
        convertors=convertors,
    )
    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.add_signal_handler(number, process.stop)
    if reopen_log is not None:
        loop.add_signal_handler(signal.SIGHUP, reopen_log)
    if traces is not None:
        traces.start()
    is_fine = await process.run()
    if traces is not None:
        await asyncio.to_thread(traces.stop)
    for status in process.statuses():
        sys.stdout.write(_summary(status) + "\n")
    return 0 if is_fine else FAILURE


def _summary(status: BridgeStatus) -> str:
    parts = [
        f"bridge {status.name}: {status.state.value}",
        f"received {status.received}",
        f"forwarded {status.forwarded} in {status.batches} batches",
        f"failures {status.failures}",
    ]
    if status.dead_letters:
        parts.append(f"dead letters {status.dead_letters}")
    if status.heuristics:
        parts.append(f"heuristic outcomes {status.heuristics}")
    if status.perhaps_lost:
        parts.append(f"perhaps lost {status.perhaps_lost}")
    if status.last_error is not None:
        parts.append(f"last error: {status.last_error}")
    return ", ".join(parts)


def _file_options(parser: Parser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="bridges in TOML or as beans, or a route file with routes of engine: embedded",
    )
    parser.add_argument(
        "--broker",
        action="append",
        default=[],
        type=pair,
        metavar="NAME=URL",
        help="the broker behind a URI scheme of a route file",
    )
    parser.add_argument(
        "--jars", type=Path, metavar="DIRECTORY", help="jars for provider = jvm; only their owner may write to them"
    )
    parser.add_argument(
        "--convertors",
        type=Path,
        metavar="DIRECTORY",
        help="Python files with the functions that process and bean call; only their owner may write to them",
    )
    parser.add_argument(
        "-D", action="append", default=[], type=pair, dest="definitions", metavar="NAME=VALUE", help="for {{NAME}}"
    )


def _definitions(options: argparse.Namespace) -> list[Definition]:
    placeholders = Placeholders(dict(options.definitions), os.environ)
    content, name = content_of(options.file), str(options.file)
    if options.file.suffix == TOML_SUFFIX:
        return list(read_bridges(content, name, placeholders))
    beans = _bean_bridges(content, name, placeholders)
    if beans is not None:
        return beans
    file = cast(RouteFile, load(READ_ROUTES)(content, name, placeholders, dict(options.broker))).only(EMBEDDED)
    for warning in file.warnings:
        sys.stderr.write(f"spanwire bridge: {warning}\n")
    return bridges_of(file.routes)


def _bean_bridges(content: bytes, name: str, placeholders: Placeholders) -> list[Definition] | None:
    """Return the bridges of an XML file with beans of bridges; None for any other file."""
    if BEAN not in content:
        return None
    root = read_xml(content, name)
    if not has_bridge_beans(root):
        return None

    def fill(text: str) -> str:
        return text_of(placeholders.fill(Word(Location(name, root.line), text), is_spring=True), "a value")

    found = read_bridge_beans(root, name, fill)
    for line, text in found.warnings:
        sys.stderr.write(f"spanwire bridge: {name}:{line}: {text}\n")
    return list(found.bridges)


def _show(definitions: list[Definition]) -> int:
    for definition in definitions:
        check_bridge(definition)
        text = route_diagram(definition) if isinstance(definition, RouteDefinition) else diagram(definition)
        sys.stdout.write(text)
    return 0


COMMANDS: Final[dict[str, tuple[Command, str]]] = {
    "run": (run_bridges, "run the bridges of a file"),
    "check": (check, "check the bridges of a file, and show them as diagrams"),
    "list": (operate.list_bridges, "show the bridges of a running broker as a table"),
    "status": (operate.status, "show source, target, state and last error of a broker's bridges"),
    "pause": (operate.pause, "pause bridges of a broker, also over its restart"),
    "resume": (operate.resume, "start paused bridges of a broker"),
    "restart": (operate.restart, "start bridges of a broker anew, also failed ones"),
    "parameters": (operate.parameters, "show or set the parameters of a broker's bridge"),
    "create": (operate.create, "create the bridge of a file at a running broker"),
    "delete": (operate.delete, "delete bridges that were created at a running broker"),
}
