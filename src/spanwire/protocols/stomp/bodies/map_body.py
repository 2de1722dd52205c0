"""The body of a MapMessage in neutral form (``MessageView.body``) that is to become text.

The form is that of `spanwire.protocols.primitive_map`; here stands only how large a map may be.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import PropertyValue
from spanwire.protocols.primitive_map import MAX_BODY_VALUES, decode_map

MAX_MAP_BYTES: Final = (
    2 * 1024 * 1024
)  # of a map that is turned into text: the loop does it; any that came as text fits


def read_map(body: bytes) -> dict[str, PropertyValue]:
    """All entries in their order; raises `MessageFormatError` for octets that are no map, or too many."""
    if len(body) > MAX_MAP_BYTES:
        raise MessageFormatError(f"a map of {len(body)} bytes is not turned into text; {MAX_MAP_BYTES} are allowed")
    return decode_map(body, MAX_BODY_VALUES)
