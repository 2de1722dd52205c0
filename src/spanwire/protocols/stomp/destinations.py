"""STOMP's names of destinations, and a connection's own names for its temporary destinations.

- ``/queue/NAME``: a queue
- ``/topic/NAME``: a topic
- ``/temp-queue/NAME``: a temporary queue of this connection, created at its first use
- ``/temp-topic/NAME``: a temporary topic of this connection, created at its first use
- ``/remote-temp-queue/NAME``: a temporary queue by its physical name, as in a `reply-to`
- ``/remote-temp-topic/NAME``: a temporary topic by its physical name
- ``NAME``: a queue of this literal name
- ``A,B``: both destinations

Options after ``?`` are dropped. Observed on ActiveMQ.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import (
    MAX_COMPOSITE_PARTS,
    QUEUE,
    SCHEMES,
    TEMP_QUEUE,
    TEMP_TOPIC,
    TOPIC,
    Destination,
    check_name,
)
from spanwire.model.errors import InvalidDestinationError, ResourceAllocationError
from spanwire.model.written_destination import STOMP_FORMS, check_form
from spanwire.protocols.stomp.codec.encoding import encode_headers
from spanwire.protocols.stomp.codec.frames import V1_2

PREFIXES: Final = ("/queue/", "/topic/", "/remote-temp-queue/", "/remote-temp-topic/")  # indexed by kind of destination
OWN_TEMP_QUEUE: Final = "/temp-queue/"
OWN_TEMP_TOPIC: Final = "/temp-topic/"
MAX_TEMPORARY_NAMES: Final = 1_000  # temporary destinations of one connection
MAX_RESOLVED_NAMES: Final = 64  # names kept with their destination; as many as the decoder keeps header blocks


def destination_text(destination: Destination) -> str:
    """Return the name of a destination for all connections; temporary destinations by physical name."""
    if not destination.is_composite:
        return PREFIXES[destination.kind] + destination.name
    return ",".join([PREFIXES[part.kind] + part.name for part in destination.parts()])


def has_prefix(text: str) -> bool:
    """Return True if ``text`` begins like a destination.

    A `reply-to` with such a value is a destination.
    """
    for prefix in PREFIXES:
        if text.startswith(prefix):
            return True
    return text.startswith(OWN_TEMP_QUEUE) or text.startswith(OWN_TEMP_TOPIC)


def read_destination(text: str) -> Destination:
    """Parse a name from `destination_text`; raises `InvalidDestinationError`."""
    return DestinationNames("").resolve(text)


def composite(parts: list[Destination]) -> Destination:
    """Return a composite of several destinations."""
    names: list[str] = []
    kind = parts[0].kind
    for part in parts:
        plain = part.kind == kind and "://" not in part.name
        names.append(part.name if plain else SCHEMES[part.kind] + part.name)
    return Destination(kind, ",".join(names))


def physical(kind: int, name: str) -> Destination:
    """Return a destination by kind and name without options; raises `InvalidDestinationError`."""
    question = name.find("?")
    if question >= 0:
        name = name[:question]
    check_name(name)
    return Destination(kind, name)


class DestinationNames:
    """Maps a connection's names of temporary destinations.

    The connection creates the destinations in the broker.

    ``fresh`` collects newly named temporary destinations until the connection takes them.
    """

    def __init__(self, connection_id: str) -> None:
        self._connection_id: Final[str] = connection_id
        self._by_text: Final[dict[str, Destination]] = {}
        self._by_name: Final[dict[str, str]] = {}
        self._resolved: Final[dict[str, Destination]] = {}
        self._last: Destination | None = None
        self._last_line = b""
        self.fresh: list[Destination] = []

    def resolve(self, text: str) -> Destination:
        """Return the destination with the name ``text``; the same object for the names of the last messages.

        Parsing a name and finding a new object in the tables of the broker takes 5,000 instructions.

        Raises:
            InvalidDestinationError: the name is invalid or has too many parts.
            ResourceAllocationError: the connection has too many temporary destinations.
        """
        destination = self._resolved.get(text)
        if destination is None:
            destination = self._parse(text)
            if len(self._resolved) >= MAX_RESOLVED_NAMES:
                self._resolved.clear()
            self._resolved[text] = destination
        return destination

    def line(self, destination: Destination) -> bytes:
        """Return the `destination` line of a MESSAGE, with the escapes of 1.2."""
        if destination is not self._last:
            self._last_line = encode_headers([("destination", destination_text(destination))], V1_2)
            self._last = destination
        return self._last_line

    def _parse(self, text: str) -> Destination:
        if "," not in text:
            return self._resolve_one(text)
        texts = text.split(",")
        if len(texts) > MAX_COMPOSITE_PARTS:
            raise InvalidDestinationError(
                f"the composite destination has {len(texts)} parts, at most {MAX_COMPOSITE_PARTS} are allowed"
            )
        return composite([self._resolve_one(part.strip()) for part in texts])

    def text(self, destination: Destination) -> str:
        """Return the name of a destination for a frame to this connection.

        The connection has own names for temporary destinations.
        """
        if destination.is_temporary:
            own = self._by_name.get(destination.qualified_name)
            if own is not None:
                return own
        return destination_text(destination)

    def take_fresh(self) -> list[Destination]:
        """Return the temporary destinations named since the last call."""
        fresh = self.fresh
        if fresh:
            self.fresh = []
        return fresh

    def _resolve_one(self, text: str) -> Destination:
        if text.startswith(OWN_TEMP_QUEUE):
            return self._temporary(TEMP_QUEUE, text, OWN_TEMP_QUEUE)
        if text.startswith(OWN_TEMP_TOPIC):
            return self._temporary(TEMP_TOPIC, text, OWN_TEMP_TOPIC)
        for kind in (QUEUE, TOPIC, TEMP_QUEUE, TEMP_TOPIC):
            prefix = PREFIXES[kind]
            if text.startswith(prefix):
                return physical(kind, text[len(prefix) :])
        check_form(text, STOMP_FORMS)
        return physical(QUEUE, text)

    def _temporary(self, kind: int, text: str, prefix: str) -> Destination:
        destination = self._by_text.get(text)
        if destination is not None:
            return destination
        check_name(text[len(prefix) :])
        if len(self._by_text) >= MAX_TEMPORARY_NAMES:
            raise ResourceAllocationError(
                f"the connection has {MAX_TEMPORARY_NAMES} temporary destinations, the highest allowed number"
            )
        destination = Destination(kind, f"{self._connection_id}:{len(self._by_text) + 1}")
        self._by_text[text] = destination
        self._by_name[destination.qualified_name] = text
        self.fresh.append(destination)
        return destination
