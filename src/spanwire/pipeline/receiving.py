"""One batch of messages from a queue, as record batches that wait for their acknowledgement.

They are handed on as they are full, so that a large batch is never in memory as a whole. Leaves to
`spanwire.pipeline.broker_link` how messages come from a broker, to `spanwire.pipeline.staging` what happens to the
batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from spanwire.pipeline.columns import record_batch
from spanwire.pipeline.gathering import MessageGatherer
from spanwire.pipeline.options import MIB, ReadOptions

MAX_CHUNK_ROWS: Final = 2000  # of one record batch: what is in memory here and in Spark at once
MAX_CHUNK_BYTES: Final = 2 * MIB  # it is written while a processor's cache still has it
MAX_TAKEN: Final = 1000  # messages taken from the link at once
IDLE_S: Final = 0.05  # a small batch ends when nothing more comes for so long
BACKLOG_ROWS: Final = 500  # from here on there is a backlog, which is worth the full timeout of a broker out of breath


class RawMessage(Protocol):
    """A message as the client has it, not decoded yet."""

    @property
    def raw(self) -> bytes:
        """The loose and uncached octets from the type id on."""
        ...

    @property
    def version(self) -> int:
        """The OpenWire version that they are in."""
        ...

    @property
    def redelivery_count(self) -> int:
        """Deliveries before this one."""
        ...


class MessageSource(Protocol):
    """A consumer under client acknowledgement."""

    def receive(self, max_count: int, timeout_s: float) -> Sequence[RawMessage]:
        """What is there, at most ``max_count``; empty when nothing came in time. Raises `JmsError` when the connection
        is lost.
        """
        ...

    def acknowledge(self) -> None:
        """Everything received is consumed; the broker has stored that when this returns. Raises `JmsError`."""
        ...

    def is_connected(self) -> bool:
        """Whether there is a broker that would have sent what it has."""
        ...

    def close(self) -> None:
        """What was received and not acknowledged goes back. Raises nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Received:
    """One batch: the ids of its messages, and those of messages that were left out because they are known."""

    ids: set[str]
    known: set[str]
    last_timestamp_ms: int

    @property
    def is_empty(self) -> bool:
        """Nothing came in the time that a first message is waited for: the queue had nothing for us."""
        return not self.ids and not self.known


class BatchReceiver:
    """Receives batches within the limits of the options."""

    def __init__(self, options: ReadOptions, clock: Callable[[], float]) -> None:
        self._options: Final[ReadOptions] = options
        self._clock: Final[Callable[[], float]] = clock
        self._gatherer: Final[MessageGatherer] = MessageGatherer(options.bodies, options.has_many_sources)

    def receive(
        self,
        source: MessageSource,
        max_rows: int,
        known: list[set[str]],
        keep: Callable[[pa.RecordBatch], None],
        least_wait_s: float = 0.0,
    ) -> Received:
        """Wait for a first message as long as the options say, or longer; then take what follows without a pause.
        Messages whose ids are in one of the sets of ``known`` are left out, the others given to ``keep`` in portions.

        Raises `JmsError` when the connection is lost; what it brought must be forgotten, for the broker delivers it
        again.
        """
        options, gatherer, clock = self._options, self._gatherer, self._clock
        gatherer.take()
        ids: set[str] = set()
        again: set[str] = set()
        left_out = [ids, *known]
        octets = taken = last_timestamp_ms = 0
        wait_s = max(options.receive_timeout_ms / 1000, least_wait_s)
        end = clock() + wait_s + options.max_batch_ms / 1000
        while taken < max_rows and octets + gatherer.gathered.octets < options.max_bytes and clock() < end:
            messages = source.receive(min(MAX_TAKEN, max_rows - taken), wait_s)
            if not messages:
                break
            taken += len(messages)
            wait_s = IDLE_S if taken < BACKLOG_ROWS else options.receive_timeout_ms / 1000
            gathered = gatherer.gathered
            for message in messages:
                before = len(gathered.ids)
                message_id = gatherer.add(message.raw, message.version, message.redelivery_count, left_out)
                (ids if len(gathered.ids) > before else again).add(message_id)
                if gathered.octets >= MAX_CHUNK_BYTES or len(gathered.ids) >= MAX_CHUNK_ROWS:
                    octets += gathered.octets
                    last_timestamp_ms = gathered.last_timestamp_ms
                    keep(record_batch(gatherer.take()))
                    gathered = gatherer.gathered
        gathered = gatherer.take()
        if gathered.ids:
            last_timestamp_ms = gathered.last_timestamp_ms
            keep(record_batch(gathered))
        return Received(ids, again, last_timestamp_ms)
