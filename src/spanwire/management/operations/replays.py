"""Replays of archives among the tasks of the broker: programs that publish how far they are.

A replay runs outside of the broker, and its status is a claim of its user. The broker keeps the last one of each run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from spanwire.management.tasks import CANCELLED, DONE, FAILED, RUNNING, Tasks
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import printable
from spanwire.transports.base import Clock

View = dict[str, object]
LETTER: Final = "P"
ID_DIGITS: Final = 8  # of a run, in the id of its task; runs that begin alike have all of them
ROUTE: Final = "pipeline replay"  # the name of the route of a replay (`spanwire.pipeline.archive.replay_watch`)
FRESH_MS: Final = 12_000  # milliseconds; a program publishes every 5 seconds
MAX_TEXT: Final = 200  # characters of a name or reason
MAX_NUMBER: Final = 1 << 53  # a number that all programs can read
MIN_SPEED: Final = 1e-6  # rows per second; below, the time left is no time
STATES: Final = {"ended": DONE, "stopped": CANCELLED, "failed": FAILED}  # others are running


class Statuses(Protocol):
    """The published statuses (`spanwire.broker.admin.published_statuses`)."""

    def rows(self, state: None) -> list[dict[str, object]]:
        """Return all statuses."""
        ...

    def stop_run(self, run: str) -> bool:
        """Let a run stop; return False without the run."""
        ...


class ReplayTasks:
    """Lists replays, and lets them stop."""

    def __init__(self, statuses: Statuses, clock: Clock, tasks: Tasks) -> None:
        self._statuses: Final = statuses
        self._clock: Final = clock
        tasks.kept[LETTER] = self

    def views(self) -> Iterator[View]:
        """Yield the replays, the oldest first."""
        for _, view in self._found():
            yield view

    async def cancel(self, arguments: Mapping[str, object]) -> View:
        """Let a replay stop after its batch, with the next status that it publishes.

        Raises:
            ConfigurationError: there is no such replay, or it has ended.
        """
        run, view = self._named(arguments)
        if view["state"] != RUNNING:
            raise ConfigurationError(f"the task {view['id']} is {view['state']}")
        self._statuses.stop_run(run)
        return view

    async def resume(self, arguments: Mapping[str, object]) -> View:
        """Refuse: the broker does not have the archive. Raises `ConfigurationError`."""
        _, view = self._named(arguments)
        raise ConfigurationError(f"the task {view['id']} is a replay: run its command again, and it goes on")

    async def undo(self, arguments: Mapping[str, object]) -> View:
        """Refuse: the broker does not know what the replay has sent. Raises `ConfigurationError`."""
        _, view = self._named(arguments)
        raise ConfigurationError(f"the task {view['id']} is a replay: run its command again with --undo")

    def _named(self, arguments: Mapping[str, object]) -> tuple[str, View]:
        task_id = str(arguments.get("id"))
        found = [(run, view) for run, view in self._found() if task_id in (view["id"], LETTER + run)]
        if not found:
            raise ConfigurationError(f"there is no task {task_id[:40]}")
        return found[-1]

    def _found(self) -> list[tuple[str, View]]:
        """Return run and row of each replay. Programs choose the names of runs, so no two have one id."""
        found = list(self._replays())
        short = Counter(run[:ID_DIGITS] for run, _ in found)
        for run, view in found:
            view["id"] = LETTER + (run[:ID_DIGITS] if short[run[:ID_DIGITS]] == 1 else run)
        return found

    def _replays(self) -> Iterator[tuple[str, View]]:
        """Yield run and row of each status of a replay; nothing of one of another form."""
        now_ms = self._clock.now().wall_ms
        for status in self._statuses.rows(None):
            try:
                content = json.loads(str(status["status"]))
            except (ValueError, RecursionError):
                continue
            routes = content.get("routes") if isinstance(content, dict) else None
            route = routes[0] if isinstance(routes, list) and len(routes) == 1 else None
            if isinstance(route, dict) and route.get("route") == ROUTE:
                yield str(status["run"]), _view(status, content, route, now_ms)


def _view(
    status: Mapping[str, object], content: Mapping[str, object], route: Mapping[str, object], now_ms: int
) -> View:
    sent, total, age_ms = _number(route, "rows"), _number(route, "total"), _number(status, "ageMs")
    state = STATES.get(_text(route, "state"), RUNNING)
    waits_for = _text(route, "waits_for")
    if state == RUNNING and age_ms > FRESH_MS:
        waits_for = (
            f"a word from {_text(content, 'host')}: the last came {age_ms // 1000} s ago, it may have been ended"
        )
    return {
        "id": "",
        "operation": "replay",
        "sources": _text(route, "source"),
        "target": _text(route, "targets"),
        "user_name": printable(str(status["user"])),
        "state": state,
        "waits_for": waits_for or None,
        "processed": sent,
        "left": 0,
        "looked": sent,
        "total": total,
        "seconds_left": _seconds_left(total - sent, route.get("rows_per_s")) if state == RUNNING else None,
        "rate": None,
        "undoable": 0,
        "undoes": None,
        "undone_by": None,
        "started_ms": _number(content, "started_at_ms"),
        "ended_ms": None if state == RUNNING else now_ms - age_ms,
        "result": None,
        "error": _text(route, "last_error") or None,
    }


def _seconds_left(rows: int, speed: object) -> int | None:
    """Return the time for ``rows`` at ``speed`` a second; None for a speed that leads to no number for all programs."""
    if not isinstance(speed, (int, float)) or not MIN_SPEED < speed < MAX_NUMBER:
        return None
    seconds = max(0, rows) / speed
    return int(seconds) if seconds < MAX_NUMBER else None


def _text(content: Mapping[str, object], name: str) -> str:
    value = content.get(name)
    return printable(value[:MAX_TEXT]) if isinstance(value, str) else ""


def _number(content: Mapping[str, object], name: str) -> int:
    value = content.get(name)
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_NUMBER
    return value if is_number and isinstance(value, int) else 0
