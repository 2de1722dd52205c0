"""Limits the size of a MapMessage that is converted to text.

`spanwire.protocols.primitive_map` decodes the neutral form (``MessageView.body``).
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import PropertyValue
from spanwire.protocols.primitive_map import MAX_BODY_VALUES, decode_map

MAX_MAP_BYTES: Final = 2 * 1024 * 1024  # bytes; the event loop does the conversion, and any map that came as text fits


def read_map(body: bytes) -> dict[str, PropertyValue]:
    """Return all entries in order; raises `MessageFormatError` for malformed or too many octets."""
    if len(body) > MAX_MAP_BYTES:
        raise MessageFormatError(f"a map of {len(body)} bytes is not turned into text; {MAX_MAP_BYTES} are allowed")
    return decode_map(body, MAX_BODY_VALUES)
