"""The command ``spanwire pipeline``: moves, filters, archives and replays messages with Spark.

Code with PySpark, PyArrow or PyYAML is imported when used, so a missing package is an error of one line. Help, init,
status, stop, cursors, sinks and dead letters need no such package.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, cast

from spanwire.cli.arguments import Command, Parser, run_command
from spanwire.cli.pipeline.pipeline_cursors import run_cursors, run_forget, run_release, run_sinks
from spanwire.cli.pipeline.pipeline_init import run_init
from spanwire.cli.pipeline.pipeline_options import broker_of, broker_options, spark_options, stop_on_signals
from spanwire.cli.pipeline.pipeline_progress import progress
from spanwire.cli.pipeline.pipeline_replay import run_replay
from spanwire.cli.pipeline.pipeline_report import run_report
from spanwire.cli.pipeline.pipeline_status import run_status, run_stop
from spanwire.cli.spark_parts import load
from spanwire.model.errors import ConfigurationError
from spanwire.model.units import MIB

FAILURE: Final = 1
AVAILABLE_NOW: Final = "available-now"
INTERVAL: Final = "interval"
DEFAULT_INTERVAL: Final = "1 second"
MAX_FILE_BYTES: Final = 2 * MIB  # bytes; the readers of route files have a smaller limit

SPARK: Final = "spark"  # engine of the routes that this command runs
READ_ROUTES: Final = "spanwire.routes.readers.parsing:read_routes"
PLACEHOLDERS: Final = "spanwire.routes.readers.placeholders:Placeholders"
CHECK_DIRECTORY: Final = "spanwire.bridges.owned_files:check_directory"
PLAN: Final = "spanwire.routes.plan:plan_of"
RUN: Final = "spanwire.pipeline.routes.route_runner:run"
ARCHIVE: Final = "spanwire.pipeline.archive.commands:archive"
GROUPS: Final = "spanwire.pipeline.archive.redrive:group_dead_letters"
REDRIVE: Final = "spanwire.pipeline.archive.redrive:redrive"
READ_OPTIONS: Final = "spanwire.pipeline.options:read_options"
DEAD_LETTERS: Final = "ActiveMQ.DLQ"


class RouteFile(Protocol):
    """The part of a route file that the command uses before routes run."""

    warnings: list[str]

    def only(self, engine: str) -> RouteFile:
        """Return the routes of one engine."""
        ...


class Group(Protocol):
    """The part of a group of dead letters that the command shows."""

    cause: str
    destination: str
    count: int


def run(arguments: Sequence[str]) -> int:
    """Run a command of the pipeline and return its exit status."""
    return run_command("spanwire pipeline", arguments, COMMANDS)


def route_parser() -> Parser:
    """Return the parser of the arguments of ``spanwire pipeline run``."""
    parser = Parser(prog="spanwire pipeline run", description="Run the routes of a YAML or Camel XML file on Spark.")
    parser.add_argument("file", metavar="FILE", type=Path, help="the routes: YAML, or Spring XML with a camelContext")
    spark_options(parser)
    parser.option("trigger", f"{AVAILABLE_NOW}, or {INTERVAL}, or {INTERVAL}=5s", INTERVAL, metavar="WHEN")
    parser.option("state", "directory of checkpoints and staged messages; FILE.state by default", metavar="DIRECTORY")
    parser.option("functions", "directory with the Python functions of routes", metavar="DIRECTORY")
    parser.add_argument(
        "--broker", action="append", default=[], type=pair, metavar="NAME=URL", help="the broker behind a URI scheme"
    )
    parser.add_argument(
        "-D", action="append", default=[], type=pair, dest="definitions", metavar="NAME=VALUE", help="for {{NAME}}"
    )
    parser.flag("dryRun", "show the routes, and do nothing")
    return parser


def run_routes(arguments: Sequence[str]) -> int:
    """Run the routes of a file, or show them."""
    options = route_parser().parse(arguments)
    trigger = trigger_of(options.trigger)
    placeholders = load(PLACEHOLDERS)(dict(options.definitions), os.environ)
    routes = load(READ_ROUTES)(content_of(options.file), str(options.file), placeholders, dict(options.broker))
    file = cast(RouteFile, routes).only(SPARK)
    for warning in file.warnings:
        sys.stderr.write(f"spanwire pipeline: {warning}\n")
    functions = Path(options.functions) if options.functions else None
    if functions is not None:
        load(CHECK_DIRECTORY)(functions, "the directory of functions")
    if options.dry_run:
        sys.stdout.write(str(load(PLAN)(file)))
        return 0
    state = options.state or str(options.file.with_name(options.file.name + ".state"))
    stop = threading.Event()
    stop_on_signals(stop)
    batch_progress = progress(options.json)
    try:
        is_fine = load(RUN)(options.master, file, state, trigger, functions, batch_progress.show, stop)
    finally:
        batch_progress.end()
    return 0 if is_fine else FAILURE


def run_archive(arguments: Sequence[str]) -> int:
    """Move messages from queues, or a subscribed topic, to Parquet."""
    parser = Parser(
        prog="spanwire pipeline archive",
        description=(
            "Keep messages in Parquet files. Archived messages are removed from their queue or\n"
            "subscription; spanwire pipeline replay sends them again."
        ),
    )
    parser.add_argument("destination", metavar="DESTINATION", help="queue://NAME, queue://A.>, or topic://NAME")
    parser.add_argument("directory", metavar="DIRECTORY", help="directory of the archive, or s3://BUCKET/DIRECTORY")
    broker_options(parser)
    spark_options(parser)
    parser.option("selector", "only these messages")
    parser.option("clientId", "of a topic's durable subscription")
    parser.option("subscription", "the name of a topic's durable subscription")
    parser.option("trigger", f"{AVAILABLE_NOW}, or {INTERVAL}, or {INTERVAL}=5s", AVAILABLE_NOW, metavar="WHEN")
    options = parser.parse(arguments)
    values = {
        **broker_of(options),
        "destination": options.destination,
        "selector": options.selector,
        "clientId": options.client_id,
        "subscription": options.subscription,
    }
    stop = threading.Event()
    stop_on_signals(stop)
    options_given = {name: value for name, value in values.items() if value}
    trigger = trigger_of(options.trigger)
    batch_progress = progress(options.json)
    try:
        is_fine = load(ARCHIVE)(options.master, options_given, options.directory, trigger, batch_progress.show, stop)
    finally:
        batch_progress.end()
    return 0 if is_fine else FAILURE


def run_redrive(arguments: Sequence[str]) -> int:
    """Show dead letters by cause, or send the letters back."""
    parser = Parser(
        prog="spanwire pipeline redrive", description="Send dead letters back to their original destinations."
    )
    parser.add_argument("queue", nargs="?", default=DEAD_LETTERS, metavar="QUEUE", help=f"else {DEAD_LETTERS}")
    broker_options(parser)
    parser.option("selector", "only these, such as \"dlqDeliveryFailureCause LIKE 'Message Expired%%'\"")
    parser.option("to", "one destination for all messages; by default the original destinations", metavar="DESTINATION")
    parser.whole_number("limit", "largest number of messages; 0 for all", 0)
    parser.whole_number("rate", "messages per second at most; 0 for no limit", 0)
    parser.flag("dryRun", "show the number of dead letters by cause, and send nothing")
    options = parser.parse(arguments)
    values = {**broker_of(options), "destination": f"queue://{options.queue.removeprefix('queue://')}"}
    options_given = {name: value for name, value in {**values, "selector": options.selector}.items() if value}
    read_options = load(READ_OPTIONS)(options_given)
    if options.dry_run:
        groups = cast(list[Group], load(GROUPS)(read_options))
        for group in groups:
            sys.stdout.write(f"{group.count} to {group.destination}: {group.cause}\n")
        if not groups:
            which = "with this selector in" if options.selector else "in"
            sys.stdout.write(f"no dead letters {which} {values['destination']}\n")
        return 0
    stop = threading.Event()
    stop_on_signals(stop)
    limit, rate = options.limit or None, options.rate or None
    count = load(REDRIVE)(read_options, options.to, limit, rate, time.monotonic, stop.wait)
    sys.stdout.write(f"redrive: sent {count} messages\n")
    return 0


def pair(text: str) -> tuple[str, str]:
    """Return name and value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError("write NAME=VALUE")  # not shown, because it may contain a password
    return name, value


def content_of(path: Path) -> bytes:
    """Return the content of a file, up to `MAX_FILE_BYTES`.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None


def trigger_of(text: str) -> str:
    """Return Spark's trigger for an option.

    Raises:
        ConfigurationError: the option is invalid.
    """
    name, _, interval = text.partition("=")
    if name == AVAILABLE_NOW and not interval:
        return AVAILABLE_NOW
    if name != INTERVAL:
        raise ConfigurationError(f"--trigger is {text[:60]!r}, not {AVAILABLE_NOW} or {INTERVAL} or {INTERVAL}=5s")
    if not interval:
        return DEFAULT_INTERVAL
    for suffix, unit in (("ms", "milliseconds"), ("s", "seconds"), ("m", "minutes")):
        digits = interval.removesuffix(suffix)
        if digits != interval and digits.isdecimal() and 0 < len(digits) <= 6:
            return f"{int(digits)} {unit}"
    raise ConfigurationError(f"--trigger: the interval is {interval[:60]!r}; write 500ms, 5s or 1m")


COMMANDS: Final[dict[str, tuple[Command, str]]] = {
    "init": (run_init, "write a project: routes, functions, tests, settings and a Makefile"),
    "run": (run_routes, "run the routes of a file"),
    "archive": (run_archive, "remove messages from queues and keep them in Parquet files"),
    "replay": (run_replay, "send messages of an archive again"),
    "redrive": (run_redrive, "show dead letters by cause, or send them back"),
    "report": (run_report, "rates, times, who sends to whom, lost and doubled messages, from archives"),
    "status": (run_status, "show running pipelines: routes, batches, lag, errors; cursors and sinks"),
    "stop": (run_stop, "stop a pipeline after its current batch"),
    "cursors": (run_cursors, "list cursors and their reserved messages"),
    "release": (run_release, "end the cursor of a program that will not return"),
    "sinks": (run_sinks, "list sinks with their last batches and staged messages"),
    "forget": (run_forget, "remove the sink of a program that will not return"),
}
