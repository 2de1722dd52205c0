"""Batches under a cursor of Spanwire: the broker keeps a batch until Spark has committed the batch.

    latestOffset(start): acknowledge below start, reserve more → the sequences of the next batch
    read(partition): any range of the reservation, as often as necessary

| stopped                         | afterwards                                                                  |
|---------------------------------|-----------------------------------------------------------------------------|
| before Spark has logged a batch | the reservation stays, and is the next batch                                |
| while Spark works on the batch  | Spark reads the same sequences again                                        |
| after Spark's commit            | the request for the next batch acknowledges the sequences                   |
| the broker                      | the broker restores the same reservation                                    |

Offsets are sequences of the cursor. Each start is a new run with a later epoch, so a task of an earlier driver cannot
read any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

import pyarrow as pa

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.arrow.record_batch import record_batch
from spanwire.pipeline.columns.column_decoder import ColumnDecoder, RawMessage
from spanwire.pipeline.link.control_answers import FencedError, NotHeldError, Reservation
from spanwire.pipeline.link.control_client import MAX_RESERVED
from spanwire.pipeline.options import ReadOptions


class CursorControl(Protocol):
    """The requests of `spanwire.pipeline.link.control_client.Control` for cursors."""

    def open_cursor(
        self, name: str, queue: str, run: str, *, exclusive: bool = False, selector: str = ""
    ) -> Reservation:
        """Create or take over the cursor on a queue, for the messages that ``selector`` chooses."""
        ...

    def open_subscription_cursor(
        self, name: str, client_id: str, subscription: str, run: str, *, exclusive: bool = False, selector: str = ""
    ) -> Reservation:
        """Create or take over the cursor on a durable subscription, which must have ``selector`` unless it is empty."""
        ...

    def reserve(
        self, name: str, epoch: int, messages: int, *, max_bytes: int = 0, acknowledge: int | None = None
    ) -> Reservation:
        """Acknowledge, then reserve up to ``messages`` in total."""
        ...


class CursorSource:
    """Reads with a cursor, in one run of a query.

    Calls raise `JmsError` while the broker is away and may be repeated. They raise `ConfigurationError` if the query
    cannot go on.
    """

    def __init__(self, options: ReadOptions, run: str, connect: Callable[[], CursorControl]) -> None:
        """Create a source. ``connect`` is called for each request, and reconnects after a failure."""
        assert options.cursor is not None
        self._options: Final[ReadOptions] = options
        self._name: Final[str] = options.cursor
        self._run: Final[str] = run
        self._connect: Final[Callable[[], CursorControl]] = connect
        self._end_limit: int | None = None
        self.epoch = -1
        self.end = 0  # sequences below are read or reserved
        self.waiting = 0

    def begin(self) -> int:
        """Return the sequence of the first unacknowledged message."""
        return self._open().start

    def stop_at_current_end(self) -> None:
        """Limit the source to the messages now in the queue.

        With a selector, the limit is the number of those that are held or not looked at: later ones may be among them.
        """
        reservation = self._open()
        reservation = self._connect().reserve(self._name, self.epoch, max(1, reservation.end - reservation.start))
        self._end_limit = reservation.end + reservation.waiting

    def next_end(self, start: int, max_rows: int) -> int:
        """Acknowledge all messages below ``start``, and return the end of the batch from ``start`` on.

        Returns:
            ``start`` if there is no message. A source with a selector and a limit has then looked at all messages.
        """
        if self.epoch < 0:
            self._open()
        rows = min(max_rows, MAX_RESERVED)
        reservation = self._reserve(start, rows)
        while self._end_limit is not None and reservation.end <= start and reservation.waiting > 0 and self._searches:
            reservation = self._reserve(start, rows)
        self.end = max(reservation.end, start)
        self.waiting = reservation.waiting
        end = min(self.end, start + rows)
        return end if self._end_limit is None else max(start, min(end, self._end_limit))

    @property
    def _searches(self) -> bool:
        return self._options.selector is not None and self._options.destination.is_queue

    def _reserve(self, start: int, rows: int) -> Reservation:
        try:
            reservation = self._connect().reserve(
                self._name, self.epoch, rows, max_bytes=self._options.max_bytes, acknowledge=start
            )
        except FencedError as error:
            raise self._fenced_error(error) from None
        except NotHeldError as error:
            raise self._lost_error(start, start, error) from None
        self._check(reservation, start, start)
        return reservation

    def ranges(self, start: int, end: int, wanted: int, least: int) -> list[tuple[int, int]]:
        """Return the sequences of a batch cut into about ``wanted`` ranges of at least ``least`` messages."""
        if self.epoch < 0 or self.end < end:
            self._check(self._open(), start, end)
        size = max(least, -(-(end - start) // wanted))
        return [(first, min(first + size, end)) for first in range(start, end, size)]

    def _open(self) -> Reservation:
        reservation = open_cursor(self._connect(), self._options, self._run)
        if 0 <= self.epoch != reservation.epoch:
            raise self._fenced_error(FencedError("fenced", f"epoch {self.epoch}, now it is {reservation.epoch}"))
        self.epoch = reservation.epoch
        self.end = reservation.end
        return reservation

    def _check(self, reservation: Reservation, start: int, end: int) -> None:
        if start < reservation.start or end > reservation.end:
            raise self._lost_error(start, end, f"the reservation is {reservation.start} to {reservation.end}")

    def _lost_error(self, start: int, end: int, reason: object) -> ConfigurationError:
        return ConfigurationError(
            f"spanwire: the checkpoint is at the messages {start} to {end} of the cursor {self._name!r}, which are "
            "not reserved: another start of the query went on meanwhile, or the cursor was released or belongs to "
            "another checkpoint; start the query again, and if it ends like this again, use another "
            f"checkpointLocation ({reason})"
        )

    def _fenced_error(self, error: FencedError) -> ConfigurationError:
        return ConfigurationError(
            f"spanwire: another query has taken over the cursor {self._name!r}, or it was released; give each query a "
            f"cursor of its own ({error})"
        )


def open_cursor(control: CursorControl, options: ReadOptions, run: str) -> Reservation:
    """Create or take over the cursor of the options.

    Raises:
        JmsError: the broker is lost or refuses the request.
    """
    name, destination, selector = options.cursor, options.destination, options.selector or ""
    assert name is not None
    if destination.is_queue:
        return control.open_cursor(name, destination.name, run, exclusive=options.exclusive, selector=selector)
    assert options.login.client_id is not None and options.subscription is not None
    return control.open_subscription_cursor(
        name, options.login.client_id, options.subscription, run, exclusive=options.exclusive, selector=selector
    )


def record_batches(options: ReadOptions, portions: Iterable[Sequence[RawMessage]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of messages in record batches of a bounded size."""
    decoder = ColumnDecoder(options.bodies)
    for messages in portions:
        index = 0
        while index < len(messages):
            index = decoder.add_until_full(messages, index)
            if decoder.is_full:
                yield record_batch(decoder.take_columns())
    if decoder.columns.ids:
        yield record_batch(decoder.take_columns())
