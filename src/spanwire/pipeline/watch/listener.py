"""A listener for the queries of a program: makes metrics, and publishes the status to brokers.

    listener = PipelineListener("nightly", {"url": "tcp://127.0.0.1:61616"})
    spark.streams.addListener(listener)

``spanwire pipeline run`` needs no listener, because the command watches all routes.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, cast

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spanwire import registry
from spanwire.client.io.tracing_switch import is_traced
from spanwire.pipeline.watch.board import StatusBoard
from spanwire.pipeline.watch.broker_status import nameable, status_links
from spanwire.pipeline.watch.metrics import prometheus_text
from spanwire.pipeline.watch.progress import batch_of, duration_ms_of, has_worked, rows_of
from spanwire.pipeline.watch.publisher import publishing
from spanwire.pipeline.watch.status import PipelineStatus, RouteStatus
from spanwire.routes.masking import mask

if TYPE_CHECKING:
    from spanwire.pipeline.watch.batch_spans import BatchSpans


class PipelineListener(StreamingQueryListener):
    """Watches all queries of a session; a query without a name becomes a route named by the query id."""

    def __init__(self, name: str, *brokers: Mapping[str, str]) -> None:
        """Publish the status to brokers.

        Each broker is given by options of the data source (``url``, ``user``, ``password``). The command
        ``spanwire pipeline stop NAME`` sets ``stop_requested``; the program must then stop the queries.
        """
        self.stop_requested: Final = threading.Event()
        self._board: Final = StatusBoard(nameable(name), uuid.uuid4().hex, socket.gethostname(), _wall_ms())
        self._names: Final[dict[str, str]] = {}
        self._spans: Final = _batch_spans()
        self._stack: Final = ExitStack()
        links = status_links(brokers)
        self._stack.enter_context(publishing(self._board, links, self.stop_requested.set, _wall_ms))

    def status(self) -> PipelineStatus:
        """Return the present status."""
        return self._board.status(_wall_ms())

    def metrics(self) -> str:
        """Return the present status in the text format of Prometheus."""
        return prometheus_text([(self.status(), 0)])

    def close(self) -> None:
        """Publish the last status and disconnect from the brokers."""
        self._stack.close()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Note the start of a query."""
        query = str(event.id)
        name = event.name or query
        self._names[query] = name
        self._board.add(RouteStatus(name))
        self._board.on_start(name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Note a batch."""
        progress = event.progress
        name = progress.name or str(progress.id)
        self._board.on_progress(name, progress, _wall_ms())
        if self._spans is not None and has_worked(progress):
            self._spans.on_batch(
                name, batch_of(progress), rows_of(progress), progress.timestamp, duration_ms_of(progress)
            )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing, because idle queries report progress, too."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Note the end of a query."""
        query = str(event.id)
        name = self._names.pop(query, query)
        if event.exception is None:
            self._board.on_end(name)
        else:
            self._board.on_failure(name, _first_line(event.exception), is_final=True, now_ms=_wall_ms())


def _batch_spans() -> BatchSpans | None:
    """Return the maker of spans in a program that has configured OpenTelemetry."""
    if not is_traced():
        return None
    return cast("type[BatchSpans]", registry.load(registry.BATCH_SPANS))()


def _first_line(text: str) -> str:
    return mask((text.splitlines() or [""])[0])


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
