"""Receives one batch of messages as record batches. The caller acknowledges the batch later.

Each record batch is handed on as soon as it is full, so a large batch is never in memory as a whole.
`spanwire.pipeline.link.broker_link` receives from a broker, `spanwire.pipeline.source.staging` stores the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from spanwire.pipeline.arrow.record_batch import record_batch
from spanwire.pipeline.columns.column_decoder import ColumnDecoder, DecodedColumns, RawMessage
from spanwire.pipeline.options import ReadOptions
from spanwire.pipeline.spark.gc_tuning import RARE_COLLECTIONS

MAX_RECEIVED: Final = 1000  # messages received in one call; bounds the undecoded messages in memory
IDLE_S: Final = 0.05  # seconds; a small batch ends after such a pause
FULL_TIMEOUT_ROWS: Final = 500  # rows; so many pending messages are worth the full timeout of a slow broker


class MessageSource(Protocol):
    """A consumer under client acknowledgement."""

    def receive(self, max_count: int, timeout_s: float) -> Sequence[RawMessage]:
        """Return at most ``max_count`` messages; empty if none came within ``timeout_s`` seconds.

        Raises:
            JmsError: the connection is lost.
        """
        ...

    def acknowledge(self) -> None:
        """Acknowledge all received messages and wait until the broker has stored the acknowledgement.

        Raises:
            JmsError: the broker has not confirmed the acknowledgement.
        """
        ...

    def is_connected(self) -> bool:
        """Return True if the broker could have sent its messages."""
        ...

    def has_messages(self) -> bool:
        """Return True if the queue has messages, which the broker may send later.

        Raises:
            JmsError: the connection is lost.
        """
        ...

    def close(self) -> None:
        """Close the consumer; unacknowledged messages return to the broker. Raises nothing."""
        ...


@dataclass(frozen=True, slots=True)
class ReceivedBatch:
    """The ids of the messages of a batch, and of messages left out because they are already staged."""

    ids: set[str]
    known: set[str]
    last_timestamp_ms: int

    @property
    def is_empty(self) -> bool:
        """Return True if no message came within the time for the first message."""
        return not self.ids and not self.known


class BatchReceiver:
    """Receives batches within the limits of the options."""

    def __init__(self, options: ReadOptions, clock: Callable[[], float]) -> None:
        self._options: Final[ReadOptions] = options
        self._clock: Final[Callable[[], float]] = clock
        self._decoder: Final[ColumnDecoder] = ColumnDecoder(options.bodies)

    def receive(
        self,
        source: MessageSource,
        max_rows: int,
        known: list[set[str]],
        store: Callable[[pa.RecordBatch], None],
        least_wait_s: float = 0.0,
    ) -> ReceivedBatch:
        """Receive a batch, and pass the new messages to ``store`` in record batches.

        Waits for the first message for the receive timeout of the options or ``least_wait_s`` seconds, whichever is
        longer. Later messages must follow without a pause. Messages with an id in one of the sets of ``known`` are left
        out.

        Raises:
            JmsError: the connection is lost; the caller must drop the batch, because the broker delivers all messages
            again.
        """
        with RARE_COLLECTIONS:
            return self._receive(source, max_rows, known, store, least_wait_s)

    def _receive(
        self,
        source: MessageSource,
        max_rows: int,
        known: list[set[str]],
        store: Callable[[pa.RecordBatch], None],
        least_wait_s: float,
    ) -> ReceivedBatch:
        options, decoder, clock = self._options, self._decoder, self._clock
        decoder.take_columns()
        chunks = _Chunks(known, store, options.has_many_sources)
        size = count = 0
        wait_s = max(options.receive_timeout_ms / 1000, least_wait_s)
        end = clock() + wait_s + options.max_batch_ms / 1000
        while count < max_rows and size + decoder.columns.octets < options.max_bytes and clock() < end:
            messages = source.receive(min(MAX_RECEIVED, max_rows - count), wait_s)
            if not messages:
                break
            count += len(messages)
            wait_s = IDLE_S if count < FULL_TIMEOUT_ROWS else options.receive_timeout_ms / 1000
            index = 0
            while index < len(messages):
                index = decoder.add_until_full(messages, index)
                if decoder.is_full:
                    size += decoder.columns.octets
                    chunks.add(decoder.take_columns())
        columns = decoder.take_columns()
        if columns.ids:
            chunks.add(columns)
        return ReceivedBatch(chunks.ids, chunks.repeated, chunks.last_timestamp_ms)


class _Chunks:
    """Passes on the new rows of a batch, and collects the message ids."""

    def __init__(self, known: list[set[str]], store: Callable[[pa.RecordBatch], None], has_many_sources: bool) -> None:
        self.ids: Final[set[str]] = set()
        self.repeated: Final[set[str]] = set()
        self.last_timestamp_ms = 0
        self._known_sets: Final = [self.ids, *known]
        self._store: Final = store
        self._has_many_sources: Final[bool] = has_many_sources

    def add(self, columns: DecodedColumns) -> None:
        """Pass on the new rows of these columns."""
        keys = columns.keys(self._has_many_sources)
        fresh = set(keys)
        if len(fresh) == len(keys) and all(fresh.isdisjoint(known_ids) for known_ids in self._known_sets):
            self.ids.update(fresh)
            self.last_timestamp_ms = columns.last_timestamp_ms
            self._store(record_batch(columns))
            return
        rows = self._fresh_rows(keys)
        if rows:
            self.last_timestamp_ms = columns.last_timestamp_ms
            self._store(record_batch(columns).take(pa.array(rows, pa.int32())))

    def _fresh_rows(self, keys: list[str]) -> list[int]:
        rows: list[int] = []
        for row, key in enumerate(keys):
            if any(key in known_ids for known_ids in self._known_sets):
                self.repeated.add(key)
            else:
                self.ids.add(key)
                rows.append(row)
        return rows
