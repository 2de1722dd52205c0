"""Offsets in Spark's checkpoint: the last segment of a batch, or the first sequence after the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.storage.state_format import check_format

SEGMENT: Final = "segment"
CURSOR: Final = "cursor"
NUMBER: Final = "number"
SOURCES: Final = "sources"
CHECKPOINT: Final = "the checkpoint"


def offset(segment: int) -> dict[str, int]:
    """Return the offset after the segment with a number."""
    return {SEGMENT: segment}


def segment_of(value: Mapping[str, object]) -> int:
    """Return the segment number of an offset.

    Raises:
        ConfigurationError: the offset belongs to another source.
    """
    check_format(value, CHECKPOINT)
    number = value.get(SEGMENT)
    if not isinstance(number, int) or number < 0:
        raise ConfigurationError(
            "spanwire: the checkpoint belongs to another source; choose another checkpointLocation"
        )
    return number


def segments_between(start: Mapping[str, object], end: Mapping[str, object]) -> list[int]:
    """Return the number of a batch's segment as a list, empty for an empty batch.

    A batch never has more than one segment. Numbers between ``start`` and ``end`` need not have a segment, for example
    if a new checkpoint begins with an unconfirmed segment of a crash.
    """
    last = segment_of(end)
    return [last] if last > segment_of(start) else []


def cursor_offset(cursor: str, number: int) -> dict[str, object]:
    """Return the offset after all messages of a cursor below the sequence ``number``."""
    return {CURSOR: cursor, NUMBER: number}


def number_of(value: Mapping[str, object], cursor: str) -> int:
    """Return the sequence of an offset of a cursor.

    Raises:
        ConfigurationError: the offset belongs to another source.
    """
    check_format(value, CHECKPOINT)
    number = value.get(NUMBER)
    if not isinstance(number, int) or number < 0 or value.get(CURSOR) != cursor:
        owner = "another source" if value.get(CURSOR) is None else f"the cursor {value.get(CURSOR)!r}"
        raise ConfigurationError(
            f"spanwire: the checkpoint belongs to {owner}, not to the cursor {cursor!r}; choose another "
            "checkpointLocation"
        )
    return number


def sources_offset(numbers: Mapping[str, int]) -> dict[str, object]:
    """Return the offset of several sources, from the numbers by source name.

    Equal numbers make equal texts, because Spark compares texts.
    """
    return {SOURCES: dict(sorted(numbers.items()))}


def numbers_of(value: Mapping[str, object]) -> dict[str, int]:
    """Return the numbers of an offset of several sources, by source name.

    A source in the end offset alone joins the query: the batch has no row of the source, and the next batch begins at
    the number.

    Raises:
        ConfigurationError: the offset belongs to a query with one source.
    """
    check_format(value, CHECKPOINT)
    numbers = value.get(SOURCES)
    if not isinstance(numbers, dict) or not all(isinstance(number, int) for number in numbers.values()):
        raise ConfigurationError(
            "spanwire: the checkpoint belongs to a query without the option brokers; choose another checkpointLocation"
        )
    return dict(numbers)


def changed(start: Mapping[str, int], end: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return the first and last number of each source with rows between two offsets, ordered by name."""
    return {name: (start[name], end[name]) for name in sorted(end) if name in start and end[name] > start[name]}
