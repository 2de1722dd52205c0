"""Foreign text made safe for a terminal or a log: on one line, without control characters."""

from __future__ import annotations


def printable(text: str, substitute: str = "?") -> str:
    """Return ``text`` with ``substitute`` in place of each character that is not printable.

    Control characters, line ends, separators other than the blank, and marks that turn the direction of writing are not
    printable (`str.isprintable`).
    """
    return "".join([character if character.isprintable() else substitute for character in text])


def escaped(text: str) -> str:
    """Return ``text`` with an escape in place of each character that is not printable.

    The escape is ``\\u`` and four hexadecimal digits.
    """
    return "".join([character if character.isprintable() else f"\\u{ord(character):04x}" for character in text])
