"""Takes the first copy of a topic message from a network, and ignores copies over other routes.

In a network with loops a broker forwards a topic's message to each neighbour with consumers or a way to consumers, so
the message reaches a broker over every route. All copies have the same message id. For each topic and producer,
`NetworkCopies` records the ids taken from links, with the number of hops:

    NEW      no copy was taken: consumers and bridges get the message
    NEARER   copies were taken, with more hops each: only bridges get the message, because the TTL may
             have kept the earlier copies from distant brokers
    COPY     a copy with as many hops or fewer was taken: the message is ignored

A message sent again by a client has another id. A message forwarded again after a break of the link is recognised here
by the id, and in `spanwire.broker.persistence.producer_audit` by the link number.

*Never too much.* An id is recorded when the message is taken. Refused and blocked messages are not recorded. Sequences
below a window, or forgotten, count as new.

*Bounded* by `MAX_SOURCES` and `COPY_DEPTH`. *Durable*: the store keeps the windows beside the windows of producers.
After a restart each stored message is recorded again.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.persistence.sequence_window import SequenceWindow, decoded_window
from spanwire.model.destination import Destination
from spanwire.model.ids import ProducerId, parsed_producer_id
from spanwire.model.message import Message

MAX_SOURCES: Final = 4_096  # pairs of topic and producer; some thousand short connections; 2 MiB without gaps
COPY_DEPTH: Final = 8_192  # sequences of one producer; the delay of a slower route; 1 KiB of bits after a gap
MAX_HOPS: Final = 8  # hops; longer routes count as equal, which limits the windows of a source

NEW: Final = 0
NEARER: Final = 1
COPY: Final = 2

_NOBODY: Final = ProducerId("", 0, 0)
_NOWHERE: Final = Destination(0, "")


class CopySource:
    """Messages taken from one producer for one topic: a window for each number of hops."""

    __slots__ = ("windows",)

    def __init__(self) -> None:
        self.windows: Final[dict[int, SequenceWindow]] = {}  # `MAX_HOPS` at most

    def fewest_hops(self, sequence: int) -> int:
        """Return the smallest number of hops of a message so far, or 0 for an unknown message."""
        fewest = 0
        for hops, window in self.windows.items():
            if (fewest == 0 or hops < fewest) and window.holds(sequence):
                fewest = hops
        return fewest

    def note(self, sequence: int, hops: int) -> None:
        """Record the message with the number of hops."""
        window = self.windows.get(hops)
        if window is None:
            self.windows[hops] = SequenceWindow(sequence, COPY_DEPTH)
        else:
            window.add(sequence)


class NetworkCopies:
    """The topic messages from links to one broker. ``dropped`` counts ignored copies.

    Callers decide about the messages to judge, and about the receivers of a `NEARER` message.
    """

    def __init__(self, most: int = MAX_SOURCES) -> None:
        self.dropped = 0
        self._most: Final[int] = most
        self._sources: Final[dict[tuple[ProducerId, str], CopySource]] = {}
        self._last: CopySource | None = None  # of the last message; the next message usually has the same source
        self._producer_id: ProducerId = _NOBODY
        self._topic: Destination = _NOWHERE

    def judge(self, message: Message) -> int:
        """Return `NEW`, `NEARER` or `COPY`, and count copies."""
        source = self._find(message)
        if source is None:
            return NEW
        fewest = source.fewest_hops(message.sequence)
        if fewest == 0:
            return NEW
        if hops_of(message) < fewest:
            return NEARER
        self.dropped += 1
        return COPY

    def note(self, message: Message) -> None:
        """Record ``message`` as taken."""
        source = self._find(message)
        if source is None:
            source = self._enter(message.producer_id, message.destination.qualified_name)
            self._last = source
        source.note(message.sequence, hops_of(message))

    def _find(self, message: Message) -> CopySource | None:
        producer_id, topic = message.producer_id, message.destination
        if producer_id is self._producer_id and topic is self._topic:
            return self._last
        key = (producer_id, topic.qualified_name)
        source = self._sources.get(key)
        if source is not None:
            del self._sources[key]
            self._sources[key] = source  # the youngest now
        self._last = source
        self._producer_id = producer_id
        self._topic = topic
        return source

    def _enter(self, producer_id: ProducerId, topic: str) -> CopySource:
        while len(self._sources) >= self._most:
            del self._sources[next(iter(self._sources))]
        source = CopySource()
        self._sources[(producer_id, topic)] = source
        return source

    def entries(self) -> list[tuple[str, bytes]]:
        """Return names and values for the store, the least recently active source first."""
        entries: list[tuple[str, bytes]] = []
        for (producer_id, topic), source in self._sources.items():
            for hops, window in source.windows.items():
                value = window.encoded()
                if value:
                    entries.append((f"{hops}:{len(topic)}:{topic}{producer_id}", value))
        return entries

    def restore(self, name: str, value: bytes) -> None:
        """Restore an entry of `entries`. An unreadable entry is ignored, at the risk of accepted copies."""
        hops, _, rest = name.partition(":")
        size, _, rest = rest.partition(":")
        window = decoded_window(value, COPY_DEPTH)
        if window is None or not (is_small(hops) and is_small(size)):
            return
        producer_id = parsed_producer_id(rest[int(size) :])
        if producer_id is None:
            return
        topic = rest[: int(size)]
        source = self._sources.get((producer_id, topic))
        if source is None:
            source = self._enter(producer_id, topic)
            self._last = None
            self._producer_id = _NOBODY
        source.windows[min(max(int(hops), 1), MAX_HOPS)] = window


def hops_of(message: Message) -> int:
    """Return the number of brokers on the way of ``message``, at most `MAX_HOPS`."""
    return min(max(len(message.broker_path), 1), MAX_HOPS)


def is_small(text: str) -> bool:
    """Return True for a count in decimal digits."""
    return text.isascii() and text.isdecimal() and len(text) <= 5
