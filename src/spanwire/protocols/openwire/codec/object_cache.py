"""The object cache: a slot number replaces an id or destination that was sent before.

Each direction of a connection has its own cache, a ring of slots. The writer assigns the numbers, and the reader
follows. The writer assigns in the order of Apache ActiveMQ's OpenWireFormat, eviction sweep included.
"""

from __future__ import annotations

from typing import Final

from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.schema import DataStructure, FieldReader

DEFAULT_CACHE_SIZE: Final = 16383  # slots if CacheEnabled comes without a size; half of Java's largest short
MIN_CACHE_SIZE: Final = 101  # slots; with fewer slots a Java peer's eviction sweep never ends
EVICTION_MARGIN: Final = 100  # slots that the writer keeps free
MAX_CACHED_OCTETS: Final = 16 * 1024 * 1024  # octets; room for 16,383 destinations with names of 1 KiB
NO_SLOT: Final = -1  # announces an object that the reader must not cache

MIN_CACHEABLE_TYPE: Final = 100  # destinations and ids, the only types whose fields are cached
MAX_CACHEABLE_TYPE: Final = 124


class ReaderCache:
    """The slots that the peer fills."""

    def __init__(self, size: int) -> None:
        self._size: Final[int] = size
        self._slots: Final[dict[int, DataStructure | None]] = {}
        self._octets: Final[dict[int, int]] = {}
        self._total_octets = 0

    def check_slot(self, slot: int) -> None:
        """Refuse a slot number that a new object cannot have."""
        if slot < NO_SLOT or slot >= self._size:
            raise OpenWireProtocolError(f"slot {slot} is outside the object cache of {self._size}")

    def store(self, slot: int, value: DataStructure | None, octets: int) -> None:
        """Cache ``value``, with ``octets`` octets in the frame, unless the slot is `NO_SLOT`."""
        if slot == NO_SLOT:
            return
        if value is not None and not MIN_CACHEABLE_TYPE <= value.type_id() <= MAX_CACHEABLE_TYPE:
            raise OpenWireProtocolError(f"type {value.type_id()} cannot be in the object cache")
        self._total_octets += octets - self._octets.get(slot, 0)
        if self._total_octets > MAX_CACHED_OCTETS:
            raise OpenWireProtocolError(f"the object cache holds more than {MAX_CACHED_OCTETS} bytes")
        self._slots[slot] = value
        self._octets[slot] = octets

    def load(self, slot: int) -> DataStructure | None:
        """Return the value that the peer put into ``slot``."""
        if slot not in self._slots:
            raise OpenWireProtocolError(f"slot {slot} of the object cache was never filled")
        return self._slots[slot]

    def read(self, reader: FieldReader) -> DataStructure | None:
        """Read a new structure with its slot number, or the slot number of a cached structure."""
        is_new = reader.read_boolean()
        slot = reader.read_short()
        if not is_new:
            return self.load(slot)
        self.check_slot(slot)
        start = reader.position
        value = reader.read_nested()
        self.store(slot, value, reader.position - start)
        return value


class WriterCache:
    """The slots that our side fills; compares values with ``==``, and null has a slot."""

    def __init__(self, size: int) -> None:
        self._size: Final[int] = size
        self._numbers: Final[dict[object, int]] = {}
        self._slots: Final[dict[int, DataStructure | None]] = {}
        self._next = 0
        self._eviction = 0

    def sweep(self) -> None:
        """Evict the oldest entries until `EVICTION_MARGIN` slots are free; called before each frame."""
        while len(self._numbers) > self._size - EVICTION_MARGIN:
            slot = self._eviction
            if slot in self._slots:
                del self._numbers[self._slots.pop(slot)]
            self._eviction = slot + 1 if slot + 1 < self._size else 0

    def find(self, value: DataStructure | None) -> int:
        """Return the slot of ``value``, or `NO_SLOT`."""
        return self._numbers.get(value, NO_SLOT)

    def add(self, value: DataStructure | None) -> int:
        """Assign the next slot to ``value``; return `NO_SLOT` if all slots are in use."""
        slot = self._next
        self._next = slot + 1 if slot + 1 < self._size else 0
        if len(self._numbers) >= self._size:
            return NO_SLOT
        self._numbers[value] = slot
        self._slots[slot] = value
        return slot
