"""What producers have sent already, so that a message whose answer was lost and that is sent again stays one message.

A failover client that loses its connection sends again, under the same ids, whatever was not answered. For each
producer the audit knows which of its sequences are in the store or on their way there. A send that a client repeats
after a reconnect is compared with that: what is known is answered once it is safe, and goes no further.

*Never too much.* Sequences are noted when the store takes a message, never before; a send that was refused, parked or
not persistent is not known and passes when it comes again. What lies below a window passes as well.

*Bounded.* As many producers as `MAX_PRODUCERS` and as many sequences of each as `DEFAULT_DEPTH`; beyond that the
producer that was quiet for longest is forgotten, and a repetition of its sends would pass.

*Kept.* The store copies all of it into its journal now and then (`ProducerAudit.audit_facts`); with the messages and
cancellations behind the newest copy that tells all. A committed transaction is a fact of its commit's unit.

*Links.* A broker that forwards a message out of its store sends a number along that no other message of any store has
(`ProducerAudit.number_of`). What was not answered when the link broke is forwarded again, flagged as delivered before;
if this broker took a message of that number from a link, it is a repetition. A message that is not flagged is never
one, nor is one that comes back from another store: it has another number there. So nothing is dropped that was only
once in the store of its sender. Other brokers send no numbers; where the connector says so (``auditNetworkProducers``)
their messages are compared by sender, queue and message id, which is right as long as none of their queues holds two
messages of one id.

Keys of the facts, one letter and a name in UTF-8: ``P`` and the producer id, ``T`` and the connection id of local
transactions, ``L`` and the upper bits of a link's numbers in hexadecimal, or the ids of a broker and a producer with
the queue between them; for the values see ``sequence_window.py``.
``C`` and a name of `NetworkCopies` for topic messages that came over links.
``I`` alone: random octets, by which this store's numbers differ from all others.
"""

from __future__ import annotations

import logging
from hashlib import blake2b
from typing import Final

from mypy_extensions import i64

from spanwire.broker.metadata import MAX_KEY_BYTES, PRODUCER_AUDIT, Fact
from spanwire.broker.persistence.network_copies import NetworkCopies
from spanwire.broker.persistence.sequence_window import DEFAULT_DEPTH, MAX_DEPTH, SequenceWindow, decoded_window
from spanwire.broker.ports import AuditSource
from spanwire.model.destination import Destination
from spanwire.model.ids import MessageId, ProducerId, TransactionId, parsed_producer_id
from spanwire.model.message import Message

MAX_PRODUCERS: Final = 1024  # ActiveMQ's maxFailoverProducersToTrack is 64, which one busy client exceeds
MAX_TRACKED: Final = 65_536  # the most that a configuration may ask for: 20 MiB of windows

PRODUCER: Final = "P"
TRANSACTIONS: Final = "T"
LINK: Final = "L"
COPIES: Final = "C"
IDENTITY: Final = "I"
IDENTITY_SIZE: Final = 8  # octets

LOW_BITS: Final = 16  # of a number: those of the sequence as they are
LOW: Final = (1 << LOW_BITS) - 1
HASH_SIZE: Final = 6  # octets of a number above them
SIGN: Final = 1 << 63  # set in every number: other brokers leave the place empty or count in it

logger = logging.getLogger(__name__)

_NOBODY: Final = ProducerId("", 0, 0)


class AuditedProducer:
    """One producer's window. ``producer_id`` is no longer its own once the audit has forgotten it."""

    __slots__ = ("placed", "producer_id", "window")

    def __init__(self, producer_id: ProducerId, window: SequenceWindow) -> None:
        self.window: Final[SequenceWindow] = window
        self.producer_id = producer_id
        self.placed = window.highest  # where it stood when it was last put at the young end


class ProducerAudit(AuditSource):
    """The windows of all producers, of committed transactions and of what came over links from other brokers.

    Leaves to its callers who is to be judged. ``duplicates`` counts what was recognised. ``identity`` are random octets
    for a new store; one that has been used has its own, and a broker without a store needs none.
    """

    def __init__(self, depth: int = DEFAULT_DEPTH, max_producers: int = MAX_PRODUCERS, identity: bytes = b"") -> None:
        self._identity = identity
        self._depth: Final[int] = max(1, min(depth, MAX_DEPTH))
        self._max: Final[int] = max(1, min(max_producers, MAX_TRACKED))
        self._producers: Final[dict[ProducerId, AuditedProducer]] = {}
        self._transactions: Final[dict[str, SequenceWindow]] = {}
        self._links: Final[dict[str, SequenceWindow]] = {}
        self._numbered: Destination | None = None  # of the last number that was asked for
        self._epoch = -1
        self._upper: i64 = 0
        self._noted: SequenceWindow | None = None  # of the last number that came over a link
        self._noted_upper: i64 = 0
        self.copies: Final[NetworkCopies] = NetworkCopies()
        self.duplicates = 0

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

    def stored_run(self, known: AuditedProducer | None, first: MessageId, count: int) -> AuditedProducer:
        """`stored` for ``count`` messages of one producer that follow one another."""
        known = self.stored(known, first)
        if count > 1:
            known.window.add_run(first.sequence + 1, first.sequence + count - 1)
        return known

    def is_stored(self, message_id: MessageId) -> bool:
        """Whether the store has this message, or had it."""
        found = self._producers.get(message_id.producer_id)
        return found is not None and found.window.holds(message_id.sequence)

    def is_repeated(self, message_id: MessageId) -> bool:
        """`is_stored` for a message that somebody may have sent before, counted and logged."""
        if not self.is_stored(message_id):
            return False
        self._count(message_id)
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

    def committed(self, transaction_id: TransactionId) -> list[Fact]:
        """A transaction takes effect; gives what the store must keep with it."""
        name = transaction_id.connection_id
        forgotten = _note(self._transactions, name, transaction_id.value, self._depth, self._max)
        facts: list[Fact] = []
        key = _key(TRANSACTIONS, name)
        if len(key) <= MAX_KEY_BYTES:
            facts.append(Fact(PRODUCER_AUDIT, key, self._transactions[name].encoded()))
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

    def number_of(self, destination: Destination, sequence: int) -> i64:
        """The number of a message of this broker's store for the next broker; 0 when it is not in the store.

        Its low bits are those of the sequence; the others stand for the store, the destination and the rest of the
        sequence. As a signed number it is below 0.
        """
        if sequence <= 0 or not self._identity:
            return 0
        epoch = sequence >> LOW_BITS
        if destination is not self._numbered or epoch != self._epoch:
            name = destination.qualified_name.encode("utf-8", "surrogatepass")
            digest = blake2b(self._identity + epoch.to_bytes(8, "little") + name, digest_size=HASH_SIZE).digest()
            self._numbered = destination
            self._epoch = epoch
            self._upper = (int.from_bytes(digest, "big") << LOW_BITS & SIGN - 1) - SIGN
        low: i64 = sequence & LOW
        return self._upper | low

    def came_over_link(self, message: Message) -> None:
        """The store took what another broker forwarded."""
        if is_numbered(message):
            self._note_number(message.link_number)
        elif is_first_visit(message.broker_path):
            self._noted = None
            _note(self._links, _maker(message), message.message_id.sequence, self._depth, self._max)

    def is_repeated_over_link(self, message: Message, by_makers: bool) -> bool:
        """Whether another broker forwards what it has forwarded before and the store took; counted and logged.

        ``by_makers``: messages without a number are known by their ids.
        """
        if message.redelivery_count == 0:
            return False
        if is_numbered(message):
            window = self._links.get(_link(message.link_number))
            found = window is not None and window.holds(message.link_number & LOW)
        elif by_makers and is_first_visit(message.broker_path):
            window = self._links.get(_maker(message))
            found = window is not None and window.holds(message.message_id.sequence)
        else:
            return False
        if found:
            self._count(message.message_id)
        return found

    def audit_facts(self) -> list[Fact]:
        """All that is to be kept."""
        facts: list[Fact] = []
        if self._identity:
            facts.append(Fact(PRODUCER_AUDIT, IDENTITY.encode(), self._identity))
        for producer_id, audited in self._producers.items():
            _add_fact(facts, PRODUCER, str(producer_id), audited.window)
        for name, window in self._transactions.items():
            _add_fact(facts, TRANSACTIONS, name, window)
        for name, window in self._links.items():
            _add_fact(facts, LINK, name, window)
        for name, value in self.copies.entries():
            key = _key(COPIES, name)
            if len(key) <= MAX_KEY_BYTES:
                facts.append(Fact(PRODUCER_AUDIT, key, value))
        return facts

    def restore(self, key: bytes, value: bytes) -> None:
        """Takes a fact of an earlier run; one that cannot be read is left out, which only lets repetitions pass."""
        try:
            text = key.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return
        if text == IDENTITY:
            self._identity = value
            self._numbered = None
            return
        kind, name = text[:1], text[1:]
        if kind == COPIES:
            self.copies.restore(name, value)
            return
        window = decoded_window(value, self._depth)
        if window is None:
            return
        if kind == PRODUCER:
            producer_id = parsed_producer_id(name)
            if producer_id is not None:
                self._place(AuditedProducer(producer_id, window))
        elif kind == TRANSACTIONS and len(self._transactions) < self._max:
            self._transactions[name] = window
        elif kind == LINK and len(self._links) < self._max:
            self._noted = None
            self._links[name] = window

    def recovered(self, message: Message) -> None:
        """A message that was written after the newest copy. What other brokers forwarded says nothing about producers:
        they may send to this broker what only another one has taken in full.
        """
        if message.broker_path:
            self.came_over_link(message)
            if not message.destination.is_queue:
                self.copies.note(message)
        else:
            self.stored(None, message.message_id)

    def recovered_cancellation(self, producer: str, sequence: int) -> None:
        """A message that was not needed any more when it was to be written; for one that came over a link ``sequence``
        is its number there and ``producer`` empty.
        """
        if not producer and sequence < 0:
            self._note_number(sequence)
            return
        producer_id = parsed_producer_id(producer)
        if producer_id is not None:
            self.stored(None, MessageId(producer_id, sequence))

    def _note_number(self, number: i64) -> None:
        upper: i64 = number >> LOW_BITS
        low: int = number & LOW
        noted = self._noted
        if noted is not None and upper == self._noted_upper:  # it is the youngest already
            noted.add(low)
            return
        name = _link(number)
        _note(self._links, name, low, self._depth, self._max)
        self._noted = self._links[name]
        self._noted_upper = upper

    def _count(self, message_id: MessageId) -> None:
        self.duplicates += 1
        logger.debug("message %s was sent again; it is answered and not taken", message_id)


def is_numbered(message: Message) -> bool:
    """Whether the broker that forwarded ``message`` gave it a number that no other message has (`number_of`)."""
    return message.link_number < 0


def is_first_visit(broker_path: tuple[str, ...]) -> bool:
    """Whether a message has been at the broker that forwarded it only once."""
    return len(broker_path) > 0 and broker_path.count(broker_path[-1]) == 1


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


def _add_fact(facts: list[Fact], kind: str, name: str, window: SequenceWindow) -> None:
    key = _key(kind, name)
    value = window.encoded()
    if value and len(key) <= MAX_KEY_BYTES:  # a producer with a longer name is only known until the broker stops
        facts.append(Fact(PRODUCER_AUDIT, key, value))


def _key(kind: str, name: str) -> bytes:
    return (kind + name).encode("utf-8", "surrogatepass")


def _link(number: int) -> str:
    return f"{number >> LOW_BITS & (SIGN >> LOW_BITS - 1) - 1:x}"


def _maker(message: Message) -> str:
    return f"{message.broker_path[-1]} {message.destination.qualified_name} {message.message_id.producer_id}"
