"""Runs ``spanwire pipeline archive`` and ``replay``, each on a session of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.archive_query import STATE, ArchiveQuery
from spanwire.pipeline.archive.replay import DestinationTotal, Replay, Selection, totals
from spanwire.pipeline.archive.shared_archive import open_archive
from spanwire.pipeline.options import read_options, write_options
from spanwire.pipeline.parquet import PARQUET
from spanwire.pipeline.routes.route_runner import session_on
from spanwire.pipeline.routes.route_state import state_directory
from spanwire.pipeline.routes.route_watching import new_board, wall_ms
from spanwire.pipeline.routes.supervisor import RouteEvent, SupervisedRoute, failure_text, run_all
from spanwire.pipeline.selectors.selector_evaluation import parse
from spanwire.pipeline.spark.spark_log import NAME as SPARK_LOG
from spanwire.pipeline.storage.location import local_path
from spanwire.pipeline.watch.board import StatusBoard
from spanwire.pipeline.watch.broker_status import status_links
from spanwire.pipeline.watch.publisher import publishing
from spanwire.pipeline.watch.route_watch import RouteWatch
from spanwire.pipeline.watch.status import RouteStatus
from spanwire.routes.model import Patience

NAME: Final = "archive"


def archive(
    master: str,
    options: dict[str, str],
    directory: str,
    trigger: str,
    tell: Callable[[RouteEvent], None],
    stop: threading.Event,
) -> bool:
    """Archive until ``stop`` is set, or all present messages; return True without a failure.

    Spark writes an archive on a disk, PyArrow one on shared storage.
    """
    read_options(options)
    board = new_board(directory)
    board.add(RouteStatus(NAME, source=options["destination"], targets=PARQUET))
    with publishing(board, status_links([options]), stop.set, wall_ms, failure_text):
        return _archive(master, options, directory, trigger, tell, stop, board)


def _archive(
    master: str,
    options: dict[str, str],
    directory: str,
    trigger: str,
    tell: Callable[[RouteEvent], None],
    stop: threading.Event,
    board: StatusBoard,
) -> bool:
    watch = RouteWatch(board, NAME, wall_ms)
    path = local_path(directory)
    if path is None:
        watch.on_start()
        open_archive(options, directory, lambda event: _tell(event, tell, watch)).run(trigger, stop)
        if not stop.is_set():
            watch.on_end()
        return True
    with session_on(master, "spanwire pipeline archive", log=path / STATE / SPARK_LOG) as spark:
        query = SupervisedRoute(NAME, ArchiveQuery(spark, options, path, trigger), Patience(), tell, watch)
        return run_all([query], stop, time.monotonic)


def _tell(event: RouteEvent, tell: Callable[[RouteEvent], None], watch: RouteWatch) -> None:
    """Report an event of an archive without Spark, and note it like Spark's progress."""
    if event.batch is not None:
        watch.on_progress(
            {"batchId": event.batch, "numInputRows": event.rows, "processedRowsPerSecond": event.rows_per_s}
        )
    tell(event)


def replay(
    master: str,
    selection: Selection,
    options: dict[str, str],
    state: str,
    rate: int | None,
    tell: Callable[[int, int], None],
    stop: threading.Event,
) -> int:
    """Replay the messages that were not replayed before; return the number."""
    _check(selection)
    write_options(options)
    with session_on(master, "spanwire pipeline replay") as spark:
        return Replay(spark, selection, options, state_directory(state), rate).run(time.monotonic, stop.wait, tell)


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
    path = local_path(selection.directory)
    if path is not None and not path.is_dir():
        raise ConfigurationError(f"there is no directory {selection.directory}")
    if selection.selector is not None:
        parse(selection.selector)
