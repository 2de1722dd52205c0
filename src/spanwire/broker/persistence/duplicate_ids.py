"""Remembers the duplicate ids (property ``_AMQ_DUPL_ID``) that destinations have accepted.

A producer that gives each message an id of its own may send the message again, over any connection and in any
transaction: the destination takes the first one. Apache ActiveMQ Artemis documents this as "Duplicate Message
Detection".

*Never too much.* An id is recorded when its message is accepted: with the store, or with the commit. A refused or
rolled back send is unknown. A forgotten id is unknown.

*Bounded.* Each destination remembers a window of its latest ids (`DEFAULT_ID_CACHE`, ``idCacheSize`` of a policy), all
destinations together `MAX_IDS` ids of `MAX_ADDRESSES` names. The destination without new ids for the longest time
forgets first.

*Durable.* The id of a persistent message is a metadata record in the unit of the message. The store does not keep these
records (table ACCEPTED_IDS). The copies of the producer audit contain the windows; the newest copy, with the records
behind the copy, restores them.

Only a digest of an id is kept. A record has the digest as its key and the value ``size of the window u16 | name``. The
value of a window in a copy is ``name size u16 | name | digests``, the oldest digest first. Numbers are little-endian.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Final

from spanwire.broker.metadata import ACCEPTED_IDS, MetadataRecord
from spanwire.model.destination import Destination

PROPERTY: Final = "_AMQ_DUPL_ID"  # Artemis' Message.HDR_DUPLICATE_DETECTION_ID
DEFAULT_ID_CACHE: Final = 20_000  # ids of one destination; id-cache-size of Artemis
MAX_ID_CACHE: Final = 60_000  # ids; a window fits a metadata record of 1 MiB
MAX_IDS: Final = 100_000  # ids of all destinations; some 12 MB, and 1.6 MB of each segment of the journal
MAX_ADDRESSES: Final = 4_096  # destinations with ids, some 1 KiB each
DIGEST_SIZE: Final = 16  # octets; two ids with one digest would lose a message

_NAME_SIZE: Final = 2  # octets
_DEPTH_SIZE: Final = 2  # octets


class SendIdentity:
    """The duplicate id of one send, at one name that the producer has sent to.

    ``depth`` is the size of the window there; 0 means that ids are not compared.
    """

    __slots__ = ("address", "depth", "destination", "digest")

    def __init__(self, destination: Destination, digest: bytes, depth: int) -> None:
        self.destination: Final[Destination] = destination
        self.address: Final[str] = destination.qualified_name
        self.digest: Final[bytes] = digest
        self.depth: Final[int] = depth

    def metadata_record(self) -> MetadataRecord:
        """Return the record to store together with the message."""
        name = self.address.encode("utf-8", "surrogatepass")
        return MetadataRecord(ACCEPTED_IDS, self.digest, self.depth.to_bytes(_DEPTH_SIZE, "little") + name)


class IdWindow:
    """The latest digests of one destination, the oldest first."""

    __slots__ = ("known", "order")

    def __init__(self) -> None:
        self.known: Final[set[bytes]] = set()
        self.order: Final[deque[bytes]] = deque()

    def forget_oldest(self) -> None:
        """Remove the oldest digest."""
        self.known.discard(self.order.popleft())


class DuplicateIds:
    """The windows of all destinations, the one without new ids for the longest time first."""

    def __init__(self, most: int = MAX_IDS, most_addresses: int = MAX_ADDRESSES) -> None:
        self._most: Final[int] = most
        self._most_addresses: Final[int] = most_addresses
        self._windows: Final[dict[str, IdWindow]] = {}
        self._youngest: IdWindow | None = None
        self.count = 0

    def holds(self, identity: SendIdentity) -> bool:
        """Return True if the destination has accepted the id."""
        window = self._windows.get(identity.address)
        return window is not None and identity.depth > 0 and identity.digest in window.known

    def note(self, identity: SendIdentity) -> None:
        """Record that the destination has accepted the id."""
        if identity.depth > 0:
            self._add(identity.address, identity.digest, identity.depth)

    def restore_record(self, key: bytes, value: bytes) -> None:
        """Restore a record of `SendIdentity.metadata_record`; an unreadable record is ignored."""
        depth = int.from_bytes(value[:_DEPTH_SIZE], "little")
        address = _text(value[_DEPTH_SIZE:])
        if len(key) == DIGEST_SIZE and address and 0 < depth <= MAX_ID_CACHE:
            self._add(address, key, depth)

    def entries(self) -> list[tuple[str, bytes]]:
        """Return a name and a value of each window for the store."""
        entries: list[tuple[str, bytes]] = []
        for address, window in self._windows.items():
            name = address.encode("utf-8", "surrogatepass")
            value = len(name).to_bytes(_NAME_SIZE, "little") + name + b"".join(window.order)
            entries.append((blake2b(name, digest_size=DIGEST_SIZE).hexdigest(), value))
        return entries

    def restore(self, value: bytes) -> None:
        """Restore a value of `entries`. An unreadable value is ignored, at the risk of accepted duplicates."""
        size = int.from_bytes(value[:_NAME_SIZE], "little")
        start = _NAME_SIZE + size
        address = _text(value[_NAME_SIZE:start])
        if not address or len(value) < start or (len(value) - start) % DIGEST_SIZE != 0:
            return
        for offset in range(start, len(value), DIGEST_SIZE):
            self._add(address, value[offset : offset + DIGEST_SIZE], MAX_ID_CACHE)

    def _add(self, address: str, digest: bytes, depth: int) -> None:
        window = self._windows.get(address)
        if window is None:
            window = IdWindow()
            while len(self._windows) >= self._most_addresses:
                oldest = next(iter(self._windows))
                self.count -= len(self._windows.pop(oldest).order)
            self._windows[address] = window
            self._youngest = window
        elif window is not self._youngest:
            del self._windows[address]
            self._windows[address] = window
            self._youngest = window
        if digest in window.known:
            return
        window.known.add(digest)
        window.order.append(digest)
        self.count += 1
        while len(window.order) > depth:
            window.forget_oldest()
            self.count -= 1
        while self.count > self._most:
            self._forget_one()

    def _forget_one(self) -> None:
        address = next(iter(self._windows))
        window = self._windows[address]
        window.forget_oldest()
        self.count -= 1
        if not window.order:
            del self._windows[address]


def digest_of(duplicate_id: str) -> bytes:
    """Return the digest of an id, for comparison and storage."""
    return blake2b(duplicate_id.encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE).digest()


def _text(value: bytes) -> str:
    """Return a name, empty if ``value`` is no name."""
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return ""
