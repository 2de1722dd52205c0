"""Compares the two readers of commands in XML."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.xstream.elements import Element, parse_elements
from spanwire.protocols.openwire.xstream.plain import plain_elements

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
