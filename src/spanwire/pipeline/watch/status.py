"""The status of a pipeline, and its text for the control destination.

``docs/reference/pipeline-status.md`` describes the text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Final

VERSION: Final = 1  # of the text; a reader ignores unknown keys
MAX_TEXT_BYTES: Final = 16 * 1024  # bytes of a text; a broker refuses more
MAX_ROUTES: Final = 100  # routes of one text
MAX_RANGES: Final = 20  # batches of one route, of which a trace finds the one of a message; a status is sent each 5 s
MAX_NAME: Final = 120  # characters of a name or destination
MAX_ERROR: Final = 300  # characters of the last error

STARTING: Final = "starting"
RUNNING: Final = "running"
RETRYING: Final = "retrying"
FAILED: Final = "failed"
ENDED: Final = "ended"
STOPPED: Final = "stopped"
OVER: Final = (FAILED, ENDED, STOPPED)
ORDER: Final = (FAILED, RETRYING, RUNNING, STARTING, STOPPED, ENDED)  # a text that is too long keeps the first


BatchRange = tuple[int, int, int, int]  # batch, first number of its cursor, number behind the last, time of its end


class StatusError(ValueError):
    """A text is no status."""


@dataclass(frozen=True, slots=True)
class RouteStatus:
    """One route: state, last batch, totals since the start, lag and last error.

    Times are wall milliseconds, 0 for never. ``batch`` is -1 before the first one. A lag is ``None`` if unknown.
    ``ranges`` are the last batches of a source with a cursor, the oldest first. ``total`` are the rows in all,
    0 if unknown; ``waits_for`` is said in words.
    """

    route: str
    state: str = STARTING
    source: str = ""
    targets: str = ""
    cursor: str = ""
    batch: int = -1
    batches: int = 0
    rows: int = 0
    rows_per_s: float = 0.0
    batch_ms: int = 0
    lag_messages: int | None = None
    lag_ms: int | None = None
    progress_at_ms: int = 0
    failures: int = 0
    last_error: str = ""
    failed_at_ms: int = 0
    ranges: tuple[BatchRange, ...] = ()
    total: int = 0
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """A program with its routes; ``omitted`` routes did not fit into a text."""

    pipeline: str
    run: str
    host: str
    started_at_ms: int
    at_ms: int
    routes: tuple[RouteStatus, ...]
    omitted: int = 0

    @property
    def has_ended(self) -> bool:
        """Return True if there are routes and each is over."""
        return bool(self.routes) and all(route.state in OVER for route in self.routes)


def encode(status: PipelineStatus) -> str:
    """Return the text of a status, with at most `MAX_TEXT_BYTES`.

    A text that is too long loses the ranges of batches, then routes; those with problems are kept.
    """
    ranked = sorted(status.routes, key=lambda route: ORDER.index(route.state))
    count = min(len(ranked), MAX_ROUTES)
    text = _text(status, tuple(ranked[:count]))
    if len(text) > MAX_TEXT_BYTES:
        ranked = [replace(route, ranges=()) for route in ranked]
    while True:
        text = _text(status, tuple(ranked[:count]))
        if len(text) <= MAX_TEXT_BYTES or count == 0:  # ASCII, so characters are bytes
            return text
        count = count * MAX_TEXT_BYTES // len(text) if count > 1 else 0


def decode(text: str) -> PipelineStatus:
    """Return the status of a text from another program.

    Raises:
        StatusError: the text is no status.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise StatusError("the status is no JSON") from None
    if (
        not isinstance(content, dict)
        or content.get("version") != VERSION
        or not isinstance(content.get("routes"), list)
    ):
        raise StatusError("the status is of another version")
    routes = tuple(_route_of(item) for item in content["routes"][:MAX_ROUTES] if isinstance(item, dict))
    return PipelineStatus(
        _text_of(content, "pipeline"),
        _text_of(content, "run"),
        _text_of(content, "host"),
        _number_of(content, "started_at_ms"),
        _number_of(content, "at_ms"),
        routes,
        _number_of(content, "omitted"),
    )


def _text(status: PipelineStatus, routes: tuple[RouteStatus, ...]) -> str:
    content: dict[str, object] = {"version": VERSION, **asdict(status)}
    content["routes"] = [_row(route) for route in routes]
    content["omitted"] = status.omitted + len(status.routes) - len(routes)
    return json.dumps(content, separators=(",", ":"))


def _row(route: RouteStatus) -> dict[str, object]:
    """Return the fields with values other than the defaults."""
    row = asdict(route)
    return {
        item.name: _cut(item.name, row[item.name]) for item in fields(RouteStatus) if row[item.name] != item.default
    }


def _cut(name: str, value: object) -> object:
    if isinstance(value, float):
        return round(value, 1)
    return value[: MAX_ERROR if name == "last_error" else MAX_NAME] if isinstance(value, str) else value


def _route_of(item: Mapping[str, object]) -> RouteStatus:
    state = _text_of(item, "state") or STARTING
    if state not in ORDER:
        raise StatusError(f"the status has a route with the state {state[:MAX_NAME]!r}")
    speed = item.get("rows_per_s")
    return RouteStatus(
        route=_text_of(item, "route"),
        state=state,
        source=_text_of(item, "source"),
        targets=_text_of(item, "targets"),
        cursor=_text_of(item, "cursor"),
        batch=_number_of(item, "batch", -1),
        batches=_number_of(item, "batches"),
        rows=_number_of(item, "rows"),
        rows_per_s=float(speed) if isinstance(speed, int | float) and math.isfinite(speed) else 0.0,
        batch_ms=_number_of(item, "batch_ms"),
        lag_messages=_number_of(item, "lag_messages") if "lag_messages" in item else None,
        lag_ms=_number_of(item, "lag_ms") if "lag_ms" in item else None,
        progress_at_ms=_number_of(item, "progress_at_ms"),
        failures=_number_of(item, "failures"),
        last_error=_text_of(item, "last_error"),
        failed_at_ms=_number_of(item, "failed_at_ms"),
        ranges=_ranges_of(item),
        total=_number_of(item, "total"),
        waits_for=_text_of(item, "waits_for"),
    )


def _ranges_of(item: Mapping[str, object]) -> tuple[BatchRange, ...]:
    ranges = item.get("ranges")
    found: list[BatchRange] = []
    for one in ranges if isinstance(ranges, list) else ():
        if isinstance(one, list) and len(one) == 4 and all(type(number) is int for number in one):
            found.append((one[0], one[1], one[2], one[3]))
    return tuple(found[-MAX_RANGES:])


def _text_of(content: Mapping[str, object], name: str) -> str:
    value = content.get(name, "")
    return value[:MAX_ERROR] if isinstance(value, str) else ""


def _number_of(content: Mapping[str, object], name: str, default: int = 0) -> int:
    value = content.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
