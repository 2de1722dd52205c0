"""Masks the secrets of a configuration file before its lines are shown.

The forms of passwords in files are not all known, so more is hidden than must be. A telling word hides

    password="..."                      the value of an attribute with that name
    <property name="password" ...>      all other attributes of the element, and all that is inside it
    <password> ... </password>          all that is inside the element
    <key>password</key><value>...       all that is inside the element around such a text, and the text
    uri="...?keyStorePassword=..."      the rest of the value
    password = ...                      the rest of a line outside of elements

and in an address all up to the last ``@``. The number of lines stays the same.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Final

HIDDEN: Final = "********"
SECRET: Final = re.compile(
    r"pass|pwd|secret|token|credential|jaas"
    r"|(?:access|account|api|auth|encrypt\w*|private|shared|sign\w*|ssh)[\W_]?key|key[\W_]?(?:store|tab)",
    re.IGNORECASE,
)
PART_KEY: Final = re.compile(r"\w[.-]?key|key[.-]?\w", re.IGNORECASE)  # "key" as a part of an attribute's name
NAMING: Final = frozenset(("name", "key", "id", "class", "ref", "bean"))  # attributes with names, shown if they are one
FLAGS: Final = frozenset(("true", "false", "yes", "no", "1", "0", ""))  # values that are no secret themselves
NAME: Final = re.compile(r"[\w.:-]+")
LOGIN: Final = re.compile(r"(//|jdbc:).*@", re.DOTALL | re.IGNORECASE)
LINE_LOGIN: Final = re.compile(r"(//|jdbc:).*@", re.IGNORECASE)
SETTING: Final = re.compile(r"""\s*["']?[\w.-]+["']?\s*[=:]\s*""")
GOES_ON: Final = ("\\", "=", ":", "|", ">")  # ends of a line whose value is on the next one
PIECE: Final = re.compile(
    r"""<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[^<>"'\s](?:[^<>"']|"[^"]*"|'[^']*')*>""", re.DOTALL
)
ATTRIBUTE: Final = re.compile(r"""(?<![\w:.-])([\w:.-]+)(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'<>]+)""")
ELEMENT: Final = re.compile(r"</?([\w:.-]+)")
REST: Final = re.compile(r"[\s/?>]*")  # what a well-formed tag has beside its name and attributes


class Element:
    """An element of the file, or the file itself; ``parent`` is the surrounding element."""

    __slots__ = ("is_secret", "name", "parent")

    def __init__(self, name: str, parent: Element | None) -> None:
        self.name: Final = name
        self.parent: Final = parent
        self.is_secret = False


def masked(text: str, is_comment: bool = False) -> str:
    """Return the text of a configuration file without secrets; ``is_comment`` for the text of a comment."""
    pieces = _pieces(text)
    elements: list[Element] = []
    around = _mark(pieces, elements)
    for element in elements:  # from the outermost on
        if element.parent is not None and element.parent.is_secret:
            element.is_secret = True
    shown = [
        _shown(piece, element, is_comment or element.parent is not None)
        for piece, element in zip(pieces, around, strict=True)
    ]
    return "".join(shown)


def _pieces(text: str) -> list[str]:
    """Return tags, comments, and the texts between them."""
    pieces: list[str] = []
    end = 0
    for match in PIECE.finditer(text):
        pieces += [text[end : match.start()], match[0]]
        end = match.end()
    return [piece for piece in [*pieces, text[end:]] if piece]


def _mark(pieces: list[str], elements: list[Element]) -> list[Element]:
    """Return the element around each piece, for a tag its own element.

    All elements are added to ``elements``, some with a mark.
    """
    current = Element("", None)
    elements.append(current)
    around: list[Element] = []
    opened: dict[str, int] = {}
    for piece in pieces:
        name = ELEMENT.match(piece)
        if name is None:
            if current.parent is not None and not piece.startswith("<!--") and _is_telling(piece):
                current.parent.is_secret = True
                if current.parent.parent is not None and current.parent.name in NAMING:
                    current.parent.parent.is_secret = True
            around.append(current)
        elif piece.startswith("</"):
            around.append(current)
            if opened.get(name[1], 0):
                closed = ""
                while current.parent is not None and closed != name[1]:
                    closed = current.name
                    opened[closed] -= 1
                    current = current.parent
        else:
            element = Element(name[1], current)
            elements.append(element)
            element.is_secret = _is_telling(name[1]) or _is_named_secret(piece)
            if element.is_secret and piece.endswith("/>") and len(ATTRIBUTE.findall(piece)) == 1:
                current.is_secret = True  # the name alone: its value is somewhere beside
            around.append(element)
            if not piece.endswith("/>"):
                current = element
                opened[name[1]] = opened.get(name[1], 0) + 1
    return around


def _is_telling(text: str) -> bool:
    return SECRET.search(unescape(text)) is not None


def _is_telling_name(name: str) -> bool:
    return _is_telling(name) or PART_KEY.search(name) is not None


def _is_named_secret(tag: str) -> bool:
    """Return True if an attribute says that the secret is elsewhere in the element."""
    for name, _, value in ATTRIBUTE.findall(tag):
        plain = unescape(value.strip("\"'"))
        if _is_telling_name(name) and plain.lower() in FLAGS:
            return True
        if not _is_telling_name(name) and _is_telling(plain) and not _has_setting(plain):
            return True
    return False


def _has_setting(value: str) -> bool:
    """Return True if the secrets of a value are behind names, as in the options of an address."""
    found = SECRET.search(value)
    return found is not None and re.match(r"[\w.-]*\s*=", value[found.end() :]) is not None


def _shown(piece: str, element: Element, is_inside: bool) -> str:
    if piece.startswith("<!--") and piece.endswith("-->"):
        return "<!--" + (_hidden(piece[4:-3]) if element.is_secret else masked(piece[4:-3], is_comment=True)) + "-->"
    name = ELEMENT.match(piece)
    if name is not None and PIECE.fullmatch(piece):
        return piece if piece.startswith("</") else _shown_tag(piece, element.is_secret)
    if is_inside or "<" in piece:
        return _hidden(piece) if element.is_secret or _is_telling(piece) else _without_logins(piece)
    return _shown_lines(piece)


def _shown_tag(tag: str, is_secret: bool) -> str:
    start = ELEMENT.match(tag)
    assert start is not None
    if not REST.fullmatch(ATTRIBUTE.sub("", tag[start.end() :])) and (is_secret or _is_telling(tag)):
        return start[0] + " " + _hidden(tag[start.end() : -1]) + tag[-1]
    return start[0] + ATTRIBUTE.sub(lambda match: _shown_attribute(match, is_secret), tag[start.end() :])


def _shown_attribute(match: re.Match[str], is_secret: bool) -> str:
    name, equals, written = match.groups()
    quote = written[0] if written[0] in "\"'" else ""
    value = written[1:-1] if quote else written
    if name in NAMING and NAME.fullmatch(value):
        return match[0]
    if is_secret or _is_telling_name(name):
        value = _hidden(value)
    elif (found := SECRET.search(value)) is not None:
        rest = value[found.end() :]
        kept = re.match(r"[\w.-]*\s*=", rest)
        end = found.end() + (kept.end() if kept is not None else 0)
        value = LOGIN.sub(_hidden_login, value[:end]) + _hidden(value[end:])
    elif _is_telling(value):
        value = _hidden(value)
    else:
        value = LOGIN.sub(_hidden_login, value)
    return f"{name}{equals}{quote}{value}{quote}"


def _shown_lines(text: str) -> str:
    """Return lines outside of elements, such as those of a file of properties."""
    shown: list[str] = []
    goes_on = False
    for line in text.splitlines(keepends=True):
        setting = SETTING.match(line)
        if goes_on:
            shown.append(_hidden(line))
        elif _is_telling(line):
            start = setting.end() if setting is not None and _is_telling(setting[0]) else 0
            shown.append(line[:start] + _hidden(line[start:]) if line[start:].strip() else line)
        else:
            shown.append(_without_logins(line))
            continue
        goes_on = line.rstrip().endswith(GOES_ON) or not line.strip()
    return "".join(shown)


def _without_logins(text: str) -> str:
    return LINE_LOGIN.sub(_hidden_login, text)


def _hidden_login(match: re.Match[str]) -> str:
    return f"{match[1]}{HIDDEN}@" + "\n" * match[0].count("\n")


def _hidden(text: str) -> str:
    """Return a mask with the blanks around a text and its ends of lines."""
    inner = text.strip()
    if not inner:
        return text
    start = text.index(inner)
    return text[:start] + HIDDEN + "\n" * inner.count("\n") + text[start + len(inner) :]
