"""How far a reader of a line has looked. The line moves the places of its readers when pieces come and go."""

from __future__ import annotations

from typing import Final


class LineCursor:
    """How far one reader has looked down a line.

    One that ``looks_back`` returns to what comes back into the line, and passes over what it has seen: ``seen`` is the
    highest order of the pieces it looked through, ``epoch`` that of the line when it last reached the end.
    """

    __slots__ = ("epoch", "looks_back", "offset", "place", "seen")

    def __init__(self, place: int, looks_back: bool) -> None:
        self.looks_back: Final[bool] = looks_back
        self.place = place
        self.offset = 0
        self.seen = -1
        self.epoch = 0

    def is_before(self, mark: LineCursor) -> bool:
        """Whether it has not come to ``mark``, of the same line, yet."""
        return self.place < mark.place or (self.place == mark.place and self.offset < mark.offset)

    def go_to(self, mark: LineCursor) -> None:
        """Look at everything from ``mark`` on, again if need be."""
        self.place = mark.place
        self.offset = mark.offset
        self.seen = -1
