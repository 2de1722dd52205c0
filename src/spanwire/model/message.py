"""A message as the broker carries it: a few parsed routing fields and the bytes in which it arrived.

Layout of the bytes, cut at three offsets into ``raw``::

    0            content_start      properties_start      tail_start
    |    head    |     content      |     properties      |   tail   |

``head`` and ``tail`` hold what may change on the way (destinations, transaction, broker path, user); a hop that changes
them sets `Message.head` or `Message.tail` and shares the rest. ``content`` is the body, opaque for ever; ``properties``
are decoded lazily, once, and only when a selector asks. What each part contains is the business of the format
(``protocols/*/ message_format.py``) that ``format_id`` names.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from spanwire.model.destination import Destination
from spanwire.model.ids import MessageId
from spanwire.model.message_view import PropertyValue
from spanwire.model.routing import NO_PATH

FORMAT_OPENWIRE_1: Final = 1
FORMAT_OPENWIRE_2: Final = 2
FORMAT_OPENWIRE_3: Final = 3  # versions 3 to 9
FORMAT_OPENWIRE_10: Final = 4  # versions 10 to 12
FORMAT_STOMP: Final = 16

MESSAGE_OVERHEAD_BYTES: Final = 640  # objects around one pending message, measured: message, id, reference, deque slots
PROPERTIES_BYTES: Final = 240  # a dictionary of decoded properties, measured
PROPERTY_BYTES: Final = 190  # an entry of it: name, kind and value, measured
DEFAULT_PRIORITY: Final = 4


@mypyc_attr(acyclic=True)
class Message:
    """One message; plain attributes, set once by its format's ``index`` and read everywhere.

    It is part of no cycle, so that the collector need not look through millions of them (``acyclic``).

    ``expiration_ms`` is an absolute wall time or 0 for never; ``size`` is what the message costs in `MemoryUsage`.
    ``format_index`` belongs to the format alone (an offset into ``raw`` it wants to find again). ``holders`` counts the
    subscriptions and queues that keep it in memory; ``converted`` caches one other form. ``broker_path`` are the
    brokers that forwarded it, ``redelivery_count`` how often it was delivered before it came here, ``link_number`` what
    the last of them sent along in the place of the broker's sequence (0: nothing), ``forms_counted`` what its other
    form and its decoded properties count in `MemoryUsage`.
    """

    __slots__ = (
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
        "message_id",
        "persistent",
        "priority",
        "properties_cache",
        "properties_start",
        "raw",
        "redelivery_count",
        "size",
        "tail",
        "tail_start",
        "timestamp_ms",
    )

    def __init__(
        self,
        format_id: int,
        raw: bytes,
        content_start: int,
        properties_start: int,
        tail_start: int,
        destination: Destination,
        message_id: MessageId,
        persistent: bool,
        priority: int,
        expiration_ms: int,
        timestamp_ms: int,
        group_id: str | None = None,
        format_index: int = 0,
    ) -> None:
        self.format_id: Final[int] = format_id
        self.raw: Final[bytes] = raw
        self.content_start: Final[int] = content_start
        self.properties_start: Final[int] = properties_start
        self.tail_start: Final[int] = tail_start
        self.destination: Final[Destination] = destination
        self.message_id: Final[MessageId] = message_id
        self.persistent: Final[bool] = persistent
        self.priority: Final[int] = priority
        self.expiration_ms: Final[int] = expiration_ms
        self.timestamp_ms: Final[int] = timestamp_ms
        self.group_id: Final[str | None] = group_id
        self.format_index: Final[int] = format_index
        self.size: Final[int] = len(raw) + MESSAGE_OVERHEAD_BYTES
        self.head: bytes | None = None
        self.tail: bytes | None = None
        self.broker_path: tuple[str, ...] = NO_PATH
        self.redelivery_count = 0
        self.link_number: i64 = 0
        self.holders = 0
        self.forms_counted = 0
        self.converted: Message | None = None
        self.properties_cache: dict[str, PropertyValue] | None = None

    def encoded(self) -> bytes:
        """The whole message in its own format, with a changed head or tail in place."""
        if self.head is None and self.tail is None:
            return self.raw
        head = self.head if self.head is not None else self.raw[: self.content_start]
        tail = self.tail if self.tail is not None else self.raw[self.tail_start :]
        return head + self.raw[self.content_start : self.tail_start] + tail

    def twin(self) -> Message:
        """The same message for another destination to hold: its bytes are shared, what counts holders is not."""
        copy = Message(
            self.format_id,
            self.raw,
            self.content_start,
            self.properties_start,
            self.tail_start,
            self.destination,
            self.message_id,
            self.persistent,
            self.priority,
            self.expiration_ms,
            self.timestamp_ms,
            self.group_id,
            self.format_index,
        )
        copy.head = self.head
        copy.tail = self.tail
        copy.broker_path = self.broker_path
        copy.redelivery_count = self.redelivery_count
        copy.link_number = self.link_number
        return copy

    def forms_size(self) -> int:
        """Bytes that the other form and the decoded properties take, as far as there are any."""
        size = 0
        if self.converted is not None:
            size += self.converted.size
        if self.properties_cache is not None:
            octets = self.tail_start - self.properties_start
            size += PROPERTIES_BYTES + len(self.properties_cache) * PROPERTY_BYTES + octets
        return size

    def shares_bytes(self, other: Message) -> bool:
        """Whether both are encoded alike, being twins."""
        return self.raw is other.raw and self.head is other.head and self.tail is other.tail

    def is_expired(self, wall_ms: int) -> bool:
        """Whether its time to live is over."""
        return 0 < self.expiration_ms <= wall_ms

    def __repr__(self) -> str:
        return f"Message({self.message_id} to {self.destination}, {len(self.raw)} bytes)"
