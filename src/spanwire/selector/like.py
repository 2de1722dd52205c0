"""LIKE patterns, matched in linear time (Java Message Service 1.1, §3.8.1.1).

A pattern is split at its ``%`` into segments. The first segment must match at the start of the subject, the last one at
its end. Each segment between is matched at the leftmost possible position, which suffices: no position is tried twice.
The algorithm has no regular expression and no backtracking (compare CVE-2026-75880).

    'eu-%_x%y_z'  →  prefix "eu-"   floating ".x" (any letter, then x)   suffix "y.z"
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import InvalidSelectorError
from spanwire.selector.lexer import quoted

_HOLE: Final = ""  # represents ``_`` in a list of characters


class Segment:
    """A part of a pattern without ``%``: characters, and holes that any character fills."""

    def __init__(self, characters: list[str]) -> None:
        self.length: Final = len(characters)
        self._texts: Final[list[str]] = []
        self._offsets: Final[list[int]] = []
        start = 0
        while start < len(characters):
            end = start
            while end < len(characters) and characters[end] != _HOLE:
                end += 1
            if end > start:
                self._texts.append("".join(characters[start:end]))
                self._offsets.append(start)
            start = end + 1
        self._masks: Final[dict[str, int]] = {}
        self._holes = 0
        if len(self._texts) > 1:
            self._build_masks(characters)

    def _build_masks(self, characters: list[str]) -> None:
        """Build the masks: bit i of a character's mask is set if the segment allows the character at index i."""
        bit = 1
        for letter in characters:
            if letter == _HOLE:
                self._holes |= bit
            bit <<= 1
        bit = 1
        for letter in characters:
            if letter != _HOLE:
                self._masks[letter] = self._masks.get(letter, self._holes) | bit
            bit <<= 1

    def stands_at(self, text: str, position: int) -> bool:
        """Return True if the segment matches at ``position``; the caller has checked the length of ``text``."""
        index = 0
        for part in self._texts:
            if not text.startswith(part, position + self._offsets[index]):
                return False
            index += 1
        return True

    def find(self, text: str, start: int, end: int) -> int:
        """Return the leftmost position in ``text[start:end]`` with a match, or -1."""
        if start + self.length > end:
            return -1
        if not self._texts:
            return start
        if len(self._texts) > 1:
            return self._find_with_holes(text, start, end)
        offset = self._offsets[0]
        behind = self.length - offset - len(self._texts[0])
        position = text.find(self._texts[0], start + offset, end - behind)
        return position - offset if position >= 0 else -1

    def _find_with_holes(self, text: str, start: int, end: int) -> int:
        """Find the segment by Shift-And.

        Bit i of ``state`` is set if the last i + 1 characters match the segment's first.
        """
        masks, holes = self._masks, self._holes
        accepted = 1 << (self.length - 1)
        first, offset = self._texts[0], self._offsets[0]
        state = 0
        position = start
        while position < end:
            if state == 0:  # no partial match: skip to the next occurrence of the first characters
                candidate = text.find(first, position + offset, end)
                if candidate < 0:
                    return -1
                position = candidate - offset
            state = ((state << 1) | 1) & masks.get(text[position], holes)
            position += 1
            if state & accepted:
                return position - self.length
        return -1


class LikePattern:
    """A compiled LIKE pattern."""

    def __init__(self, pattern: str, escape: str | None) -> None:
        """``escape`` is one character or None; raises `InvalidSelectorError` for any other value."""
        if escape is not None and (len(escape) != 1 or ord(escape) > 0xFFFF):
            raise InvalidSelectorError(f"ESCAPE must be one character, not {quoted(escape)}")
        runs = _runs(pattern, escape)
        self._whole: Final = len(runs) == 1
        self._prefix: Final = Segment(runs[0])
        self._suffix: Final = Segment(runs[-1])
        self._floating: Final[list[Segment]] = [Segment(run) for run in runs[1:-1] if run]
        length = self._prefix.length
        if not self._whole:
            length += self._suffix.length
        for segment in self._floating:
            length += segment.length
        self._shortest: Final = length
        # The most frequent form, characters and one % at the end, needs no segments.
        self._beginning: Final = "".join(runs[0]) if len(runs) == 2 and not runs[1] and _HOLE not in runs[0] else None

    def matches(self, text: str) -> bool:
        """Return True if the pattern matches the whole of ``text``."""
        beginning = self._beginning
        if beginning is not None:
            return text.startswith(beginning)
        length = len(text)
        if length < self._shortest or (self._whole and length > self._shortest):
            return False
        if not self._prefix.stands_at(text, 0):
            return False
        if self._whole:
            return True
        end = length - self._suffix.length
        if not self._suffix.stands_at(text, end):
            return False
        position = self._prefix.length
        for segment in self._floating:
            position = segment.find(text, position, end)
            if position < 0:
                return False
            position += segment.length
        return True


def _runs(pattern: str, escape: str | None) -> list[list[str]]:
    """Return the characters and holes between the ``%`` of a pattern.

    The escape character works before ``_``, ``%`` and itself only; before other characters it is literal.
    """
    runs: list[list[str]] = [[]]
    index = 0
    while index < len(pattern):
        letter = pattern[index]
        following = pattern[index + 1 : index + 2]
        if letter == escape and following and following in ("_", "%", escape):
            runs[-1].append(following)
            index += 1
        elif letter == "%":
            runs.append([])
        elif letter == "_":
            runs[-1].append(_HOLE)
        else:
            runs[-1].append(letter)
        index += 1
    return runs
