"""The commands ``spanwire pipeline status`` and ``stop``.

The commands ask a broker for published statuses of pipelines. Neither Spark nor Java is needed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.cli.pipeline.pipeline_cursors import (
    connect_to,
    cursor_text,
    name_broker,
    sink_text,
)
from spanwire.model.errors import JmsError
from spanwire.model.text import printable
from spanwire.pipeline.link.control_answers import UNKNOWN, ControlError, PublishedView
from spanwire.pipeline.link.control_client import Control
from spanwire.pipeline.watch.metrics import prometheus_text
from spanwire.pipeline.watch.problems import LagLimits, Problem, problems_of
from spanwire.pipeline.watch.status import PipelineStatus, RouteStatus, StatusError, decode

HAS_PROBLEMS: Final = 3  # exit status
FAILURE: Final = 1
DEFAULT_WAIT_S: Final = 90  # seconds; a pipeline lets its batch end, which takes a minute at most
FRESH_MS: Final = 12_000  # milliseconds; a pipeline publishes every 5 seconds
POLL_S: Final = 0.5  # seconds between two requests of a stop


@dataclass(frozen=True, slots=True)
class Row:
    """A pipeline at the broker with its problems."""

    view: PublishedView
    status: PipelineStatus
    problems: list[Problem]


def run_status(arguments: Sequence[str]) -> int:
    """Show pipelines; return 3 if one has a problem."""
    parser = Parser(
        prog="spanwire pipeline status",
        description=(
            "Show the pipelines of a broker with their routes, and the cursors and sinks that the broker holds.\n"
            "The exit status is 3 if a route has failed, lags too much, or a pipeline no longer publishes."
        ),
    )
    name_broker(parser)
    parser.whole_number("maxLagMessages", "a route that lags by more messages is a problem; 0 for no limit", 0)
    parser.whole_number("maxLagSeconds", "a route that lags by more seconds is a problem; 0 for no limit", 0)
    parser.add_argument("--json", action="store_true", help="one JSON object per pipeline")
    parser.add_argument("--metrics", action="store_true", help="the text format of Prometheus")
    options = parser.parse(arguments)
    limits = LagLimits(options.max_lag_messages, options.max_lag_seconds)
    with connect_to(options) as connection:
        control = Control(connection)
        rows = [row for view in control.pipelines() if (row := _row_of(view, limits)) is not None]
        _show(control, rows, options)
    return HAS_PROBLEMS if any(row.problems for row in rows) else 0


def run_stop(arguments: Sequence[str]) -> int:
    """Stop a pipeline after its current batch."""
    parser = Parser(
        prog="spanwire pipeline stop",
        description="Stop a pipeline after its current batch, wherever it runs. The next start continues.",
    )
    parser.add_argument("name", metavar="NAME", help="the pipeline or its run, as spanwire pipeline status shows it")
    name_broker(parser)
    parser.whole_number("wait", "seconds until the command gives up; the request stays", DEFAULT_WAIT_S)
    options = parser.parse(arguments)
    with connect_to(options) as connection:
        control = Control(connection)
        view = find_running(control.pipelines(), options.name)
        end = time.monotonic() + options.wait
        while not _has_ended(control.pipelines(), view):
            if time.monotonic() >= end:
                break
            _request_stop(control, view.run)
            time.sleep(POLL_S)
        else:
            sys.stdout.write(f"stop: {options.name} has ended\n")
            return 0
    sys.stderr.write(
        f"spanwire pipeline stop: {options.name} has not ended within {options.wait} s; it may still end\n"
    )
    return FAILURE


def find_running(views: list[PublishedView], name: str) -> PublishedView:
    """Return the pipeline with a name or run.

    Running pipelines with a recent status come first, so that a killed run does not hide a newer run.

    Raises:
        JmsError: there is no such pipeline, or there are several.
    """
    named = [view for view in views if name in (view.pipeline, view.run)]
    if not named:
        raise JmsError(f"there is no pipeline {name[:60]!r}; spanwire pipeline status lists them")
    running = [view for view in named if not view.ended]
    running = [view for view in running if view.age_ms <= FRESH_MS] or running
    if len(running) > 1:
        runs = ", ".join(view.run for view in running)
        raise JmsError(f"several pipelines are named {name[:60]!r}; name the run: {runs}")
    return (running or named)[0]


def _has_ended(views: list[PublishedView], searched: PublishedView) -> bool:
    """Return True if a run has ended. A run replaced by another run is not listed."""
    own = next((view for view in views if view.run == searched.run), None)
    return own.ended if own is not None else any(view.pipeline == searched.pipeline for view in views)


def _request_stop(control: Control, run: str) -> None:
    try:
        control.stop(run)
    except ControlError as error:
        if error.code != UNKNOWN:  # the broker has restarted, and the pipeline publishes again soon
            raise


def _row_of(view: PublishedView, limits: LagLimits) -> Row | None:
    """Return the status of a view, or ``None`` for one of a later version."""
    try:
        status = decode(view.text)
        return Row(view, status, problems_of(status, view.age_ms, limits))
    except StatusError as error:
        sys.stderr.write(printable(f"spanwire pipeline status: {view.pipeline}: {error}") + "\n")
        return None


def _show(control: Control, rows: list[Row], options: argparse.Namespace) -> None:
    if options.metrics:
        sys.stdout.write(prometheus_text([(row.status, row.view.age_ms) for row in rows]))
        return
    if options.json:
        for row in rows:
            problems = [asdict(problem) for problem in row.problems]
            shown = {**asdict(row.status), "user": row.view.user, "age_ms": row.view.age_ms, "problems": problems}
            sys.stdout.write(json.dumps(shown) + "\n")
        return
    lines = [line for row in rows for line in _pipeline_lines(row.view, row.status)]
    lines += [f"cursor {cursor_text(cursor)}" for cursor in sorted(control.cursors(), key=lambda one: one.name)]
    lines += [f"sink {sink_text(sink)}" for sink in sorted(control.sinks(), key=lambda one: one.query)]
    lines += [_problem_line(problem) for row in rows for problem in row.problems]
    sys.stdout.write("".join(printable(line) + "\n" for line in lines or ["status: no pipeline publishes here"]))


def _problem_line(problem: Problem) -> str:
    where = f"{problem.pipeline}, route {problem.route}" if problem.route else problem.pipeline
    return f"PROBLEM: {where} {problem.text}"


def _pipeline_lines(view: PublishedView, status: PipelineStatus) -> list[str]:
    state = ", stopping" if view.stopping and not view.ended else ""
    lines = [f"{status.pipeline} on {status.host}, run {view.run} of {view.user}, {_age(view.age_ms)} ago{state}"]
    lines += [f"  {line}" for route in status.routes for line in _route_lines(route, status.at_ms)]
    if status.omitted:
        lines.append(f"  and {status.omitted} more routes")
    return lines


def _route_lines(route: RouteStatus, at_ms: int) -> list[str]:
    parts = [f"{route.route}: {route.state}"]
    if route.source:
        parts.append(f"{route.source} -> {route.targets}" + (f", cursor {route.cursor}" if route.cursor else ""))
    if route.batch >= 0:
        parts.append(f"batch {route.batch}, {route.rows} rows, {route.rows_per_s:.0f} rows/s")
    if route.total > 0:
        parts.append(f"{route.rows} of {route.total} messages, {route.rows_per_s:.0f} a second")
    if route.waits_for:
        parts.append(f"waits for {route.waits_for}")
    if route.lag_messages is not None:
        parts.append(f"lag {route.lag_messages} messages")
    if route.lag_ms is not None:
        parts.append(f"lag {route.lag_ms / 1000:.1f} s")
    lines = ["; ".join(parts)]
    if route.last_error:
        lines.append(f"  last error {_age(max(at_ms - route.failed_at_ms, 0))} before: {route.last_error}")
    return lines


def _age(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
