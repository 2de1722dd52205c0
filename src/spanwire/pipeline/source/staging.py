"""Moves messages from a queue to segments without loss, whenever the process or the machine stops.

    receive → write the segment, sync → check the owner → acknowledge → record the confirmation → Spark reads → discard

| stopped                        | afterwards                                                                    |
|--------------------------------|-------------------------------------------------------------------------------|
| before the segment has a name  | the broker delivers the messages again                                        |
| before the acknowledgement     | the segment exists; redelivered messages are recognised by their ids          |
| before the record              | the segment exists; no message is delivered again                             |
| before Spark has committed     | Spark reads the same segment again                                            |

With AT_MOST_ONCE a batch is acknowledged before the segment is written, and is lost if the process stops in between.

Spark asks for the batch after ``start`` only after a commit of all batches up to ``start``. So the request discards the
segments up to ``start``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from spanwire.model.errors import JmsError
from spanwire.pipeline.link.batch_receiver import BatchReceiver, MessageSource, ReceivedBatch
from spanwire.pipeline.options import AT_MOST_ONCE, ReadOptions, staging_directory
from spanwire.pipeline.storage.staged_segments import NewSegment, StagedSegments, open_segments

MAX_UNSETTLED: Final = 4  # unconfirmed segments whose ids are in memory; one for each of several crashes in a row
MAX_KNOWN_BATCHES: Final = 100  # consecutive batches of redelivered messages; new messages may follow them
FIRST_WAIT_S: Final = 1.0  # seconds; a broker may read from its disk before it dispatches to a new consumer
SHOWN_WAIT_S: Final = 10.0  # seconds for messages that a browser sees; other consumers may hold them for good
MAX_DRAINED: Final = 10_000  # segments of one batch read; bounds the read of a queue that never empties
RECENT_SEGMENTS: Final = 2  # confirmed segments whose ids stay in memory; a confirmation may be lost

logger = logging.getLogger(__name__)


class Staging:
    """The staged messages of one queue; belongs to one process and is not thread-safe."""

    def __init__(
        self,
        options: ReadOptions,
        connect: Callable[[], MessageSource],
        clock: Callable[[], float],
        open_staged: Callable[[str, dict[str, str]], StagedSegments] | None = None,
    ) -> None:
        """Open the staging directory of the options, with `open_segments` unless another function is given."""
        self._options: Final[ReadOptions] = options
        self._connect: Final[Callable[[], MessageSource]] = connect
        self._receiver: Final[BatchReceiver] = BatchReceiver(options, clock)
        self._source: MessageSource | None = None
        self._last: ReceivedBatch | None = None
        description = {"destination": str(options.destination), "selector": options.selector or ""}
        if options.subscription is not None:
            description["subscription"] = options.subscription
        self._directory: Final[StagedSegments] = (open_staged or open_segments)(staging_directory(options), description)
        self._known: Final[dict[int, set[str]]] = {
            number: self._directory.ids(number, options.has_many_sources)
            for number in self.numbers()
            if not self._directory.is_settled(number)
        }
        self._recent: Final[dict[int, set[str]]] = {}

    def numbers(self) -> list[int]:
        """Return the numbers of the staged segments, in order."""
        return self._directory.numbers()

    def close(self) -> None:
        """Close the consumer and unlock the directory."""
        self._disconnect()
        self._directory.close()

    def next_segment(self, start: int, max_rows: int) -> int:
        """Discard segments up to ``start`` and return the number of the next segment.

        Returns:
            ``start`` without a new message.

        Raises:
            JmsError: the broker is lost; no message is lost, and the call may be repeated.
        """
        self._discard(start)
        return self.stage_after(start, max_rows)

    def stage_after(self, last: int, max_rows: int) -> int:
        """Return the number of the segment after ``last``, or ``last`` if there is no message.

        Receives a segment unless one is staged already, as after a crash. Discards and overwrites no segment.

        Raises:
            JmsError: the broker is lost.
        """
        staged = [number for number in self.numbers() if number > last]
        if staged:
            return staged[0]
        for _ in range(MAX_KNOWN_BATCHES):
            number = self._stage(last + 1, max_rows)
            if number > last or self._last is None or self._last.is_empty:
                break
        return number

    def discard(self, last: int) -> None:
        """Discard segments up to ``last``, as `next_segment` does.

        Raises:
            ConfigurationError: another process has taken over the directory.
        """
        self._discard(last)

    def drain(self) -> None:
        """Stage messages until the queue is empty.

        Raises:
            JmsError: the broker is lost; staged segments stay.
        """
        numbers = self.numbers()
        number = numbers[-1] if numbers else 0
        for _ in range(MAX_DRAINED):
            number = self._stage(number + 1, self._options.max_rows)
            received = self.take_last()
            if received is None or received.is_empty:
                return

    def take_last(self) -> ReceivedBatch | None:
        """Return the last received batch once, or ``None`` without a new batch."""
        last, self._last = self._last, None
        return last

    def _stage(self, number: int, max_rows: int) -> int:
        """Receive a batch into segment ``number``.

        Returns:
            ``number``, or the number before without a new message.
        """
        is_new = self._source is None
        source = self._connect() if self._source is None else self._source
        self._source = source
        known = [*self._known.values(), *self._recent.values()]
        with self._directory.segment(number) as segment:
            try:
                received = self._receiver.receive(source, max_rows, known, segment.add, FIRST_WAIT_S if is_new else 0.0)
                if is_new and received.is_empty and self._is_slow(source):
                    received = self._receiver.receive(source, max_rows, known, segment.add, SHOWN_WAIT_S)
            except BaseException:  # the next acknowledgement must not cover the messages received so far
                self._disconnect()
                raise
            if received.is_empty and not source.is_connected():  # the client reconnects by itself
                raise JmsError("the broker is not connected, so it is unknown whether the queue is empty")
            self._last = received
            is_acknowledged = self._options.quality == AT_MOST_ONCE and not received.is_empty
            if is_acknowledged:
                self._acknowledge_unstored(source)
            if received.ids:
                self._finish(segment)
                self._known[number] = received.ids
        if is_acknowledged:
            self._settle(number)
        elif not received.is_empty:
            self._acknowledge(source, number, received)
        return number if received.ids else number - 1

    def _is_slow(self, source: MessageSource) -> bool:
        """Return True if the queue has messages that the broker has not sent to a new consumer yet."""
        if not source.is_connected() or not source.has_messages():
            return False
        destination = self._options.destination
        logger.warning("%s has messages, and none came within %g s; waiting for them", destination, FIRST_WAIT_S)
        return True

    def _finish(self, segment: NewSegment) -> None:
        try:
            segment.finish()
        except BaseException:  # the next acknowledgement must not cover the messages received so far
            self._disconnect()
            raise

    def _acknowledge(self, source: MessageSource, number: int, received: ReceivedBatch) -> None:
        """Acknowledge a stored segment, unless another process has taken over the directory.

        After a failure the broker redelivers messages that are recognised by id.
        """
        try:
            self._directory.check_owner()
            source.acknowledge()
        except JmsError as error:
            logger.warning(
                "segment %d is stored, but its acknowledgement has failed: %s; messages that come again are recognised",
                number,
                error,
            )
            self._disconnect()
            return
        except BaseException:  # the broker may or may not have the acknowledgement
            self._disconnect()
            raise
        if received.ids:
            self._settle(number)
            self._recent[number] = received.ids
            self._recent.pop(number - RECENT_SEGMENTS, None)
        for segment_number, ids in list(self._known.items()):
            ids -= received.known
            if not ids:
                self._settle(segment_number)

    def _acknowledge_unstored(self, source: MessageSource) -> None:
        """Acknowledge messages that are not stored, for AT_MOST_ONCE.

        Raises:
            JmsError: the broker has not confirmed; the messages are lost or redelivered.
        """
        try:
            self._directory.check_owner()
            source.acknowledge()
        except BaseException:
            self._disconnect()
            raise

    def _settle(self, number: int) -> None:
        self._known.pop(number, None)
        self._directory.settle(number)

    def _discard(self, start: int) -> None:
        while len(self._known) > MAX_UNSETTLED:
            oldest = min(self._known)
            logger.warning(
                "segment %d: its acknowledgement failed, and the broker has not sent all of its messages again; "
                "any that still come are taken for new",
                oldest,
            )
            self._settle(oldest)
        old = [number for number in self.numbers() if number <= start and number not in self._known]
        if old:
            self._directory.check_owner()
        for number in old:
            self._directory.discard(number)

    def _disconnect(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()
