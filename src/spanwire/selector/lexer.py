"""Lexer of selectors (Java Message Service 1.1, §3.8.1.1).

Tokens have the form of ActiveMQ Classic 5.17: identifiers and keywords are ASCII, and keywords ignore case. ``--``
starts a comment only if a line end follows. ``0x2A`` is hexadecimal and ``052`` octal. An ``L`` after a decimal integer
is dropped; the suffixes ``F`` and ``D`` do not exist.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import InvalidSelectorError
from spanwire.model.text import printable

# Kinds of token. The text of a KEYWORD is in upper case, that of a STRING is without quotes.
END: Final = 0
IDENTIFIER: Final = 1
KEYWORD: Final = 2
STRING: Final = 3
DECIMAL: Final = 4
HEXADECIMAL: Final = 5
OCTAL: Final = 6
FLOATING: Final = 7
SYMBOL: Final = 8

KEYWORDS: Final = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "LIKE", "ESCAPE", "IN", "IS", "TRUE", "FALSE", "NULL", "XPATH", "XQUERY")
)

MAX_QUOTED_LENGTH: Final = 80  # characters of a selector that an error shows; fits on one line of a terminal

_SPACES: Final = " \t\n\r\f"
_DIGITS: Final = "0123456789"
_OCTAL_DIGITS: Final = "01234567"
_HEXADECIMAL_DIGITS: Final = "0123456789abcdefABCDEF"
_NAME_STARTS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$"
_NAME_PARTS: Final = _NAME_STARTS + _DIGITS
_SYMBOLS: Final = "=<>+-*/%(),"


def quoted(text: str) -> str:
    """Return ``text`` in double quotes on one line, cut at MAX_QUOTED_LENGTH.

    ``?`` replaces unprintable characters.
    """
    shown = text if len(text) <= MAX_QUOTED_LENGTH else text[:MAX_QUOTED_LENGTH] + "..."
    return '"' + printable(shown) + '"'


class Token:
    """A token: its kind, its text and its start (0-based, in characters)."""

    __slots__ = ("kind", "position", "text")

    def __init__(self, kind: int, text: str, position: int) -> None:
        self.kind: Final = kind
        self.text: Final = text
        self.position: Final = position

    def description(self) -> str:
        """Return the token as an error names it."""
        if self.kind == END:
            return "end of text"
        if self.kind == STRING:
            return f"string {quoted(self.text)}"
        return f"'{quoted(self.text)[1:-1]}'"


class Lexer:
    """Splits a selector into tokens; the caller limits the length of the text."""

    def __init__(self, text: str) -> None:
        self._text: Final = text
        self._position = 0
        self._tokens: Final[list[Token]] = []

    def tokens(self) -> list[Token]:
        """Return all tokens, with an END token last.

        Raises:
            InvalidSelectorError: a character starts no token.
        """
        text = self._text
        while self._position < len(text):
            letter = text[self._position]
            if letter in _SPACES:
                self._position += 1
            elif letter in _NAME_STARTS:
                self._name()
            elif letter in _DIGITS or (letter == "." and self._digit_at(self._position + 1)):
                self._number()
            elif letter == "'":
                self._string()
            elif letter not in _SYMBOLS:
                raise self._error(f"unexpected character {quoted(letter)}")
            elif not self._comment():
                self._symbol()
        self._tokens.append(Token(END, "", len(text)))
        return self._tokens

    def _add(self, kind: int, text: str, end: int) -> None:
        self._tokens.append(Token(kind, text, self._position))
        self._position = end

    def _error(self, problem: str) -> InvalidSelectorError:
        return InvalidSelectorError(f"{problem} at column {self._position + 1} of the selector {quoted(self._text)}")

    def _digit_at(self, position: int) -> bool:
        return position < len(self._text) and self._text[position] in _DIGITS

    def _after(self, position: int, characters: str) -> int:
        """Return the first position at or after ``position`` with a character outside of ``characters``."""
        text = self._text
        while position < len(text) and text[position] in characters:
            position += 1
        return position

    def _name(self) -> None:
        end = self._after(self._position, _NAME_PARTS)
        name = self._text[self._position : end]
        upper = name.upper()
        if upper in KEYWORDS:
            self._add(KEYWORD, upper, end)
        else:
            self._add(IDENTIFIER, name, end)

    def _number(self) -> None:
        text, start = self._text, self._position
        if text[start : start + 2] in ("0x", "0X"):
            end = self._after(start + 2, _HEXADECIMAL_DIGITS)
            if end > start + 2:
                self._add(HEXADECIMAL, text[start + 2 : end], end)
                return
        whole = self._after(start, _DIGITS)
        end = whole
        if end < len(text) and text[end] == ".":
            end = self._after(end + 1, _DIGITS)
        end = self._after_exponent(end)
        if end > whole:
            self._add(FLOATING, text[start:end], end)
        elif text[start] == "0":
            end = self._after(start, _OCTAL_DIGITS)
            self._add(OCTAL, text[start:end], end)
        else:
            end = whole + 1 if whole < len(text) and text[whole] in "lL" else whole
            self._add(DECIMAL, text[start:whole], end)

    def _after_exponent(self, position: int) -> int:
        text = self._text
        if position < len(text) and text[position] in "eE":
            digits = position + 1
            if digits < len(text) and text[digits] in "+-":
                digits += 1
            if self._digit_at(digits):
                return self._after(digits, _DIGITS)
        return position

    def _string(self) -> None:
        text = self._text
        end = self._position + 1
        while True:
            end = text.find("'", end)
            if end < 0:
                raise self._error("unterminated string")
            if text[end + 1 : end + 2] != "'":
                break
            end += 2
        self._add(STRING, text[self._position + 1 : end].replace("''", "'"), end + 1)

    def _comment(self) -> bool:
        """Skip a comment if one starts here; without an end, its characters are operators."""
        text, start = self._text, self._position
        if text.startswith("--", start):
            ends = [end for end in (text.find("\n", start), text.find("\r", start)) if end >= 0]
            if ends:
                self._position = min(ends) + 1
                return True
        elif text.startswith("/*", start):
            end = text.find("*/", start + 2)
            if end >= 0:
                self._position = end + 2
                return True
        return False

    def _symbol(self) -> None:
        start = self._position
        pair = self._text[start : start + 2]
        if pair in ("<>", ">=", "<="):
            self._add(SYMBOL, pair, start + 2)
        else:
            self._add(SYMBOL, pair[0], start + 1)
