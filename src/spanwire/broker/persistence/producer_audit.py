"""Detects repeated sends, so that a message sent again after a lost answer is stored once.

After the loss of a connection, a failover client repeats all unanswered sends with the same ids. For each producer the
audit records the sequences in the store or on the way to the store. A repeated send of a known sequence is answered
once the original is safe, and has no other effect.

*Never too much.* A sequence is recorded when the store takes the message, never before. A refused, blocked or
non-persistent send is unknown and passes on repetition. Sequences below a window pass as well.

*Bounded.* At most `MAX_PRODUCERS` producers and `DEFAULT_DEPTH` sequences of each. Beyond the limit the producer
without recent sends is forgotten, and repetitions of sends of the producer would pass.

*Durable.* The store copies the audit into the journal from time to time (`ProducerAudit.audit_metadata`). The newest
copy, with the messages and cancellations after the copy, restores the audit. A committed transaction is a metadata
record in the unit of the commit.

*Links.* A broker that forwards a message out of a store adds a number, unique among the messages of all stores
(`ProducerAudit.number_of`). After a break of the link unanswered messages are forwarded again, flagged as redelivered.
If this broker took a message with an equal number from a link before, the message is a repetition. A message without
the flag is never a repetition. A message that returns from another store has another number there. So a message that
was only once in the sender's store is never dropped. Other brokers send no numbers. If the connector allows
(``auditNetworkProducers``), messages of such brokers are compared by sender, queue and message id. The comparison is
correct as long as no queue of the sender holds two messages with one id.

Keys of the metadata records, one letter and a name in UTF-8: ``P`` and the producer id, ``T`` and the connection id of
local transactions, ``L`` and the upper bits of a link's numbers in hexadecimal, or the ids of a broker and a producer
with the queue between the two. For the values see ``sequence_window.py``. ``C`` and a name of `NetworkCopies` for topic
messages from links. ``D`` and a name of `DuplicateIds`. ``I`` alone: random octets, to distinguish the store's numbers
from the numbers of other stores.
"""

from __future__ import annotations

import logging
from hashlib import blake2b
from typing import Final

from mypy_extensions import i64

from spanwire.broker.metadata import MAX_KEY_BYTES, PRODUCER_AUDIT, MetadataRecord
from spanwire.broker.persistence.duplicate_ids import DuplicateIds
from spanwire.broker.persistence.network_copies import NetworkCopies
from spanwire.broker.persistence.sequence_window import DEFAULT_DEPTH, MAX_DEPTH, SequenceWindow, decoded_window
from spanwire.broker.ports import AuditSource
from spanwire.model.destination import Destination
from spanwire.model.ids import MessageId, ProducerId, TransactionId, parsed_producer_id
from spanwire.model.message import Message

MAX_PRODUCERS: Final = 1024  # producers; one busy client exceeds the 64 of ActiveMQ's maxFailoverProducersToTrack
MAX_TRACKED: Final = 65_536  # producers; the maximum of the configuration, 20 MiB of windows

PRODUCER: Final = "P"
TRANSACTIONS: Final = "T"
LINK: Final = "L"
COPIES: Final = "C"
DUPLICATE_IDS: Final = "D"
IDENTITY: Final = "I"
IDENTITY_SIZE: Final = 8  # octets

LOW_BITS: Final = 16  # bits of a number; the low bits of the sequence
LOW: Final = (1 << LOW_BITS) - 1
HASH_SIZE: Final = 6  # octets of a number above the low bits
SIGN: Final = 1 << 63  # set in every number; other brokers leave the field empty or count up from 0

logger = logging.getLogger(__name__)

_NOBODY: Final = ProducerId("", 0, 0)


class AuditedProducer:
    """The window of one producer. ``producer_id`` is reset once the audit has forgotten the producer."""

    __slots__ = ("placed", "producer_id", "window")

    def __init__(self, producer_id: ProducerId, window: SequenceWindow) -> None:
        self.window: Final[SequenceWindow] = window
        self.producer_id = producer_id
        self.placed = window.highest  # highest sequence when last moved to the young end


class ProducerAudit(AuditSource):
    """The windows of all producers, of committed transactions and of messages received over links.

    Callers decide about the messages to check. ``duplicates`` counts recognised repetitions. ``identity`` are random
    octets for a new store. A used store has a recorded identity, and a broker without a store needs no identity.
    """

    def __init__(self, depth: int = DEFAULT_DEPTH, max_producers: int = MAX_PRODUCERS, identity: bytes = b"") -> None:
        self._identity = identity
        self._depth: Final[int] = max(1, min(depth, MAX_DEPTH))
        self._max: Final[int] = max(1, min(max_producers, MAX_TRACKED))
        self._producers: Final[dict[ProducerId, AuditedProducer]] = {}
        self._transactions: Final[dict[str, SequenceWindow]] = {}
        self._links: Final[dict[str, SequenceWindow]] = {}
        self._numbered: Destination | None = None  # destination of the last `number_of`
        self._epoch = -1
        self._upper: i64 = 0
        self._noted: SequenceWindow | None = None  # window of the last number received over a link
        self._noted_upper: i64 = 0
        self.copies: Final[NetworkCopies] = NetworkCopies()
        self.ids: Final[DuplicateIds] = DuplicateIds()
        self.duplicates = 0

    def stored(self, known: AuditedProducer | None, producer_id: ProducerId, sequence: int) -> AuditedProducer:
        """Record that the store took a message.

        ``known`` is the result of the previous call for the same connection.
        """
        if known is None or known.producer_id is not producer_id:
            producer = self._producers.get(producer_id)
            if producer is None:
                producer = AuditedProducer(producer_id, SequenceWindow(sequence, self._depth))
                self._insert(producer)
                return producer
            producer.producer_id = producer_id  # equal ids; next time the identical object
            known = producer
        known.window.add(sequence)
        return known

    def stored_run(self, known: AuditedProducer | None, first: MessageId, count: int) -> AuditedProducer:
        """Record ``count`` consecutive messages of one producer, as `stored` does."""
        known = self.stored(known, first.producer_id, first.sequence)
        if count > 1:
            known.window.add_run(first.sequence + 1, first.sequence + count - 1)
        return known

    def is_stored(self, message_id: MessageId) -> bool:
        """Return True if the store has or had the message."""
        producer = self._producers.get(message_id.producer_id)
        return producer is not None and producer.window.holds(message_id.sequence)

    def is_repeated(self, message_id: MessageId) -> bool:
        """Return True for a repeated message like `is_stored`. Repetitions are counted and logged."""
        if not self.is_stored(message_id):
            return False
        self._count(message_id)
        return True

    def _insert(self, audited: AuditedProducer) -> None:
        """Add a producer and make room.

        The oldest producer is forgotten. An oldest producer with new sends is moved to the end instead.
        """
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

    def note_commit(self, transaction_id: TransactionId) -> list[MetadataRecord]:
        """Record the commit of a transaction and return the metadata records to store with the commit."""
        name = transaction_id.connection_id
        forgotten = _note(self._transactions, name, transaction_id.value, self._depth, self._max)
        metadata: list[MetadataRecord] = []
        key = _key(TRANSACTIONS, name)
        if len(key) <= MAX_KEY_BYTES:
            metadata.append(MetadataRecord(PRODUCER_AUDIT, key, self._transactions[name].encoded()))
        for old in forgotten:
            metadata.append(MetadataRecord(PRODUCER_AUDIT, _key(TRANSACTIONS, old), None))
        return metadata

    def was_committed(self, transaction_id: TransactionId) -> bool:
        """Return True if the transaction was committed before."""
        window = self._transactions.get(transaction_id.connection_id)
        return window is not None and window.holds(transaction_id.value)

    def withdrawn(self, transaction_id: TransactionId) -> None:
        """Remove the record of a commit after a refusal of the store."""
        window = self._transactions.get(transaction_id.connection_id)
        if window is not None:
            window.remove(transaction_id.value)

    def number_of(self, destination: Destination, sequence: int) -> i64:
        """Return the number of a stored message for the next broker, or 0 for a message not in the store.

        The low bits are the low bits of the sequence. The other bits identify the store, the destination and the rest
        of the sequence. As a signed number the result is negative.
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
        """Record that the store took a message forwarded by another broker."""
        if is_numbered(message):
            self._note_number(message.link_number)
        elif is_first_visit(message.broker_path):
            self._noted = None
            _note(self._links, _maker(message), message.sequence, self._depth, self._max)

    def is_repeated_over_link(self, message: Message, by_makers: bool) -> bool:
        """Return True if another broker forwards a message again. Repetitions are counted and logged.

        ``by_makers`` identifies messages without a number by their ids.
        """
        if message.redelivery_count == 0:
            return False
        if is_numbered(message):
            window = self._links.get(_link(message.link_number))
            is_repeated = window is not None and window.holds(message.link_number & LOW)
        elif by_makers and is_first_visit(message.broker_path):
            window = self._links.get(_maker(message))
            is_repeated = window is not None and window.holds(message.sequence)
        else:
            return False
        if is_repeated:
            self._count(message.message_id)
        return is_repeated

    def audit_metadata(self) -> list[MetadataRecord]:
        """Return all metadata records for the store."""
        metadata: list[MetadataRecord] = []
        if self._identity:
            metadata.append(MetadataRecord(PRODUCER_AUDIT, IDENTITY.encode(), self._identity))
        for producer_id, audited in self._producers.items():
            _add_metadata(metadata, PRODUCER, str(producer_id), audited.window)
        for name, window in self._transactions.items():
            _add_metadata(metadata, TRANSACTIONS, name, window)
        for name, window in self._links.items():
            _add_metadata(metadata, LINK, name, window)
        for name, value in self.copies.entries():
            key = _key(COPIES, name)
            if len(key) <= MAX_KEY_BYTES:
                metadata.append(MetadataRecord(PRODUCER_AUDIT, key, value))
        for name, value in self.ids.entries():
            metadata.append(MetadataRecord(PRODUCER_AUDIT, _key(DUPLICATE_IDS, name), value))
        return metadata

    def restore(self, key: bytes, value: bytes) -> None:
        """Restore a metadata record of an earlier run.

        An unreadable record is ignored, so repetitions may be accepted.
        """
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
        if kind == DUPLICATE_IDS:
            self.ids.restore(value)
            return
        window = decoded_window(value, self._depth)
        if window is None:
            return
        if kind == PRODUCER:
            producer_id = parsed_producer_id(name)
            if producer_id is not None:
                self._insert(AuditedProducer(producer_id, window))
        elif kind == TRANSACTIONS and len(self._transactions) < self._max:
            self._transactions[name] = window
        elif kind == LINK and len(self._links) < self._max:
            self._noted = None
            self._links[name] = window

    def on_recovered(self, message: Message) -> None:
        """Record a message written after the newest copy.

        A forwarded message does not count as a send of the producer to this broker. After a failover the producer may
        repeat here a send that only another broker took completely.
        """
        if message.broker_path:
            self.came_over_link(message)
            if not message.destination.is_queue:
                self.copies.note(message)
        else:
            self.stored(None, message.producer_id, message.sequence)

    def recovered_cancellation(self, producer: str, sequence: int) -> None:
        """Record a message removed before the store wrote the message.

        For a message from a link ``producer`` is empty and ``sequence`` is the link number.
        """
        if not producer and sequence < 0:
            self._note_number(sequence)
            return
        producer_id = parsed_producer_id(producer)
        if producer_id is not None:
            self.stored(None, producer_id, sequence)

    def _note_number(self, number: i64) -> None:
        upper: i64 = number >> LOW_BITS
        low: int = number & LOW
        noted = self._noted
        if noted is not None and upper == self._noted_upper:  # already the youngest window
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
    """Return True if the forwarding broker gave ``message`` a unique number (`number_of`)."""
    return message.link_number < 0


def is_first_visit(broker_path: tuple[str, ...]) -> bool:
    """Return True if the message has visited the forwarding broker only once."""
    return len(broker_path) > 0 and broker_path.count(broker_path[-1]) == 1


def _note(table: dict[str, SequenceWindow], name: str, sequence: int, depth: int, limit: int) -> list[str]:
    """Mark ``sequence`` as seen in the window of ``name`` and make the window the youngest.

    Returns:
        The names of forgotten windows.
    """
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


def _add_metadata(metadata: list[MetadataRecord], kind: str, name: str, window: SequenceWindow) -> None:
    key = _key(kind, name)
    value = window.encoded()
    if value and len(key) <= MAX_KEY_BYTES:  # a longer name is known only until the broker stops
        metadata.append(MetadataRecord(PRODUCER_AUDIT, key, value))


def _key(kind: str, name: str) -> bytes:
    return (kind + name).encode("utf-8", "surrogatepass")


def _link(number: int) -> str:
    return f"{number >> LOW_BITS & (SIGN >> LOW_BITS - 1) - 1:x}"


def _maker(message: Message) -> str:
    return f"{message.broker_path[-1]} {message.destination.qualified_name} {message.producer_id}"
