"""Destinations: queues, topics and their temporary forms, composites and wildcard patterns.

Names follow ActiveMQ:

- Elements are separated by ``.``.
- ``*`` matches one element, and ``>`` at the end matches all further elements.
- ``,`` separates the parts of a composite. Each part may begin with ``queue://``, ``topic://``, ``temp-queue://`` or
  ``temp-topic://``.
- Options stand after ``?``.

A physical name is stored as the client sent it, case included.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import InvalidDestinationError

QUEUE: Final = 0
TOPIC: Final = 1
TEMP_QUEUE: Final = 2
TEMP_TOPIC: Final = 3

# Kinds for the message store alone. No client can name them, because `parse_destination` does not read their schemes.
SUBSCRIPTION: Final = 4  # pending messages of one durable subscription
TRANSACTION: Final = 5  # sends of one prepared XA branch
SCHEDULE: Final = 6  # messages of the scheduler

MAX_NAME_BYTES: Final = 1024  # bytes; a longer physical name does not fit the store's index keys
MAX_UTF8_BYTES: Final = 4  # bytes of one character
MAX_COMPOSITE_PARTS: Final = 64  # parts of one composite; bounds the copies that one send makes
ADVISORY_PREFIX: Final = "ActiveMQ.Advisory."

SCHEMES: Final = ("queue://", "topic://", "temp-queue://", "temp-topic://")
STORED_SCHEMES: Final = (*SCHEMES, "subscription://", "transaction://", "schedule://")  # indexed by kind


class Destination:
    """A queue or topic, identified by its kind and physical name.

    ``qualified_name`` (``queue://ORDERS``) is the key in every table of the broker.
    """

    __slots__ = ("elements", "is_advisory", "is_composite", "is_pattern", "kind", "name", "qualified_name")

    def __init__(self, kind: int, name: str) -> None:
        self.kind: Final[int] = kind
        self.name: Final[str] = name
        self.qualified_name: Final[str] = STORED_SCHEMES[kind] + name
        self.elements: Final[list[str]] = name.split(".")
        self.is_composite: Final[bool] = "," in name
        self.is_pattern: Final[bool] = self.elements[-1] == ">" or "*" in self.elements
        self.is_advisory: Final[bool] = kind == TOPIC and name.startswith(ADVISORY_PREFIX)

    @property
    def is_queue(self) -> bool:
        """Return True for a queue, temporary or not."""
        return self.kind == QUEUE or self.kind == TEMP_QUEUE

    @property
    def is_temporary(self) -> bool:
        """Return True for a destination that ends with the connection of its creator."""
        return self.kind == TEMP_QUEUE or self.kind == TEMP_TOPIC

    def matches(self, other: Destination) -> bool:
        """Return True if ``other``, a destination without wildcards, matches this name or pattern."""
        if self.kind != other.kind:
            return False
        if not self.is_pattern:
            return self.name == other.name
        return elements_match(self.elements, other.elements)

    def parts(self) -> list[Destination]:
        """Return the parts of a composite in order without duplicates.

        A destination that is no composite is its own only part.

        A part without a scheme has the kind of the composite.

        Raises:
            InvalidDestinationError: a part is empty or malformed, or the composite has too many parts.
        """
        if not self.is_composite:
            return [self]
        texts = self.name.split(",")
        if len(texts) > MAX_COMPOSITE_PARTS:
            raise InvalidDestinationError(
                f"the composite destination has {len(texts)} parts, at most {MAX_COMPOSITE_PARTS} are allowed"
            )
        parts_by_name: dict[str, Destination] = {}
        for text in texts:
            part = parse_destination(text.strip(), self.kind)
            parts_by_name[part.qualified_name] = part
        return list(parts_by_name.values())

    def __str__(self) -> str:
        return self.qualified_name

    def __repr__(self) -> str:
        return f"Destination({self.qualified_name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Destination) and self.qualified_name == other.qualified_name

    def __hash__(self) -> int:
        return hash(self.qualified_name)


def elements_match(pattern: list[str], name: list[str]) -> bool:
    """Return True if the elements of a name match the elements of a pattern.

    ``>`` at the end also matches if the name has no further element; at other positions ``>`` is an ordinary element.
    """
    last = len(pattern) - 1
    for index, element in enumerate(pattern):
        if element == ">" and index == last:
            return True
        if index >= len(name):
            return False
        if element != "*" and element != name[index]:
            return False
    return len(pattern) == len(name)


def parse_destination(text: str, default_kind: int = QUEUE) -> Destination:
    """Parse ``queue://NAME?options`` or a bare name of ``default_kind``; drop the options.

    Raises:
        InvalidDestinationError: the name is empty, too long, or has control characters.
    """
    kind = default_kind
    name = text
    for scheme_kind, scheme in enumerate(SCHEMES):
        if text.startswith(scheme):
            kind = scheme_kind
            name = text[len(scheme) :]
            break
    question = name.find("?")
    if question >= 0 and "," not in name:
        name = name[:question]
    check_name(name)
    return Destination(kind, name)


def check_name(name: str) -> None:
    """Raise `InvalidDestinationError` for an ambiguous physical name.

    The name would be ambiguous in a store, a log or an access list.
    """
    if not name:
        raise InvalidDestinationError("the destination has an empty name")
    length = len(name)
    if length > MAX_NAME_BYTES or (
        length * MAX_UTF8_BYTES > MAX_NAME_BYTES and len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES
    ):
        raise InvalidDestinationError(f"the destination name {name[:40]!r}… is longer than {MAX_NAME_BYTES} bytes")
    if not name.isprintable():  # so most names need no loop
        for character in name:
            if character < " " or character == "\x7f" or 0xD800 <= ord(character) <= 0xDFFF:
                raise InvalidDestinationError(f"the destination name {name[:40]!r} holds a control character")
    if name != name.strip():
        raise InvalidDestinationError(f"the destination name {name[:40]!r} begins or ends with a blank")
