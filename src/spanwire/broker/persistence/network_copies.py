"""Copies of one topic message that reach a broker over several routes of a network: the first is taken, others are not.

In a network with loops a broker forwards a topic's message to each neighbour that has consumers or leads to some, so
the message comes to a broker over every route. All copies have one message id. `NetworkCopies` knows which ids were
taken from links for each topic and producer, and with how many hops:

    NEW      no copy was taken: consumers and bridges get it
    NEARER   copies were taken, with more hops each: only bridges get it, because it may go to brokers that are out of
             reach of the others by the TTL
    COPY     a copy with as many hops or fewer was taken: nobody gets it

A message that a client sends again has another id, and one that another broker's store sends again over the link after
a break is recognised here as well as by its number (`spanwire.broker.persistence.producer_audit`).

*Never too much.* An id is noted when its message is taken; one that was refused or waits for room is not known. What is
below a window, or was forgotten, is taken as new.

*Bounded* by `MAX_SOURCES` and `COPY_DEPTH`. *Kept* by the store beside the windows of producers; a message of the store
says after a restart that it was taken.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.persistence.sequence_window import SequenceWindow, decoded_window
from spanwire.model.destination import Destination
from spanwire.model.ids import ProducerId, parsed_producer_id
from spanwire.model.message import Message

MAX_SOURCES: Final = 4_096  # topics of each producer: those of some thousand short connections; 2 MiB without gaps
COPY_DEPTH: Final = 8_192  # sequences of one producer by which a slower route may be late; 1 KiB of bits after a gap
MAX_HOPS: Final = 8  # routes with more count as equally long, so that no source has more windows

NEW: Final = 0
NEARER: Final = 1
COPY: Final = 2

_NOBODY: Final = ProducerId("", 0, 0)
_NOWHERE: Final = Destination(0, "")


class CopySource:
    """What was taken of one producer's messages to one topic: a window for each number of hops."""

    __slots__ = ("windows",)

    def __init__(self) -> None:
        self.windows: Final[dict[int, SequenceWindow]] = {}  # `MAX_HOPS` at most

    def fewest_hops(self, sequence: int) -> int:
        """The fewest hops with which this message came; 0 if it did not."""
        fewest = 0
        for hops, window in self.windows.items():
            if (fewest == 0 or hops < fewest) and window.holds(sequence):
                fewest = hops
        return fewest

    def note(self, sequence: int, hops: int) -> None:
        """The message came with so many hops."""
        window = self.windows.get(hops)
        if window is None:
            self.windows[hops] = SequenceWindow(sequence, COPY_DEPTH)
        else:
            window.add(sequence)


class NetworkCopies:
    """The topic messages that one broker has taken from links. ``dropped`` counts the copies that were not taken.

    Leaves to its callers which messages are judged and who gets one that is `NEARER`.
    """

    def __init__(self, most: int = MAX_SOURCES) -> None:
        self.dropped = 0
        self._most: Final[int] = most
        self._sources: Final[dict[tuple[ProducerId, str], CopySource]] = {}
        self._last: CopySource | None = None  # of the last message, because the next is most often of the same source
        self._producer_id: ProducerId = _NOBODY
        self._topic: Destination = _NOWHERE

    def judge(self, message: Message) -> int:
        """Return `NEW`, `NEARER` or `COPY`, and count copies."""
        source = self._find(message)
        if source is None:
            return NEW
        fewest = source.fewest_hops(message.message_id.sequence)
        if fewest == 0:
            return NEW
        if hops_of(message) < fewest:
            return NEARER
        self.dropped += 1
        return COPY

    def note(self, message: Message) -> None:
        """``message`` was taken."""
        source = self._find(message)
        if source is None:
            source = self._enter(message.message_id.producer_id, message.destination.qualified_name)
            self._last = source
        source.note(message.message_id.sequence, hops_of(message))

    def _find(self, message: Message) -> CopySource | None:
        producer_id, topic = message.message_id.producer_id, message.destination
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
        """All that is to be kept: names and values, the source that was quiet for longest first."""
        found: list[tuple[str, bytes]] = []
        for (producer_id, topic), source in self._sources.items():
            for hops, window in source.windows.items():
                value = window.encoded()
                if value:
                    found.append((f"{hops}:{len(topic)}:{topic}{producer_id}", value))
        return found

    def restore(self, name: str, value: bytes) -> None:
        """Take back one of `entries`; one that cannot be read is left out, which only lets copies pass."""
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
    """Return how many brokers ``message`` came through, `MAX_HOPS` for more."""
    return min(max(len(message.broker_path), 1), MAX_HOPS)


def is_small(text: str) -> bool:
    """Return True for a count in decimal digits."""
    return text.isascii() and text.isdecimal() and len(text) <= 5
