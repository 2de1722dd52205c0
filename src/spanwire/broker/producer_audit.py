"""What producers have sent already, so that a message whose answer was lost and that is sent again stays one message.

A failover client that loses its connection sends again, under the same ids, whatever was not answered. For each
producer the audit knows which of its sequences are in the store or on their way there. A send that a client repeats
after a reconnect is compared with that: what is known is answered once it is safe, and goes no further.

*Never too much.* Sequences are noted when the store takes a message, never before; a send that was refused, parked or
not persistent is not known and passes when it comes again. What lies below a window passes as well.

*Bounded.* As many producers as `MAX_PRODUCERS` and as many sequences of each as `DEFAULT_DEPTH`; beyond that the
producer that was quiet for longest is forgotten, and a repetition of its sends would pass.

*Kept.* The store writes a snapshot at the beginning of each of its segments, without what is not written by then; with
the messages and cancellations of the segment it tells all. Committed transactions are facts of their commit's unit.

Keys of the snapshot, one letter and a name in UTF-8: ``P`` and the producer id, ``T`` and the connection id of local
transactions, ``L`` and the names of a link (the remote broker's id, a line feed, the destination). For the values see
``sequence_window.py``.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.facts import MAX_KEY_BYTES, PRODUCER_AUDIT, Fact
from spanwire.broker.sequence_window import DEFAULT_DEPTH, MAX_DEPTH, SequenceWindow, decoded_window
from spanwire.model.destination import Destination
from spanwire.model.ids import MessageId, ProducerId, TransactionId
from spanwire.model.message import Message

MAX_PRODUCERS: Final = 1024  # ActiveMQ's maxFailoverProducersToTrack is 64, which one busy client exceeds
MAX_TRACKED: Final = 65_536  # the most that a configuration may ask for: 20 MiB of windows

PRODUCER: Final = "P"
TRANSACTIONS: Final = "T"
LINK: Final = "L"

logger = logging.getLogger(__name__)

_NOBODY: Final = ProducerId("", 0, 0)


class AuditedProducer:
    """One producer's window. ``producer_id`` is no longer its own once the audit has forgotten it."""

    __slots__ = ("placed", "producer_id", "window")

    def __init__(self, producer_id: ProducerId, window: SequenceWindow) -> None:
        self.window: Final[SequenceWindow] = window
        self.producer_id = producer_id
        self.placed = window.highest  # where it stood when it was last put at the young end


class ProducerAudit:
    """The windows of all producers, of committed transactions and of what came over links from other brokers.

    Leaves to its callers who is to be judged. ``duplicates`` counts what was recognised.
    """

    def __init__(self, depth: int = DEFAULT_DEPTH, max_producers: int = MAX_PRODUCERS) -> None:
        self._depth: Final[int] = max(1, min(depth, MAX_DEPTH))
        self._max: Final[int] = max(1, min(max_producers, MAX_TRACKED))
        self._producers: Final[dict[ProducerId, AuditedProducer]] = {}
        self._transactions: Final[dict[str, SequenceWindow]] = {}
        self._links: Final[dict[str, SequenceWindow]] = {}
        self._kept: set[bytes] = set()  # keys of the last snapshot
        self.duplicates = 0

    # -- producers -----------------------------------------------------------------------------------------------------

    def stored(self, known: AuditedProducer | None, message_id: MessageId) -> AuditedProducer:
        """The store took a message. ``known`` is what the last call for the same connection gave."""
        producer_id = message_id.producer_id
        if known is None or known.producer_id is not producer_id:
            found = self._producers.get(producer_id)
            if found is None:
                found = AuditedProducer(producer_id, SequenceWindow(message_id.sequence, self._depth))
                self._place(found)
                return found
            found.producer_id = producer_id  # equal, and next time the same object
            known = found
        known.window.add(message_id.sequence)
        return known

    def is_stored(self, message_id: MessageId) -> bool:
        """Whether the store has this message, or had it."""
        found = self._producers.get(message_id.producer_id)
        return found is not None and found.window.holds(message_id.sequence)

    def is_repeated(self, message_id: MessageId) -> bool:
        """`is_stored` for a message that somebody may have sent before, counted and logged."""
        if not self.is_stored(message_id):
            return False
        self.duplicates += 1
        logger.debug("message %s was sent again; it is answered and not taken", message_id)
        return True

    def _place(self, audited: AuditedProducer) -> None:
        """Make room among the producers: the oldest goes, but one that has sent since gets another round."""
        producers = self._producers
        while len(producers) >= self._max:
            key = next(iter(producers))
            oldest = producers.pop(key)
            if oldest.window.highest != oldest.placed:
                oldest.placed = oldest.window.highest
                producers[key] = oldest
            else:
                oldest.producer_id = _NOBODY
        producers[audited.producer_id] = audited

    # -- transactions --------------------------------------------------------------------------------------------------

    def committed(self, transaction_id: TransactionId) -> list[Fact]:
        """A transaction takes effect; gives what the store must keep with it."""
        name = transaction_id.connection_id
        forgotten = _note(self._transactions, name, transaction_id.value, self._depth, self._max)
        facts: list[Fact] = []
        key = _key(TRANSACTIONS, name)
        if len(key) <= MAX_KEY_BYTES:
            facts.append(Fact(PRODUCER_AUDIT, key, self._transactions[name].encoded(set())))
        for old in forgotten:
            facts.append(Fact(PRODUCER_AUDIT, _key(TRANSACTIONS, old), None))
        return facts

    def was_committed(self, transaction_id: TransactionId) -> bool:
        """Whether this transaction took effect before."""
        window = self._transactions.get(transaction_id.connection_id)
        return window is not None and window.holds(transaction_id.value)

    def withdrawn(self, transaction_id: TransactionId) -> None:
        """It did not take effect after all: the store refused it."""
        window = self._transactions.get(transaction_id.connection_id)
        if window is not None:
            window.remove(transaction_id.value)

    # -- links ---------------------------------------------------------------------------------------------------------

    def came_over_link(self, remote: str, destination: Destination, number: int) -> None:
        """The store took what was number ``number`` of ``destination`` at the broker ``remote``."""
        _note(self._links, _link(remote, destination), number, self._depth, self._max)

    def has_come_over_link(self, remote: str, destination: Destination, number: int) -> bool:
        """Whether the store took it before."""
        window = self._links.get(_link(remote, destination))
        return window is not None and window.holds(number)

    # -- the store's side ----------------------------------------------------------------------------------------------

    def snapshot(self, unwritten: list[MessageId]) -> list[Fact]:
        """All that is to be kept of producers now, and what is not any more, but for the messages that are not written
        yet. Transactions are kept by their commits.
        """
        missing: dict[ProducerId, set[int]] = {}
        for message_id in unwritten:
            missing.setdefault(message_id.producer_id, set()).add(message_id.sequence)
        nothing: set[int] = set()
        facts: list[Fact] = []
        kept: set[bytes] = set()
        for producer_id, audited in self._producers.items():
            key = _key(PRODUCER, str(producer_id))
            value = audited.window.encoded(missing.get(producer_id, nothing))
            if value and len(key) <= MAX_KEY_BYTES:
                facts.append(Fact(PRODUCER_AUDIT, key, value))
                kept.add(key)
        for old in self._kept:
            if old not in kept:
                facts.append(Fact(PRODUCER_AUDIT, old, None))
        self._kept = kept
        return facts

    def restore(self, key: bytes, value: bytes) -> None:
        """Takes a fact of an earlier run; one that cannot be read is left out, which only lets repetitions pass."""
        window = decoded_window(value, self._depth)
        try:
            text = key.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return
        if window is None or len(text) < 2:
            return
        if text[0] == PRODUCER:
            self._kept.add(key)
            producer_id = parsed_producer_id(text[1:])
            if producer_id is not None:
                self._place(AuditedProducer(producer_id, window))
        elif text[0] == TRANSACTIONS and len(self._transactions) < self._max:
            self._transactions[text[1:]] = window

    def recovered(self, message: Message) -> None:
        """A message that was written after the snapshot. Those of other brokers say nothing about producers here."""
        if not message.broker_path:
            self.stored(None, message.message_id)

    def recovered_cancellation(self, producer: str, sequence: int) -> None:
        """A message that was not needed any more when it was to be written."""
        producer_id = parsed_producer_id(producer)
        if producer_id is not None:
            self.stored(None, MessageId(producer_id, sequence))


def parsed_producer_id(text: str) -> ProducerId | None:
    """The id that has this string form; None if none has."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not _is_number(parts[1]) or not _is_number(parts[2]):
        return None
    return ProducerId(parts[0], int(parts[1]), int(parts[2]))


def _note(table: dict[str, SequenceWindow], name: str, sequence: int, depth: int, limit: int) -> list[str]:
    """Notes ``sequence`` in the window of ``name``, which is the youngest now; gives the names that had to go."""
    window = table.pop(name, None)
    if window is None:
        window = SequenceWindow(sequence, depth)
    else:
        window.add(sequence)
    forgotten: list[str] = []
    while len(table) >= limit:
        oldest = next(iter(table))
        del table[oldest]
        forgotten.append(oldest)
    table[name] = window
    return forgotten


def _key(kind: str, name: str) -> bytes:
    return (kind + name).encode("utf-8", "surrogatepass")


def _link(remote: str, destination: Destination) -> str:
    return f"{remote}\n{destination.qualified_name}"


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= 19
