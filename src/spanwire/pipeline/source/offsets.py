"""What Spark's checkpoint keeps of a source: the number of the last segment that belongs to a batch, or with a cursor
the number of the first message that does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spanwire.model.errors import ConfigurationError

SEGMENT: Final = "segment"
CURSOR: Final = "cursor"
NUMBER: Final = "number"


def offset(segment: int) -> dict[str, int]:
    """Everything up to the segment of that number."""
    return {SEGMENT: segment}


def segment_of(value: Mapping[str, object]) -> int:
    """The number in an offset. Raises `ConfigurationError` for an offset of something else."""
    number = value.get(SEGMENT)
    if not isinstance(number, int) or number < 0:
        raise ConfigurationError(
            "spanwire: the checkpoint belongs to another source; choose another checkpointLocation"
        )
    return number


def segments_between(start: Mapping[str, object], end: Mapping[str, object]) -> list[int]:
    """The numbers of the segments of a batch: the last one, for a batch never has more. Numbers between the two need
    not have a segment, as when a crash has left one that is not settled and a new checkpoint begins with it.
    """
    last = segment_of(end)
    return [last] if last > segment_of(start) else []


def cursor_offset(cursor: str, number: int) -> dict[str, object]:
    """Everything of a cursor below that number."""
    return {CURSOR: cursor, NUMBER: number}


def number_of(value: Mapping[str, object], cursor: str) -> int:
    """The number in an offset of this cursor. Raises `ConfigurationError` for an offset of something else."""
    number = value.get(NUMBER)
    if not isinstance(number, int) or number < 0 or value.get(CURSOR) != cursor:
        owner = "another source" if value.get(CURSOR) is None else f"the cursor {value.get(CURSOR)!r}"
        raise ConfigurationError(
            f"spanwire: the checkpoint belongs to {owner}, not to the cursor {cursor!r}; choose another "
            "checkpointLocation"
        )
    return number
