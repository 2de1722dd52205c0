"""The command ``spanwire pipeline replay``: dry run, progress with the time left, and undo, in the words of a move."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TextIO, cast

from spanwire.cli.arguments import Parser
from spanwire.cli.management.moving import duration_text, preview_text
from spanwire.cli.pipeline.pipeline_options import broker_of, broker_options, moment, spark_options, stop_on_signals
from spanwire.cli.pipeline.pipeline_progress import CLEAR
from spanwire.cli.spark_parts import load
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import printable

if TYPE_CHECKING:
    from spanwire.pipeline.archive.replay import Progress, ReplayEnd  # needs PyArrow, which --help does without
    from spanwire.pipeline.archive.replay_undo import UndoResult

REPLAY: Final = "spanwire.pipeline.archive.commands:replay"
PLAN: Final = "spanwire.pipeline.archive.commands:replay_plan"
UNDO: Final = "spanwire.pipeline.archive.commands:undo"
SELECTION: Final = "spanwire.pipeline.archive.selection:Selection"
LINE_S: Final = 5.0  # seconds between two lines of progress that are not shown on a terminal


def run_replay(arguments: Sequence[str]) -> int:
    """Send messages of an archive again, or take them back."""
    parser = Parser(
        prog="spanwire pipeline replay",
        description=(
            "Send messages of an archive again, each once. A replay that was stopped or killed goes on when the\n"
            "same command runs again."
        ),
    )
    parser.add_argument("directory", metavar="DIRECTORY", help="the archive: a directory, or s3://BUCKET/DIRECTORY")
    broker_options(parser)
    spark_options(parser)
    parser.option("to", "one destination for all messages; by default the original destinations")
    parser.option("since", "sent at this time or later, such as 2026-01-31 or 2026-01-31T12:00:00+00:00; UTC without +")
    parser.option("until", "sent before this time")
    parser.option("selector", "only these messages")
    parser.whole_number("rate", "messages per second at most; 0 for no limit", 0)
    parser.flag("follow", "wait while 1,000 messages are pending at a queue that has consumers")
    parser.option("state", "directory for the progress; DIRECTORY.replay by default", metavar="DIRECTORY")
    parser.flag("dryRun", "count, show ten messages of each destination, and send nothing")
    parser.flag("undo", "take back the messages that nobody has consumed")
    options = parser.parse(arguments)
    given = {name: value for name, value in {**broker_of(options), "destination": options.to}.items() if value}
    state = options.state or options.directory.rstrip("/") + ".replay"
    if options.undo:
        if options.dry_run:
            raise ConfigurationError("--undo takes messages back at once; leave out --undo or --dry-run")
        result = cast("UndoResult", load(UNDO)(given, state))
        sys.stdout.write(f"replay: removed {result.removed}, gone {result.gone}, in use {result.in_use}\n")
        return 0
    selection = load(SELECTION)(
        options.directory, moment("since", options.since), moment("until", options.until), options.selector
    )
    if options.dry_run:
        sys.stdout.write(preview_text("replay", load(PLAN)(options.master, selection, options.to)))
        return 0
    stop = threading.Event()
    stop_on_signals(stop)
    shown = ReplayProgress(sys.stdout, options.json, sys.stdout.isatty(), time.monotonic)
    try:
        rate = options.rate or None
        last = load(REPLAY)(options.master, selection, given, state, rate, options.follow, shown.show, stop)
        end = cast("ReplayEnd", last)
    finally:
        shown.end()
    if 0 < end.total == end.before:
        sys.stdout.write(
            f"replay: sent nothing, as all {end.total} messages were sent before; delete {state} to replay anew\n"
        )
        return 0
    left = end.total - end.sent
    rest = f", left {left}; the same command goes on" if left else ""
    sys.stdout.write(f"replay: sent {end.sent} messages{rest}\n")
    return 0


class ReplayProgress:
    """Shows the progress: one line that is overwritten on a terminal, else a line each `LINE_S` or all as JSON."""

    def __init__(self, stream: TextIO, as_json: bool, is_terminal: bool, now: Callable[[], float]) -> None:
        self._stream: Final = stream
        self._as_json: Final = as_json
        self._is_terminal: Final = is_terminal
        self._now: Final = now
        self._next = now() + LINE_S
        self._is_live = False

    def show(self, progress: Progress) -> None:
        """Show the progress, unless it was shown a moment ago."""
        if self._as_json:
            self._stream.write(json.dumps(asdict(progress)) + "\n")
        elif self._is_terminal:
            self._stream.write(CLEAR + printable(progress_text(progress)))
            self._is_live = True
        elif self._now() >= self._next:
            self._next = self._now() + LINE_S
            self._stream.write(printable(progress_text(progress)) + "\n")
        self._stream.flush()

    def end(self) -> None:
        """Begin a new line."""
        if self._is_live:
            self._stream.write("\n")
            self._is_live = False


def progress_text(progress: Progress) -> str:
    """Return the progress as a line."""
    seconds = progress.seconds_left
    left = f", {duration_text(seconds)} left" if seconds is not None else ""
    waits = f", waits for {progress.waits_for}" if progress.waits_for else ""
    return f"replay: {progress.sent} of {progress.total} messages{left}{waits}"
