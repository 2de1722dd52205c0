"""Reads commands in the plain form of XML, which XStream writes for most commands, without Expat.

Plain are elements with at most one attribute, ``class`` or ``reference``, and characters of ASCII that stand for
themselves. All else is left to Expat: declarations, comments, entities, references to characters, other attributes and
quotes, and each text against the rules or limits. So Expat reads what this module accepts to the same tree.
"""

from __future__ import annotations

import re
from typing import Final

from spanwire.protocols.openwire.xstream._fields import FIELDS, PACKAGE, TYPES
from spanwire.protocols.openwire.xstream.elements import MAX_ATTRIBUTE, MAX_DEPTH, Element, release

MAX_PLAIN: Final = 64 * 1024  # bytes; too few for `MAX_ELEMENTS`. A longer text is mostly one body, quick in Expat, too
PLAIN: Final = bytes((9, 10, *range(0x20, 0x7F))).replace(b"&", b"")
END_OF_SECTION: Final = b"]]>"  # not allowed in a text
NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_.-]*")
ATTRIBUTE: Final = re.compile(rb'([A-Za-z_][A-Za-z0-9_.-]*) (class|reference)="([^"<\t\n]*)"')
OPEN: Final = ord("<")
SLASH: Final = ord("/")
_WORDS: Final = ("string", "null", "data", "offset", "length", "text", *(PACKAGE + name for name in TYPES))
TAGS: Final[dict[bytes, str]] = {
    name.encode(): name for name in (*_WORDS, *(field[0] for fields in FIELDS.values() for field in fields))
}


def is_plain(text: bytes) -> bool:
    """Return True if the characters are plain, the text begins with a tag, and its length is within the limit."""
    return (
        len(text) <= MAX_PLAIN
        and not text.translate(None, PLAIN)
        and END_OF_SECTION not in text
        and text.startswith(b"<")
    )


def plain_elements(text: bytes) -> Element | None:
    """Return the outermost element of a command, or None if Expat is to read the text.

    The caller has limited the size, and calls `release` in the end.
    """
    if not is_plain(text):
        return None
    tree = _PlainTree()
    start = 0
    while True:
        end = text.find(b">", start)
        following = text.find(b"<", end) if end >= 0 else -1
        if end < 0 or not tree.takes(text, start, end, following):
            break
        if following < 0:
            if tree.current is None and not text[end + 1 :].strip():
                return tree.root
            break
        start = following
    release(tree.root)
    return None


class _PlainTree:
    """The elements of a text so far."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self.current: Element | None = None  # the open element
        self._depth = 0

    def takes(self, text: bytes, start: int, end: int, following: int) -> bool:
        """Take the tag from ``start`` to ``end``, with the text up to the following tag. Return False for Expat."""
        current = self.current
        if text[start + 1] == SLASH:
            if current is None or text[start + 2 : end] != current.tag.encode("ascii"):
                return False
            self.current = current.parent
            self._depth -= 1
            return True
        is_empty = text[end - 1] == SLASH
        element = _opened(text[start + 1 : end - 1 if is_empty else end], current)
        if element is None or self._depth == MAX_DEPTH:
            return False
        if current is not None:
            current.children.append(element)
        elif self.root is None:
            self.root = element
        else:
            return False
        if not is_empty:
            self._depth += 1
            self.current = element
            if following > end + 1:
                element.text = text[end + 1 : following].decode("ascii")
        return True


def _opened(inside: bytes, parent: Element | None) -> Element | None:
    """Return the element of a tag, or None if the tag is not plain."""
    tag = TAGS.get(inside)
    if tag is not None:
        return Element(tag, "", "", "", parent)
    if NAME.fullmatch(inside):
        return Element(inside.decode("ascii"), "", "", "", parent)
    match = ATTRIBUTE.fullmatch(inside)
    if match is None or len(match.group(3)) > MAX_ATTRIBUTE:
        return None
    value = match.group(3).decode("ascii")
    name = match.group(1).decode("ascii")
    return Element(name, value, "", "", parent) if match.group(2) == b"class" else Element(name, "", value, "", parent)
