"""How far a reader of a pending_list has looked. The pending_list moves the places of its readers when pieces come and go."""

from __future__ import annotations

from typing import Final


class ScanPosition:
    """How far one reader has looked down a pending_list.

    One that ``revisits`` returns to what comes back into the pending_list, and passes over what it has seen: ``seen`` is the
    highest order of the pieces it looked through, ``epoch`` that of the pending_list when it last reached the end.
    """

    __slots__ = ("epoch", "revisits", "offset", "place", "seen")

    def __init__(self, place: int, revisits: bool) -> None:
        self.revisits: Final[bool] = revisits
        self.place = place
        self.offset = 0
        self.seen = -1
        self.epoch = 0

    def is_before(self, mark: ScanPosition) -> bool:
        """Whether it has not come to ``mark``, of the same pending_list, yet."""
        return self.place < mark.place or (self.place == mark.place and self.offset < mark.offset)

    def go_to(self, mark: ScanPosition) -> None:
        """Look at everything from ``mark`` on, again if need be."""
        self.place = mark.place
        self.offset = mark.offset
        self.seen = -1
