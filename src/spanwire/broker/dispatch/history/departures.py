"""The memory of messages that left without an acknowledgement: ids and causes, for ``spanwire why``.

A message that is acknowledged leaves no entry, so the usual path costs nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from mypy_extensions import mypyc_attr

from spanwire.model.destination import Destination
from spanwire.model.ids import ProducerId
from spanwire.model.message import Message

MAX_DEPARTURES: Final = 100_000  # messages remembered; some 12 MB with usual ids, at most 70 MB
MAX_UNHEARD: Final = 20_000  # runs of messages beside these that were sent to topics without a subscriber
MAX_RUNS: Final = 8  # runs that grow at the same time; some nanoseconds each for every such message
MAX_SWEEPS: Final = 1_000  # removals of unread messages remembered, such as purges
MAX_DETAIL: Final = 160  # characters of a cause that are kept; a client may send any number
MAX_TEXT_ID: Final = 200  # characters of an id from another messaging system; a longer one is not remembered

# kinds of departures
EXPIRED: Final = 1  # without a dead letter
DEAD_LETTERED: Final = 2
DISCARDED: Final = 3  # died, and no policy wanted a dead letter
MOVED: Final = 4
REMOVED: Final = 5  # by an operator
SENT_NOWHERE: Final = 6
DUPLICATE: Final = 7
SECOND_COPY: Final = 8  # a copy that came over a second route
PUSHED_OUT: Final = 10  # of a ring, by newer messages
REPLACED: Final = 11  # in a last-value queue, by a newer message of its key
DUPLICATE_ID: Final = 9  # its property _AMQ_DUPL_ID was accepted before

KINDS: Final = {
    EXPIRED: "expired",
    DEAD_LETTERED: "dead-lettered",
    DISCARDED: "discarded",
    MOVED: "moved",
    REMOVED: "removed",
    SENT_NOWHERE: "sent-nowhere",
    DUPLICATE: "duplicate",
    SECOND_COPY: "duplicate",
    DUPLICATE_ID: "duplicate",
    PUSHED_OUT: "pushed-out",
    REPLACED: "replaced",
}


@mypyc_attr(acyclic=True)
class Departure:
    """One message that left: its id as in `Message`, the kind, and the place that it left.

    ``target`` is the destination that has it now, or a copy. ``deliveries`` counts the deliveries before, ``detail``
    is the cause in the words of its origin. ``wall_ms`` is the time in milliseconds since 1970.

    An entry of messages that nobody wanted is a run: up to ``last_sequence`` of the producer, until ``until_ms``.
    """

    __slots__ = (
        "deliveries",
        "destination",
        "detail",
        "kind",
        "last_sequence",
        "producer_id",
        "sequence",
        "target",
        "text_view",
        "until_ms",
        "wall_ms",
    )

    def __init__(
        self,
        message: Message,
        kind: int,
        destination: Destination,
        target: Destination | None,
        deliveries: int,
        detail: str,
        wall_ms: int,
    ) -> None:
        self.producer_id: Final[ProducerId] = message.producer_id
        self.sequence: Final[int] = message.sequence
        self.text_view: Final[str | None] = message.text_view
        self.kind: Final[int] = kind
        self.destination: Final[Destination] = destination
        self.target: Final[Destination | None] = target
        self.deliveries: Final[int] = deliveries
        self.detail: Final[str] = detail
        self.wall_ms: Final[int] = wall_ms
        self.last_sequence = message.sequence
        self.until_ms = wall_ms


class DepartureListener(Protocol):
    """Learns of departures at once; there is one while an operator follows messages."""

    def departed(self, message: Message, kind: int, destination: Destination, target: Destination | None,
                 detail: str) -> None:  # fmt: skip
        """See a message that leaves ``destination``; ``target`` is where it, or a copy, is going."""
        ...

    def swept(self, kind: int, destination: Destination, count: int) -> None:
        """Learn that ``count`` messages leave a destination unread."""
        ...


class Sweep:
    """Messages of one destination that were removed unread, so that nobody knows their ids."""

    def __init__(self, kind: int, destination: Destination, count: int, wall_ms: int) -> None:
        self.kind: Final[int] = kind
        self.destination: Final[Destination] = destination
        self.count = count
        self.wall_ms: Final[int] = wall_ms


class Ring:
    """The latest entries of one kind, ``limit`` at most; the oldest one makes room.

    ``begins_ms`` is the time of the last entry that made room, in milliseconds since 1970; 0 if none has.
    """

    def __init__(self, limit: int) -> None:
        self.limit: Final[int] = limit
        self.entries: Final[list[Departure]] = []
        self.begins_ms = 0
        self._next = 0

    def add(self, entry: Departure) -> None:
        """Add the latest entry."""
        entries = self.entries
        if len(entries) < self.limit:
            entries.append(entry)
            return
        index = self._next
        self.begins_ms = entries[index].wall_ms
        entries[index] = entry
        index += 1
        self._next = 0 if index == self.limit else index

    def latest_first(self, start: int, end: int) -> list[Departure]:
        """Return the entries from ``start`` up to ``end``, counted from the latest one."""
        entries = self.entries
        count = len(entries)
        last = self._next - 1 if count == self.limit else count - 1
        return [entries[(last - offset) % count] for offset in range(start, min(end, count))]


class Departures:
    """Remembers the last departures and sweeps.

    Messages that nobody wanted stand apart: a topic without subscribers may get many, and must not push out the others.
    With a ``limit`` of 0 nothing is noted.
    """

    def __init__(self, limit: int = MAX_DEPARTURES) -> None:
        self.limit: Final[int] = limit
        self.listener: DepartureListener | None = None
        self.losses: Final[Ring] = Ring(limit)
        self.unheard: Final[Ring] = Ring(min(limit, MAX_UNHEARD))
        self.sweeps: Final[deque[Sweep]] = deque(maxlen=MAX_SWEEPS)
        self._runs: Final[list[Departure]] = []  # the latest of the messages that nobody wanted
        self._oldest_run = 0

    def note(
        self,
        message: Message,
        kind: int,
        destination: Destination,
        wall_ms: int,
        target: Destination | None = None,
        deliveries: int = 0,
        detail: str = "",
    ) -> None:
        """Remember that ``message`` has left ``destination``."""
        if self.listener is not None:
            self.listener.departed(message, kind, destination, target, detail)
        self._remember(message, kind, destination, wall_ms, target, deliveries, detail)

    def _remember(
        self,
        message: Message,
        kind: int,
        destination: Destination,
        wall_ms: int,
        target: Destination | None,
        deliveries: int,
        detail: str,
    ) -> None:
        if self.limit == 0:
            return
        text_id = message.text_view
        if text_id is not None and len(text_id) > MAX_TEXT_ID:
            return
        if len(detail) > MAX_DETAIL:
            detail = detail[:MAX_DETAIL]
        ring = self.unheard if kind == SENT_NOWHERE else self.losses
        ring.add(Departure(message, kind, destination, target, deliveries, detail, wall_ms))

    def note_unheard(self, message: Message, topic: Destination, wall_ms: int) -> None:
        """Remember a message to a topic without a subscriber, in one entry for its producer."""
        sequence, producer_id = message.sequence, message.producer_id
        if self.listener is not None:
            self.listener.departed(message, SENT_NOWHERE, topic, None, "")
        for run in self._runs:
            if run.last_sequence + 1 == sequence and run.destination is topic:
                if run.producer_id is producer_id or run.producer_id == producer_id:
                    run.last_sequence = sequence
                    run.until_ms = wall_ms
                    return
        self._remember(message, SENT_NOWHERE, topic, wall_ms, None, 0, "")
        if self.limit == 0 or message.text_view is not None:
            return
        run = self.unheard.latest_first(0, 1)[0]
        if len(self._runs) < MAX_RUNS:
            self._runs.append(run)
        else:
            self._runs[self._oldest_run] = run
            self._oldest_run = (self._oldest_run + 1) % MAX_RUNS

    def note_sweep(self, kind: int, destination: Destination, count: int, wall_ms: int) -> None:
        """Remember that ``count`` messages of ``destination`` were removed unread."""
        if self.listener is not None and count > 0:
            self.listener.swept(kind, destination, count)
        if self.limit == 0 or count == 0:
            return
        last = self.sweeps[-1] if self.sweeps else None
        if last is not None and last.kind == kind and last.destination == destination and last.wall_ms == wall_ms:
            last.count += count
        else:
            self.sweeps.append(Sweep(kind, destination, count, wall_ms))
