"""Runs ``spanwire pipeline archive`` and ``replay``, each on a session of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.archive_query import STATE, ArchiveQuery
from spanwire.pipeline.archive.replay import DestinationTotal, Replay, Selection, totals
from spanwire.pipeline.options import read_options, write_options
from spanwire.pipeline.routes.route_runner import session_on
from spanwire.pipeline.routes.supervisor import RouteEvent, SupervisedRoute, run_all
from spanwire.pipeline.selectors.selector_evaluation import parse
from spanwire.pipeline.spark.spark_log import NAME as SPARK_LOG
from spanwire.routes.model import Patience

NAME: Final = "archive"


def archive(
    master: str,
    options: dict[str, str],
    directory: Path,
    trigger: str,
    tell: Callable[[RouteEvent], None],
    stop: threading.Event,
) -> bool:
    """Archive until ``stop`` is set, or all present messages; return True without a failure."""
    read_options(options)
    with session_on(master, "spanwire pipeline archive", log=directory / STATE / SPARK_LOG) as spark:
        query = SupervisedRoute(NAME, ArchiveQuery(spark, options, directory, trigger), Patience(), tell)
        return run_all([query], stop, time.monotonic)


def replay(
    master: str,
    selection: Selection,
    options: dict[str, str],
    state: Path,
    rate: int | None,
    tell: Callable[[int, int], None],
    stop: threading.Event,
) -> int:
    """Replay the messages that were not replayed before; return the number."""
    _check(selection)
    write_options(options)
    with session_on(master, "spanwire pipeline replay") as spark:
        return Replay(spark, selection, options, state, rate).run(time.monotonic, stop.wait, tell)


def replay_plan(master: str, selection: Selection) -> list[str]:
    """Return the messages of a replay, one line per destination."""
    _check(selection)
    with session_on(master, "spanwire pipeline replay --dry-run") as spark:
        return [total_text(total) for total in totals(spark, selection)] or ["nothing"]


def total_text(total: DestinationTotal) -> str:
    """Return the total of one destination as a line."""
    span = f", sent from {total.first} to {total.last}" if total.first is not None else ""
    return f"{total.destination}: {total.count} messages{span}"


def _check(selection: Selection) -> None:
    if not Path(selection.directory).is_dir():
        raise ConfigurationError(f"there is no directory {selection.directory}")
    if selection.selector is not None:
        parse(selection.selector)
