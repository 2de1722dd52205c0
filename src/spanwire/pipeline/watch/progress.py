"""Reads Spark's progress reports, for batches and for idle queries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spanwire.pipeline.source.offsets import CURSOR, NUMBER

EXECUTED: Final = "addBatch"  # key in the durations of an executed batch; an empty poll has no such key
WAITING: Final = "waiting"  # messages behind the reservation of a cursor
LAGS: Final = "lag"  # lag by source of a stream of several: messages behind a cursor, else such an age
BEHIND_MS: Final = "behindMs"  # age of the last received message at its reception


@dataclass(frozen=True, slots=True)
class Lag:
    """The distance of a query from the end of the sources; ``None`` if no source reports a distance."""

    messages: int | None
    milliseconds: int | None


def lag_of(progress: Mapping[str, object], has_cursor: bool = False) -> Lag:
    """Return the lag: the sum of the messages, the largest of the times.

    ``has_cursor`` tells the unit of a stream of several sources.
    """
    messages: list[int] = []
    times: list[int] = []
    for source in _sources(progress):
        offset = _latest_offset(source)
        messages += _numbers([offset.get(WAITING)])
        times += _numbers([offset.get(BEHIND_MS)])
        lags = offset.get(LAGS)
        if isinstance(lags, dict):
            (messages if has_cursor else times).extend(_numbers(list(lags.values())))
    return Lag(sum(messages) if messages else None, max(times) if times else None)


def cursor_range(progress: Mapping[str, object]) -> tuple[str, int, int] | None:
    """Return the cursor of a batch, its first number there and that behind its last; None without a single cursor.

    Spark does not say where the first batch of a query begins, so its count of rows does.
    """
    sources = _sources(progress)
    if len(sources) != 1:
        return None
    start, end = _offset(sources[0], "startOffset"), _offset(sources[0], "endOffset")
    cursor, last = end.get(CURSOR), _number(end.get(NUMBER))
    if not isinstance(cursor, str) or last is None:
        return None
    return cursor, _number(start.get(NUMBER), max(0, last - rows_of(progress))) or 0, last


def has_worked(progress: Mapping[str, object]) -> bool:
    """Return True if a batch was executed, False for a poll without new messages."""
    durations = progress.get("durationMs")
    return bool(progress.get("numInputRows")) or (isinstance(durations, dict) and EXECUTED in durations)


def batch_of(progress: Mapping[str, object]) -> int:
    """Return the number of the batch, or -1."""
    return _number(progress.get("batchId"), -1) or 0


def rows_of(progress: Mapping[str, object]) -> int:
    """Return the number of read rows."""
    return _number(progress.get("numInputRows"), 0) or 0


def speed_of(progress: Mapping[str, object]) -> float:
    """Return the rows per second of a batch."""
    speed = progress.get("processedRowsPerSecond")
    return float(speed) if isinstance(speed, int | float) else 0.0


def duration_ms_of(progress: Mapping[str, object]) -> int:
    """Return the duration of a batch in milliseconds."""
    durations = progress.get("durationMs")
    total = durations.get("triggerExecution") if isinstance(durations, dict) else None
    return _number(total, 0) or 0


def _sources(progress: Mapping[str, object]) -> list[object]:
    sources = progress.get("sources")
    return list(sources) if isinstance(sources, list | tuple) else []


def _latest_offset(source: object) -> Mapping[str, object]:
    return _offset(source, "latestOffset")


def _offset(source: object, name: str) -> Mapping[str, object]:
    text = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
    if isinstance(text, Mapping):
        return text
    try:
        offset = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return offset if isinstance(offset, dict) else {}


def _numbers(values: list[object]) -> list[int]:
    return [number for value in values if (number := _number(value)) is not None]


def _number(value: object, default: int | None = None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
