"""The subset of XML that maps need.

The subset has elements without attributes, text, the five named entities and character numbers.

Document types and own entities are refused like the rest of XML, so no text can expand or load anything.
"""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 16  # nested maps and lists; an entry counts as a level
MAX_LEVELS: Final = 3 * MAX_DEPTH
ENTITIES: Final[dict[str, str]] = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


class Element:
    """An element with a name and either text or children."""

    __slots__ = ("children", "name", "text")

    def __init__(self, name: str, text: str, children: list[Element]) -> None:
        self.name: Final[str] = name
        self.text: Final[str] = text
        self.children: Final[list[Element]] = children


def parse_element(text: str) -> Element:
    """Return the only element of a document with an optional declaration; raises `ValueError`."""
    parser = _Parser(text.strip())
    return parser.document()


class _Parser:
    """Parses a text from an offset on."""

    def __init__(self, text: str) -> None:
        self._text: Final[str] = text
        self._position = 0

    def document(self) -> Element:
        if self._text.startswith("<?xml"):
            self._position = self._text.find("?>") + 2
            if self._position < 2:
                raise ValueError("the declaration has no end")
            self._skip_blanks()
        root = self._element(1)
        if self._position != len(self._text):
            raise ValueError("text follows the element")
        return root

    def _element(self, level: int) -> Element:
        if level > MAX_LEVELS:
            raise ValueError("it is too deep")
        name, is_empty = self._tag()
        if is_empty:
            return Element(name, "", [])
        children: list[Element] = []
        start = self._position
        while True:
            opening = self._text.find("<", self._position)
            if opening < 0:
                raise ValueError(f"<{name[:40]}> has no end")
            if self._text.startswith("</", opening):
                inner = self._text[start:opening]
                self._position = opening
                self._closing(name)
                return Element(name, "" if children else _unescaped(inner), children)
            if self._text[self._position : opening].strip():
                raise ValueError("text and elements are mixed")
            self._position = opening
            children.append(self._element(level + 1))
            self._skip_blanks()
            start = self._position

    def _tag(self) -> tuple[str, bool]:
        if not self._text.startswith("<", self._position):
            raise ValueError("it does not begin with an element")
        end = self._text.find(">", self._position)
        if end < 0:
            raise ValueError("a tag has no end")
        inside = self._text[self._position + 1 : end]
        self._position = end + 1
        is_empty = inside.endswith("/")
        name = inside.removesuffix("/").strip()
        if not name or not name.replace("-", "").isalnum():
            raise ValueError(f"<{name[:40]}> is no plain element")
        return name, is_empty

    def _closing(self, name: str) -> None:
        closing = f"</{name}>"
        if not self._text.startswith(closing, self._position):
            raise ValueError(f"<{name[:40]}> is not closed")
        self._position += len(closing)

    def _skip_blanks(self) -> None:
        while self._position < len(self._text) and self._text[self._position].isspace():
            self._position += 1


def _unescaped(text: str) -> str:
    if "&" not in text:
        return text
    first, *rest = text.split("&")
    parts = [first]
    for part in rest:
        name, semicolon, following = part.partition(";")
        if not semicolon:
            raise ValueError("an entity has no end")
        parts.append(_character(name))
        parts.append(following)
    return "".join(parts)


def _character(name: str) -> str:
    known = ENTITIES.get(name)
    if known is not None:
        return known
    number = -1
    if name.startswith("#x") and len(name) <= 8:
        number = int(name[2:], 16)
    elif name.startswith("#") and len(name) <= 8:
        number = int(name[1:])
    if not 0 <= number <= 0x10FFFF:
        raise ValueError(f"the entity {name[:40]} is unknown")
    return chr(number)
