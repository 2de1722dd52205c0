"""The readable properties of a message of AMQP 0-9-1 (section 4.2.6.1) that the library refuses as a whole.

Each property and each header is read alone. So one timestamp of the year 10,000 takes no other header away.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from pamqp import decode
from pamqp.commands import Basic

MORE_FLAGS: Final = 1  # bit of a word of flags behind which another word follows
WORD: Final = struct.Struct(">H")
LENGTH: Final = struct.Struct(">I")
HEADERS: Final = "headers"
MAX_NAMED: Final = 10  # unreadable parts that a cause names; the cause has to stay short
UNREADABLE: Final = (ValueError, OverflowError, RecursionError, IndexError, TypeError, struct.error)
FIXED: Final = {
    **dict.fromkeys(b"tbB", 1),
    **dict.fromkeys(b"sUu", 2),
    **dict.fromkeys(b"Iif", 4),
    **dict.fromkeys(b"lLdT", 8),
    **dict.fromkeys(b"V\0", 0),
    ord("D"): 5,
}  # octets of a value of a header by its type
COUNTED: Final = frozenset(b"SxAF")  # types with their length before them


def readable_properties(octets: bytes) -> tuple[Basic.Properties, list[str]]:
    """Return the readable properties of a frame's flags and properties, and the names of the others.

    A property of unknown length ends the search: nobody knows where the next one begins.
    """
    properties, unreadable = Basic.Properties(), []
    try:
        (flags,) = WORD.unpack_from(octets)
        offset = WORD.size
        if flags & MORE_FLAGS:  # AMQP 0-9-1 has no properties in further words
            return properties, ["all"]
        for name in Basic.Properties.__slots__:
            if not flags & Basic.Properties.flags[name]:
                continue
            end = _end(octets, offset, Basic.Properties.amqp_type(name))
            found = octets[offset:end]
            if name == HEADERS:
                properties.headers, others = _headers(found[LENGTH.size :])
                unreadable += others
            else:
                try:
                    setattr(properties, name, decode.by_type(found, Basic.Properties.amqp_type(name))[1])
                except UNREADABLE:
                    unreadable.append(name)
            offset = end
    except UNREADABLE:
        unreadable.append("all further ones")
    return properties, unreadable


def named(unreadable: list[str]) -> str:
    """Return the names of unreadable properties for a cause."""
    more = f" and {len(unreadable) - MAX_NAMED} more" if len(unreadable) > MAX_NAMED else ""
    return ", ".join(unreadable[:MAX_NAMED]) + more


def _end(octets: bytes, offset: int, kind: str) -> int:
    """Return the offset behind a property."""
    if kind == "shortstr":
        end = offset + 1 + octets[offset]
    elif kind == "table":
        end = offset + LENGTH.size + LENGTH.unpack_from(octets, offset)[0]
    else:
        end = offset + (1 if kind == "octet" else 8)
    if end > len(octets):
        raise IndexError(kind)
    return end


def _headers(table: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return the readable headers, and the names of the others."""
    headers: dict[str, Any] = {}
    unreadable: list[str] = []
    offset = 0
    while offset < len(table):
        start = offset + 1 + table[offset]
        name = table[offset + 1 : start].decode("utf-8", "replace")
        end = _end_of_value(table, start)
        if end > len(table):
            unreadable.append("all further headers")
            break
        try:
            headers[table[offset + 1 : start].decode("utf-8")] = decode.embedded_value(table[start:end])[1]
        except UNREADABLE:
            unreadable.append(f"the header {name[:60]!r}")
        offset = end
    return headers, unreadable


def _end_of_value(table: bytes, start: int) -> int:
    """Return the offset behind the value of a header, beyond the table for an unknown type."""
    kind = table[start] if start < len(table) else None
    if kind in FIXED:
        return start + 1 + FIXED[kind]
    if kind in COUNTED and start + 1 + LENGTH.size <= len(table):
        return start + 1 + LENGTH.size + int(LENGTH.unpack_from(table, start + 1)[0])
    return len(table) + 1
