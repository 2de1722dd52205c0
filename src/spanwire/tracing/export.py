"""Sends notes to a collector in a separate thread, at most one batch at a time.

The thread with the notes never waits for the collector. If the collector is away, slow, or refuses spans, a batch is
lost after the collector's timeout, the number of notes in the meantime is bounded, and the log says so once.
"""

from __future__ import annotations

import logging
import threading
from typing import Final, Protocol

from spanwire.model.observation.span_records import SpanRecord, SpanRecords
from spanwire.model.text import printable

INTERVAL_S: Final = 1.0  # seconds between two looks at the notes: spans are seen soon, an idle process hardly wakes
MAX_BATCH: Final = 512  # spans of one request, as OpenTelemetry's batch processor sends them
STOP_S: Final = 2.0  # seconds for the last spans at the end; a collector that is away must not hold up a stop
MAX_REASON: Final = 500  # characters of an exporter's error in the log
ABORT_S: Final = 0.5  # seconds for the thread to notice that it is over

logger = logging.getLogger(__name__)


class Collector(Protocol):
    """Takes spans."""

    def send(self, records: list[SpanRecord]) -> str:
        """Send one batch. Blocks. Returns the reason of a failure, or an empty text."""
        ...

    def close(self) -> None:
        """End a running `send` soon. Called by another thread."""
        ...


class SpanExport:
    """Sends the notes of one process. ``sent`` and ``lost`` count spans since the start."""

    def __init__(
        self, records: SpanRecords, collector: Collector, interval_s: float = INTERVAL_S, stop_s: float = STOP_S
    ) -> None:
        self.records: Final = records
        self.sent = 0
        self.lost = 0  # in batches that the collector has not taken
        self._collector: Final = collector
        self._interval_s: Final = interval_s
        self._stop_s: Final = stop_s
        self._stopping: Final = threading.Event()
        self._is_failing = False
        self._thread: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """The number of spans lost before a collector: lost batches, and notes above the limit."""
        return self.lost + self.records.dropped

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="spanwire-traces", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send the last notes and end the thread; waits `STOP_S` at most. A second call has no effect."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopping.set()
        thread.join(self._stop_s)
        self._collector.close()
        thread.join(ABORT_S)
        if self.dropped:
            logger.info("%d spans were sent, %d were dropped", self.sent, self.dropped)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        """Send the present notes. After a failure the rest waits for the next time."""
        while batch := self.records.take(MAX_BATCH):
            reason = self._send(batch)
            if reason:
                self.lost += len(batch)
                if not self._is_failing:
                    logger.warning("the collector does not take spans, which are dropped until it does: %s", reason)
                self._is_failing = True
                return
            self.sent += len(batch)
            if self._is_failing:
                logger.info("the collector takes spans again; %d were dropped", self.dropped)
            self._is_failing = False

    def _send(self, batch: list[SpanRecord]) -> str:
        """Send one batch and return the reason of a failure; an exporter's exception must not end the thread."""
        try:
            return self._collector.send(batch)
        except Exception as error:  # noqa: BLE001
            return printable(f"{type(error).__name__}: {error}")[:MAX_REASON]
