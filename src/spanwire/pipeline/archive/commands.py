"""Runs ``spanwire pipeline archive`` and ``replay``, each on a session of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.archive_query import STATE, ArchiveQuery
from spanwire.pipeline.archive.replay import Progress, Replay, ReplayEnd
from spanwire.pipeline.archive.replay_portions import SparkPortions, open_note
from spanwire.pipeline.archive.replay_receivers import QueueReceivers
from spanwire.pipeline.archive.replay_undo import UndoResult, undo_replay
from spanwire.pipeline.archive.replay_watch import REPLAY, ReplayWatch
from spanwire.pipeline.archive.selection import DestinationTotal, Selection, samples, totals
from spanwire.pipeline.archive.shared_archive import open_archive
from spanwire.pipeline.link.connections import check_broker
from spanwire.pipeline.options import (
    DUPLICATE_ID,
    ONCE_AND_ONLY_ONCE,
    QUALITY,
    WriteOptions,
    read_options,
    write_options,
)
from spanwire.pipeline.parquet import PARQUET
from spanwire.pipeline.routes.route_runner import session_on
from spanwire.pipeline.routes.route_state import state_directory
from spanwire.pipeline.routes.route_watching import new_board, wall_ms
from spanwire.pipeline.routes.supervisor import RouteEvent, SupervisedRoute, failure_text, run_all
from spanwire.pipeline.selectors.selector_evaluation import parse
from spanwire.pipeline.sink.exactly_once import batch_sink
from spanwire.pipeline.spark.spark_log import NAME as SPARK_LOG
from spanwire.pipeline.storage.location import local_path
from spanwire.pipeline.watch.board import StatusBoard
from spanwire.pipeline.watch.broker_status import status_links
from spanwire.pipeline.watch.publisher import publishing
from spanwire.pipeline.watch.route_watch import RouteWatch
from spanwire.pipeline.watch.status import RouteStatus
from spanwire.routes.masking import without_secrets
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
    check_broker(read_options(options).login)
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
    with session_on(master, "spanwire pipeline archive", log=path / STATE / SPARK_LOG, is_recording=True) as spark:
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
    follows: bool,
    tell: Callable[[Progress], None],
    stop: threading.Event,
) -> ReplayEnd:
    """Replay the messages that were not replayed before.

    ``follows`` is true to wait for the consumers of the queues.
    """
    _check(selection)
    directory = state_directory(state)
    checked = exact_options(options)
    check_broker(checked.login)
    with contextlib.ExitStack() as opened:
        receivers = QueueReceivers(checked.login) if follows else None
        if receivers is not None:
            opened.callback(receivers.close)
        spark = opened.enter_context(session_on(master, "spanwire pipeline replay"))
        note = open_note(spark, selection, options.get("destination", ""), directory)
        sink = batch_sink(checked)
        opened.callback(sink.close)
        portions = SparkPortions(spark, directory, checked)
        board = new_board(state)
        watch = ReplayWatch(board, without_secrets(selection.directory), options.get("destination", ""), wall_ms, tell)
        opened.enter_context(publishing(board, status_links([options]), stop.set, wall_ms, failure_text))
        before = note.sent
        watch.note(Progress(before, note.total, None))
        Replay(note, portions, sink, rate, receivers).run(time.monotonic, stop.wait, watch.show)
        if note.sent == note.total:
            board.on_end(REPLAY)
        return ReplayEnd(note.sent, note.total, before)


def undo(options: dict[str, str], state: str) -> UndoResult:
    """Take back the messages of a replay that nobody has consumed."""
    directory = state_directory(state)
    checked = exact_options(options)
    sink = batch_sink(checked)
    try:
        return undo_replay(checked, sink, directory)
    finally:
        sink.close()


def exact_options(options: dict[str, str]) -> WriteOptions:
    """Return the options of a writer whose batches are taken once, and whose messages an undo finds."""
    return write_options({**options, QUALITY: ONCE_AND_ONLY_ONCE, "duplicateIdProperty": DUPLICATE_ID})


def replay_plan(master: str, selection: Selection, target: str | None) -> list[dict[str, object]]:
    """Return the messages of a replay: a row per destination, in the form of the dry run of a move."""
    _check(selection)
    with session_on(master, "spanwire pipeline replay --dry-run") as spark:
        shown = samples(spark, selection)
        return [plan_row(total, shown.get(total.destination, []), target) for total in totals(spark, selection)]


def plan_row(total: DestinationTotal, sample: list[str], target: str | None) -> dict[str, object]:
    """Return one destination of a dry run, with the ids of some messages."""
    times = f"sent from {total.first} to {total.last}" if total.first is not None else ""
    to = target or total.destination
    return {
        "destination": total.destination, "would_be": total.count, "left": 0, "times": times,
        "sample": [{"message_id": message_id, "target": to} for message_id in sample],
    }  # fmt: skip


def _check(selection: Selection) -> None:
    path = local_path(selection.directory)
    if path is not None and not path.is_dir():
        raise ConfigurationError(f"there is no directory {selection.directory}")
    if selection.selector is not None:
        parse(selection.selector)
