"""Compares the readers of commands in XML: without Expat and with it, by shapes and without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.xstream.elements import Element, parse_elements
from spanwire.protocols.openwire.xstream.plain import plain_elements
from spanwire.protocols.openwire.xstream.reader import XmlReader

PlainReader = Callable[[bytes], Element | None]


def tree_of(element: Element) -> Any:
    """All that the reader of commands looks at."""
    inner = [tree_of(child) for child in element.children]
    return element.tag, element.type_name, element.reference, element.real_name, element.text, inner


def difference(text: bytes, plain: PlainReader = plain_elements) -> str:
    """What Expat makes of a text that the reader of plain texts accepts; empty if both read the same tree."""
    root = plain(text)
    if root is None:
        return ""
    try:
        expected = parse_elements(text)
    except OpenWireProtocolError as error:
        return f"Expat refuses {text!r}: {error}"
    return "" if tree_of(root) == tree_of(expected) else f"Expat reads another tree: {text!r}"


def outcome(reader: XmlReader, text: bytes, max_frame_size: int) -> tuple[bytes, str]:
    """The frame of a text, or the line of the refusal."""
    try:
        return reader.frame(text, max_frame_size), ""
    except OpenWireProtocolError as error:
        return b"", str(error)
