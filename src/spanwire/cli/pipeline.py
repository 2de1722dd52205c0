"""``spanwire pipeline COMMAND``: moving, filtering, archiving and replaying messages with Spark.

Everything that needs PySpark is imported when it is used, so that a missing extra is one line.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, cast

from spanwire import registry
from spanwire.cli.arguments import Parser
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.supervisor import News

USAGE_ERROR: Final = 2
FAILURE: Final = 1
NEEDED: Final = ("pyspark", "pyarrow", "yaml")  # what the extra `spark` brings
AVAILABLE_NOW: Final = "available-now"
INTERVAL: Final = "interval"
DEFAULT_INTERVAL: Final = "1 second"
STOPPING: Final = (signal.SIGINT, signal.SIGTERM)
MAX_FILE_BYTES: Final = 2 * 1024 * 1024  # read before anybody looks; the readers have a smaller limit of their own

READ_ROUTES: Final = "spanwire.pipeline.routes.parsing:read_routes"
PLACEHOLDERS: Final = "spanwire.pipeline.routes.placeholders:Placeholders"
PLAN: Final = "spanwire.pipeline.routes.plan:plan_of"
RUN: Final = "spanwire.pipeline.routes.running:run"


def run(arguments: Sequence[str]) -> int:
    """Runs one of the commands of the pipeline; gives its exit status."""
    words = list(arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        lines = ["usage: spanwire pipeline COMMAND [OPTIONS]", "", "commands:"]
        lines += [f"  {name:<10} {text}" for name, (_, text) in COMMANDS.items()]
        sys.stdout.write("\n".join([*lines, "", "spanwire pipeline COMMAND --help shows its options.", ""]))
        raise SystemExit(0)
    found = COMMANDS.get(words[0])
    if found is None:
        close = difflib.get_close_matches(words[0][:60], list(COMMANDS), n=1, cutoff=0.0)
        sys.stderr.write(f"spanwire pipeline: there is no command {words[0][:60]!r}; the closest is {close[0]!r}\n")
        return USAGE_ERROR
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(f"{missing[0]} is not installed; run: python -m pip install 'spanwire[spark]'")
    return found[0](words[1:])


def run_routes(arguments: Sequence[str]) -> int:
    """Runs the routes of a file, or tells what they would do."""
    parser = Parser(prog="spanwire pipeline run", description="Run the routes of a YAML or Camel XML file on Spark.")
    parser.add_argument("file", metavar="FILE", type=Path, help="the routes: YAML, or Spring XML with a camelContext")
    spark_options(parser)
    parser.option("trigger", f"{AVAILABLE_NOW}, or {INTERVAL}, or {INTERVAL}=5s", INTERVAL, metavar="WHEN")
    parser.option("state", "directory of checkpoints and staged messages; FILE.state without it", metavar="DIRECTORY")
    parser.option("functions", "where Python functions of routes may come from", metavar="DIRECTORY")
    parser.add_argument(
        "--broker", action="append", default=[], type=pair, metavar="NAME=URL", help="the broker behind a URI scheme"
    )
    parser.add_argument(
        "-D", action="append", default=[], type=pair, dest="definitions", metavar="NAME=VALUE", help="for {{NAME}}"
    )
    parser.flag("dryRun", "tell what would be done, and do nothing")
    options = parser.parse(arguments)
    placeholders = load(PLACEHOLDERS)(dict(options.definitions), os.environ)
    file = load(READ_ROUTES)(content_of(options.file), str(options.file), placeholders, dict(options.broker))
    if options.dry_run:
        sys.stdout.write(str(load(PLAN)(file)))
        return 0
    state = Path(options.state) if options.state else options.file.with_name(options.file.name + ".state")
    functions = Path(options.functions) if options.functions else None
    stop = threading.Event()
    stop_on_signals(stop)
    show = printer(options.json)
    is_fine = load(RUN)(options.master, file, state, trigger_of(options.trigger), functions, show, stop)
    return 0 if is_fine else FAILURE


def spark_options(parser: Parser) -> None:
    """The options of every command that works on Spark."""
    parser.option("master", "where Spark runs: local[*], local[2], or a cluster's URL", "local[*]", metavar="URL")
    parser.add_argument("--json", action="store_true", help="tell of batches in JSON, one object per line")


def load(reference: str) -> Callable[..., object]:
    """What needs the extra, imported now."""
    return cast(Callable[..., object], registry.load(reference))


def pair(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"write NAME=VALUE instead of {text[:60]!r}")
    return name, value


def content_of(path: Path) -> bytes:
    """A file that is not too large. Raises `ConfigurationError`."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None


def trigger_of(text: str) -> str:
    """Spark's word for when batches begin."""
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


def stop_on_signals(stop: threading.Event) -> None:
    """Ctrl-C and SIGTERM let the batch at hand end."""
    for number in STOPPING:
        signal.signal(number, lambda *_: stop.set())


def printer(as_json: bool) -> Callable[[News], None]:
    """Shows what happens, a line each."""

    def show(news: News) -> None:
        sys.stdout.write((json.dumps(asdict(news)) if as_json else line_of(news)) + "\n")
        sys.stdout.flush()

    return show


def line_of(news: News) -> str:
    """One line for people."""
    if news.batch is None:
        return f"{news.route}: {news.text}"
    behind = f", {news.behind_ms / 1000:.1f} s behind" if news.behind_ms else ""
    return f"{news.route}: batch {news.batch}, {news.text}, {news.rows_per_s:.0f} rows/s{behind}"


COMMANDS: Final[dict[str, tuple[Callable[[Sequence[str]], int], str]]] = {
    "run": (run_routes, "run the routes of a file"),
}
