"""A message in the broker: parsed routing fields and the bytes in which the message arrived.

Layout of the bytes, cut at three offsets into ``raw``::

    0            content_start      properties_start      tail_start
    |    head    |     content      |     properties      |   tail   |

``head`` and ``tail`` hold the fields that may change on the way (destinations, transaction, broker path, user). A hop
that changes a field sets `Message.head` or `Message.tail` and shares the rest. ``content`` is the body and stays
opaque. ``properties`` are decoded at most once, when a selector asks for them. The format of ``format_id``
(``protocols/*/message_format.py``) defines the contents of each part.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from spanwire.model.destination import Destination
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message_view import PropertyValue
from spanwire.model.routing import NO_PATH

FORMAT_OPENWIRE_1: Final = 1
FORMAT_OPENWIRE_2: Final = 2
FORMAT_OPENWIRE_3: Final = 3  # versions 3 to 9
FORMAT_OPENWIRE_10: Final = 4  # versions 10 to 12
FORMAT_STOMP: Final = 16

MESSAGE_OVERHEAD_BYTES: Final = 640  # measured objects of a pending message: message, id, reference, deque slots
PROPERTIES_BYTES: Final = 240  # measured size of an empty dictionary of decoded properties
PROPERTY_BYTES: Final = 190  # measured size of an entry: name, kind and value
DEFAULT_PRIORITY: Final = 4


@mypyc_attr(acyclic=True)
class Message:
    """A message with plain attributes, set once by the ``index`` function of the format.

    Messages are part of no reference cycle, so that the garbage collector skips them (``acyclic``).

    ``expiration_ms`` is an absolute wall time, or 0 for never. ``size`` is the charge in `MemoryUsage`, and
    ``forms_counted`` the charge for ``converted`` and the decoded properties. ``format_index`` is an offset into
    ``raw`` for the format's own use. ``holders`` counts the subscriptions and queues with a reference to the message.
    ``converted`` caches the message in another format.

    ``producer_id``, ``sequence`` and ``text_view`` are the message's id, as in `MessageId`.

    ``broker_path`` lists the brokers that forwarded the message, and ``redelivery_count`` counts earlier deliveries at
    other brokers. ``link_number`` is the number sent by the last broker in the field of the broker sequence (0 if
    absent). ``origin`` is for the ledger (`spanwire.model.ledger`), 0 for a message read from the store.
    """

    __slots__ = (
        "_message_id",
        "broker_path",
        "content_start",
        "converted",
        "destination",
        "expiration_ms",
        "format_id",
        "format_index",
        "forms_counted",
        "group_id",
        "head",
        "holders",
        "link_number",
        "origin",
        "persistent",
        "priority",
        "producer_id",
        "properties_cache",
        "properties_start",
        "raw",
        "redelivery_count",
        "sequence",
        "size",
        "tail",
        "tail_start",
        "text_view",
        "timestamp_ms",
    )

    def __init__(
        self,
        format_id: i64,
        raw: bytes,
        content_start: i64,
        properties_start: i64,
        tail_start: i64,
        destination: Destination,
        producer_id: ProducerId,
        sequence: int,
        persistent: bool,
        priority: int,
        expiration_ms: int,
        timestamp_ms: int,
        group_id: str | None = None,
        format_index: i64 = 0,
        text_view: str | None = None,
    ) -> None:
        self.format_id: Final[i64] = format_id
        self.raw: Final[bytes] = raw
        self.content_start: Final[i64] = content_start
        self.properties_start: Final[i64] = properties_start
        self.tail_start: Final[i64] = tail_start
        self.destination: Final[Destination] = destination
        self.producer_id: Final[ProducerId] = producer_id
        self.sequence: Final[int] = sequence
        self.text_view: Final[str | None] = text_view
        self._message_id: MessageId | None = None
        self.persistent: Final[bool] = persistent
        self.priority: Final[int] = priority
        self.expiration_ms: Final[int] = expiration_ms
        self.timestamp_ms: Final[int] = timestamp_ms
        self.group_id: Final[str | None] = group_id
        self.format_index: Final[i64] = format_index
        self.size: Final[i64] = len(raw) + MESSAGE_OVERHEAD_BYTES
        self.head: bytes | None = None
        self.tail: bytes | None = None
        self.broker_path: tuple[str, ...] = NO_PATH
        self.redelivery_count = 0
        self.link_number: i64 = 0
        self.origin: i64 = 0
        self.holders: i64 = 0
        self.forms_counted: i64 = 0
        self.converted: Message | None = None
        self.properties_cache: dict[str, PropertyValue] | None = None

    @property
    def message_id(self) -> MessageId:
        """The id of the message as one object, made on demand: most messages pass without the object."""
        made = self._message_id
        if made is None:
            made = MessageId(self.producer_id, self.sequence, self.text_view)
            self._message_id = made
        return made

    def has_id(self, message_id: MessageId) -> bool:
        """Return True if ``message_id`` is the id of the message."""
        if self.sequence != message_id.sequence:
            return False
        mine = self.producer_id
        theirs = message_id.producer_id
        return (mine is theirs or mine == theirs) and self.text_view == message_id.text_view

    def encoded(self) -> bytes:
        """Return the whole message in its own format, with changed head and tail."""
        if self.head is None and self.tail is None:
            return self.raw
        head = self.head if self.head is not None else self.raw[: self.content_start]
        tail = self.tail if self.tail is not None else self.raw[self.tail_start :]
        return head + self.raw[self.content_start : self.tail_start] + tail

    def twin(self) -> Message:
        """Return a copy of the message for another destination: bytes are shared, counters start anew."""
        return self.variant(self.destination, self.persistent, self.expiration_ms, self.timestamp_ms, self.format_index)

    def variant(
        self,
        destination: Destination,
        persistent: bool,
        expiration_ms: int,
        timestamp_ms: int,
        format_index: int,
    ) -> Message:
        """Return a copy with other routing fields that shares the bytes, head and tail; counters start anew."""
        copy = Message(
            self.format_id,
            self.raw,
            self.content_start,
            self.properties_start,
            self.tail_start,
            destination,
            self.producer_id,
            self.sequence,
            persistent,
            self.priority,
            expiration_ms,
            timestamp_ms,
            self.group_id,
            format_index,
            self.text_view,
        )
        copy.head = self.head
        copy.tail = self.tail
        copy.broker_path = self.broker_path
        copy.redelivery_count = self.redelivery_count
        copy.link_number = self.link_number
        copy.origin = self.origin
        return copy

    def forms_size(self) -> int:
        """Return the bytes of the converted form and of the decoded properties."""
        size = 0
        if self.converted is not None:
            size += self.converted.size
        if self.properties_cache is not None:
            octets = self.tail_start - self.properties_start
            size += PROPERTIES_BYTES + len(self.properties_cache) * PROPERTY_BYTES + octets
        return size

    def shares_bytes(self, other: Message) -> bool:
        """Return True if both messages have the same bytes, as twins have."""
        return self.raw is other.raw and self.head is other.head and self.tail is other.tail

    def is_expired(self, wall_ms: int) -> bool:
        """Return True if the time to live has passed at ``wall_ms``."""
        return 0 < self.expiration_ms <= wall_ms

    def __repr__(self) -> str:
        return f"Message({self.message_id} to {self.destination}, {len(self.raw)} bytes)"
