"""Decodes the results of the reader thread, some messages in each turn of the loop, in request order."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.errors import RemoteProtocolError, StoreError
from spanwire.model.message import Message
from spanwire.stores.journal.fetching.fetch import Fetch, StoredBytes, damaged_message
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.segments.segment import segment_name

logger: Final = logging.getLogger(__name__)

ANSWER_SLICE: Final = 64  # messages decoded in one turn of the loop; bounds the turn

Fetched = Callable[[int, list[Message | None]], None]
Failed = Callable[[StoreError], None]
Schedule = Callable[[Callable[[], None]], object]  # asyncio's returns a handle


class Answer:
    """The messages read for one request. ``next_read`` is the index of the first undecoded message."""

    __slots__ = ("fetch", "next_read", "results")

    def __init__(self, fetch: Fetch, results: list[StoredBytes | None]) -> None:
        self.fetch: Final[Fetch] = fetch
        self.results: Final[list[StoredBytes | None]] = results
        self.next_read = 0


class Answers:
    """Queues results of reads, and passes decoded messages to ``on_fetched`` until `stop`.

    A missing segment is reported to ``on_failed``.
    """

    def __init__(
        self, journal: Journal, formats: MessageFormats, on_fetched: Fetched, on_failed: Failed, schedule: Schedule
    ) -> None:
        self._journal: Final[Journal] = journal
        self._formats: Final[MessageFormats] = formats
        self._on_fetched: Final = on_fetched
        self._on_failed: Final = on_failed
        self._schedule: Final = schedule
        self._answers: Final[deque[Answer]] = deque()  # in the order of the requests; the broker bounds the requests
        self._is_stopped = False

    def stop(self) -> None:
        """Stop all answers after a failure of the store."""
        self._is_stopped = True

    def add(self, fetch: Fetch, results: list[StoredBytes | None]) -> None:
        """Queue the result of a read behind the results of earlier reads."""
        self._answers.append(Answer(fetch, results))
        if len(self._answers) == 1:
            self._answer_some()

    def _answer_some(self) -> None:
        """Decode the next `ANSWER_SLICE` messages of a read; later turns decode the rest."""
        if self._is_stopped:
            return
        answer = self._answers[0]
        start = answer.next_read
        answer.next_read = min(start + ANSWER_SLICE, len(answer.fetch.reads))
        if not self._decode(answer.fetch, answer.results, start, answer.next_read):
            return
        if answer.next_read == len(answer.fetch.reads):
            self._answers.popleft()
            fetch = answer.fetch
            fetch.forget_removed()
            self._journal.answered(fetch)
        try:
            if answer.next_read == len(answer.fetch.reads):
                self._on_fetched(answer.fetch.request, answer.fetch.messages)
        finally:
            if self._answers:
                self._schedule(self._answer_some)

    def _decode(self, fetch: Fetch, results: list[StoredBytes | None], start: int, end: int) -> bool:
        """Decode messages; an unreadable message becomes None.

        Returns:
            False if a segment is missing: the store has failed.
        """
        index = fetch.take_apart(results, start, end, self._formats)
        while index < end:
            read = fetch.reads[index]
            if fetch.still_there(read):
                stored = results[index]
                if stored is None:
                    self._on_failed(
                        StoreError(f"{segment_name(read.segment)} is missing: restore the file from a backup")
                    )
                    return False
                logger.error("%s", damaged_message(fetch, read, stored.damage or self._decoding_error(stored)))
            index = fetch.take_apart(results, index + 1, end, self._formats)
        return True

    def _decoding_error(self, stored: StoredBytes) -> str:
        """Return the reason why a message with a matching checksum cannot be decoded."""
        try:
            self._formats.index(stored.format_id, stored.raw)
        except (RemoteProtocolError, StoreError) as error:
            return str(error)
        return ""
