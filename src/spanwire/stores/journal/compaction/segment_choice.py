"""The choice of the segment to compact.

A segment is worth compacting if most of its bytes are dead, or if the segment keeps other dead segments with the
removals of its messages. Only a segment without references to older segments is chosen: its own removals are useless,
and the empty segment can go (`index/cleanup.py`).
"""

from __future__ import annotations

from typing import Final

from spanwire.stores.journal.index.cleanup import SegmentState
from spanwire.stores.journal.index.index import JournalIndex

MAX_DEAD_SHARE: Final = 2  # times the live bytes; a larger journal is compacted
SLACK_SEGMENTS: Final = 2  # segments; so many dead bytes are always allowed
URGENT_GAIN: Final = 0.25  # bytes freed for each moved byte; on a full disk less is not worth a move


class SegmentChoice:
    """Weighs the full segments; ``live`` is the number of live records in them when they were last weighed."""

    __slots__ = ("_index", "_last", "_segment_bytes", "live")

    def __init__(self, index: JournalIndex, segment_bytes: int) -> None:
        self._index: Final[JournalIndex] = index
        self._segment_bytes: Final[int] = segment_bytes
        self._last = 0  # the newest one that was chosen
        self.live = 0

    def choose(self, active: int, room: int, is_urgent: bool) -> SegmentState | None:
        """Return a segment if too much is dead, or if it ``is_urgent``; the live part may have ``room`` bytes.

        ``active`` is being written.
        """
        last = self._index.segments.by_number.get(self._last)
        if last is not None and last.live > 0:
            last.is_whole = False  # something in it was not found: looking again would find no more
        live = 0
        used = 0
        count = 0
        sealed: list[SegmentState] = []
        for number in self._index.segments.numbers():
            state = self._index.segments.by_number[number]
            if number != active:
                used += state.end
                live += state.true_live_bytes
                count += state.live
                sealed.append(state)
        self.live = count
        if used <= live * MAX_DEAD_SHARE + SLACK_SEGMENTS * self._segment_bytes and not is_urgent:
            return None
        chosen = self._best(sealed, room, URGENT_GAIN if is_urgent else 0.0)
        if chosen is not None:
            self._last = chosen.number
        return chosen

    def _best(self, sealed: list[SegmentState], room: int, least: float) -> SegmentState | None:
        """Return the segment with the best gain above ``least`` for each written byte.

        Of equal segments the oldest is returned.
        """
        segments = self._index.segments
        kept_by: dict[int, int] = {}  # segment → dead bytes of those that only it keeps
        for state in sealed:
            only = segments.only_reference(state)
            if only > 0:
                kept_by[only] = kept_by.get(only, 0) + state.end - state.true_live_bytes
        chosen: SegmentState | None = None
        best = least
        for state in sealed:
            live = state.true_live_bytes
            if state.live <= 0 or not state.is_whole or live > room or state.number >= segments.keep_from:
                continue
            gain = (state.end - live + kept_by.get(state.number, 0)) / (live + 1)
            if gain > best and not segments.has_references(state):
                best = gain
                chosen = state
        return chosen
