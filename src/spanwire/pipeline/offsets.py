"""What Spark's checkpoint keeps of a source: the number of the last segment that belongs to a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spanwire.model.errors import ConfigurationError

SEGMENT: Final = "segment"


def offset(segment: int) -> dict[str, int]:
    """Everything up to the segment of that number."""
    return {SEGMENT: segment}


def segment_of(found: Mapping[str, object]) -> int:
    """The number in an offset. Raises `ConfigurationError` for an offset of something else."""
    number = found.get(SEGMENT)
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
