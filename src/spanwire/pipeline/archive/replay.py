"""Sends the messages of an archive again, in batches that the broker takes once.

    note the batch → stage it at the broker → commit it → note that it is sent

| stopped                     | afterwards                                                            |
|-----------------------------|-----------------------------------------------------------------------|
| before the commit           | the same messages are staged again; those staged before are dropped   |
| behind the commit           | the broker knows the number of the batch, and drops it                |

So no message is lost or doubled, at Spanwire and at other brokers alike (`spanwire.pipeline.sink`). The words of the
progress and the pace are those of a move inside of a broker (`spanwire.broker.moves`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.pipeline.archive.replay_note import ReplayNote
from spanwire.pipeline.sink.batch_sink import Batch, BatchSink

MAX_BATCH: Final = 1000  # messages of one commit
BURSTS: Final = 4  # batches in a second of a replay with a rate, so that it runs evenly
FULL_PAUSE_S: Final = 0.5  # seconds between two looks at a receiver that has enough


class Portions(Protocol):
    """The messages of a replay in order."""

    def end_of(self, number: int) -> int:
        """Return the end, exclusive, of the messages that are read together with message ``number``."""
        ...

    def rows(self, first: int, until: int, ids: str) -> Iterator[Outgoing]:
        """Return the messages from ``first`` to ``until``, exclusive, with duplicate ids that begin with ``ids``.

        Raises:
            ConfigurationError: a message has no JMS form.
        """
        ...


class Receivers(Protocol):
    """The queues that a replay sends to."""

    def waits_for(self, rows: list[Outgoing]) -> str:
        """Return in words what the messages must wait for, or an empty text.

        Raises:
            JmsError: the broker is lost.
            ConfigurationError: the broker does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """The messages of a replay that are sent, of how many, and the seconds left (``None``: unknown)."""

    sent: int
    total: int
    seconds_left: int | None
    waits_for: str = ""


class ReplayEnd(NamedTuple):
    """The messages of a replay that are sent at the end of a command, of how many, and how many were sent before it."""

    sent: int
    total: int
    before: int


class Replay:
    """Sends the messages of a note that were not sent before."""

    def __init__(
        self,
        note: ReplayNote,
        portions: Portions,
        sink: BatchSink,
        rate: int | None,
        receivers: Receivers | None = None,
    ) -> None:
        """Send at most ``rate`` messages per second, and not faster than the ``receivers``, if there are any."""
        self._note: Final[ReplayNote] = note
        self._portions: Final[Portions] = portions
        self._sink: Final[BatchSink] = sink
        self._rate: Final[int | None] = rate
        self._receivers: Final[Receivers | None] = receivers
        self._process: Final[str] = uuid.uuid4().hex
        self._count = 0

    def run(self, now: Callable[[], float], wait: Callable[[float], object], tell: Callable[[Progress], None]) -> int:
        """Send the rest; return the number of messages.

        Args:
            now: monotonic seconds.
            wait: waits some seconds and returns True to stop.
            tell: is called after each batch, and before each pause for a receiver.

        Raises:
            JmsError: the broker is lost or refuses a message; another run goes on.
            ConfigurationError: the broker is not that of the messages sent before, or a message has no JMS form.
        """
        note = self._note
        began = due = now()
        while note.sent < note.total:
            if note.until == note.sent:
                note.until = min(note.total, note.sent + self._size(), self._portions.end_of(note.sent))
                note.batch += 1
                note.save()
            rows = list(self._portions.rows(note.sent, note.until, f"{note.run}/{note.batch}/{self._process}"))
            if self._must_stop(rows, began, now, wait, tell):
                return self._count
            self._send(rows)
            tell(self._progress(began, now))
            due = max(due, now()) if self._rate is None else max(due, now()) + len(rows) / self._rate
            if note.sent < note.total and wait(max(0.0, due - now())):
                break
        if note.sent == note.total and not note.is_forgotten:
            self._sink.forget(note.sink)
            note.is_forgotten = True
            note.save()
        return self._count

    def _size(self) -> int:
        return MAX_BATCH if self._rate is None else max(1, min(MAX_BATCH, self._rate // BURSTS))

    def _must_stop(
        self,
        rows: list[Outgoing],
        began: float,
        now: Callable[[], float],
        wait: Callable[[float], object],
        tell: Callable[[Progress], None],
    ) -> bool:
        """Wait for the receivers. Return True to stop."""
        while self._receivers is not None and (obstacle := self._receivers.waits_for(rows)):
            tell(self._progress(began, now, obstacle))
            if wait(FULL_PAUSE_S):
                return True
        return False

    def _send(self, rows: list[Outgoing]) -> None:
        note = self._note
        batch = Batch(note.sink, self._process, note.batch)
        part = self._sink.stage(batch, 0, 0, rows)
        self._sink.commit(batch, [part])
        self._count += len(rows)
        note.sent = note.until
        note.save()

    def _progress(self, began: float, now: Callable[[], float], obstacle: str = "") -> Progress:
        left = self._note.total - self._note.sent
        seconds = now() - began
        seconds_left = round(left * seconds / self._count) if self._count and seconds > 0 else None
        return Progress(self._note.sent, self._note.total, seconds_left, obstacle)
