"""Batches of pipelines in which marked messages were, by the statuses that the pipelines publish.

A broker knows which number of a cursor a message has, and not in which batch a query has read it. The driver knows the
numbers of its batches, and publishes the last ones with its status. A status is a claim of a user: it counts for the
cursors of this user alone.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from spanwire.broker.assembly import BrokerAssembly
from spanwire.broker.following.mark import Mark, Marked

PROCESSED: Final = "processed"
MAX_ROUTES: Final = 100  # routes of one status that are read
MAX_RANGES: Final = 50  # batches of one route that are read
MAX_BATCHES: Final = 50  # batches noted of one message, which a task that is repeated reads again
MAX_LOOKS: Final = 2_000  # looks of one status at a message: each marked one in two batches
MAX_TEXT: Final = 120  # characters of a name
MAX_NUMBER: Final = 1 << 53  # a number that all programs can read

Range = tuple[int, int, int, int]  # batch, first number, number behind the last, milliseconds since 1970


def note_batches(mark: Mark, parts: BrokerAssembly) -> None:
    """Note the batches of the marked messages that cursors hold or held, each once."""
    read = [known for known in mark.marked.values() if known.numbers]
    if not read:
        return
    owners = {str(row["cursor"]): row["user"] for row in parts.cursors.table.rows(None, "")}
    held: dict[str, _Held] = {}
    for row in parts.statuses.rows(None):
        left = MAX_LOOKS
        for cursor, location, ranges, detail in _routes(row):
            if left > 0 and ranges and owners.get(cursor) == row["user"]:
                if cursor not in held:
                    held[cursor] = _Held(cursor, read)
                left -= held[cursor].note(mark, location, ranges, detail, left)


class _Held:
    """The marked messages that one cursor holds or held, by number."""

    def __init__(self, cursor: str, read: Iterable[Marked]) -> None:
        self._marked: Final = sorted(
            (one for one in read if cursor in one.numbers), key=lambda one: one.numbers[cursor]
        )
        self._numbers: Final = [one.numbers[cursor] for one in self._marked]

    def note(self, mark: Mark, location: str, ranges: Iterable[Range], detail: str, left: int) -> int:
        """Note the batches of a route with ``left`` looks at most; return the number of looks."""
        looks = 0
        for batch, start, end, at_ms in ranges:
            name = f"{location} {batch}"
            first = bisect_left(self._numbers, start)
            last = min(bisect_left(self._numbers, end), first + left - looks)
            looks += 1 + max(0, last - first)
            if looks > left:
                break
            for known in self._marked[first:last]:
                if name in known.batches or len(known.batches) >= MAX_BATCHES:
                    continue
                known.batches[name] = None
                mark.observations.add(
                    PROCESSED, known.text, known.origin, location, f"batch {batch}{detail}", known.hops, 0, at_ms
                )
        return looks


def _routes(row: Mapping[str, object]) -> Iterator[tuple[str, str, list[Range], str]]:
    """Yield cursor, name, batches and further words of each route of a status; nothing of a status of another form."""
    try:
        content = json.loads(str(row["status"]))
    except (ValueError, RecursionError):
        return
    routes = content.get("routes") if isinstance(content, dict) else None
    for route in routes[:MAX_ROUTES] if isinstance(routes, list) else ():
        if not isinstance(route, dict) or not isinstance(route.get("ranges"), list):
            continue
        ranges = [one for given in route["ranges"][-MAX_RANGES:] if (one := _range(given)) is not None]
        targets, host = _text(route, "targets"), _text(content, "host")
        detail = (f", to {targets}" if targets else "") + f", by the clock of {host}"
        name = f"route {_text(route, 'route')} of pipeline {str(row['pipeline'])[:MAX_TEXT]}"
        yield _text(route, "cursor"), name, ranges, detail


def _range(given: object) -> Range | None:
    if not isinstance(given, list) or len(given) != 4:
        return None
    numbers = [one for one in given if isinstance(one, int) and not isinstance(one, bool) and 0 <= one < MAX_NUMBER]
    return (numbers[0], numbers[1], numbers[2], numbers[3]) if len(numbers) == 4 else None


def _text(content: Mapping[str, object], name: str) -> str:
    value = content.get(name)
    return value[:MAX_TEXT] if isinstance(value, str) else ""
