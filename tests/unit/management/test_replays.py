"""Replays among the tasks of a broker: what their programs publish, how old it is, and the wish to stop one."""

from __future__ import annotations

import asyncio
import json

import pytest

from spanwire.management.operations.replays import ROUTE, ReplayTasks
from spanwire.management.tasks import Task, Tasks
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.replay import Progress
from spanwire.pipeline.archive.replay_watch import REPLAY, ReplayWatch
from spanwire.pipeline.watch.board import StatusBoard
from spanwire.pipeline.watch.status import encode

Row = dict[str, object]
NOW_MS = 1_700_000_100_000


class Statuses:
    """The last statuses of runs; a run that was asked to stop is in ``stopped``."""

    def __init__(self, *rows: Row) -> None:
        self.listed = list(rows)
        self.stopped: list[str] = []

    def rows(self, state: None) -> list[Row]:
        return self.listed

    def stop_run(self, run: str) -> bool:
        self.stopped.append(run)
        return True


class Clock:
    def now(self) -> Time:
        return Time(100.0, NOW_MS)


def board_of(progress: Progress) -> StatusBoard:
    board = StatusBoard("orders.replay", "1f2e3d4c5b6a", "host", NOW_MS - 60_000)
    seen: list[Progress] = []
    ReplayWatch(board, "/data/orders", "queue://A", lambda: NOW_MS, seen.append).show(progress)
    assert seen == [progress]
    return board


def published(board: StatusBoard, age_ms: int = 0) -> Row:
    return {"run": "1f2e3d4c5b6a", "user": "ann", "ageMs": age_ms, "status": encode(board.status(NOW_MS))}


def listed(*rows: Row) -> list[Row]:
    tasks = Tasks(Clock())
    ReplayTasks(Statuses(*rows), Clock(), tasks)
    return list(tasks.views())


def test_a_running_replay_is_listed_with_its_progress_and_time_left() -> None:
    (row,) = listed(published(board_of(Progress(200, 1_000, 40, "consumers of queue://A"))))
    assert set(row) == set(Task(1, "purge", "", "", 0).view())
    expected = {
        "id": "P1f2e3d4c", "operation": "replay", "sources": "/data/orders", "target": "queue://A", "user_name": "ann",
        "state": "running", "processed": 200, "total": 1_000, "seconds_left": 40,
        "waits_for": "consumers of queue://A", "started_ms": NOW_MS - 60_000, "ended_ms": None, "error": None,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_a_replay_that_is_silent_says_since_when() -> None:
    (row,) = listed(published(board_of(Progress(1, 2, None)), 40_000))
    assert row["state"] == "running"
    assert row["waits_for"] == "a word from host: the last came 40 s ago, it may have been ended"


def test_the_end_of_a_replay_is_that_of_a_task() -> None:
    done, stopped, failed = (board_of(Progress(1, 2, None)) for _ in range(3))
    done.on_end(REPLAY)
    stopped.on_stop()
    failed.on_fault("the broker is lost", NOW_MS)
    rows = listed(*(published(board, 5_000) for board in (done, stopped, failed)))
    assert [row["state"] for row in rows] == ["done", "cancelled", "failed"]
    assert [row["error"] for row in rows] == [None, None, "the broker is lost"]
    assert {row["ended_ms"] for row in rows} == {NOW_MS - 5_000}
    assert {row["waits_for"] for row in rows} == {None}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "[" * 100_000, '{"routes": 1}', '{"routes": [1]}', '{"routes": [{"route": "orders"}]}',
     json.dumps({"routes": [{"route": ROUTE}, {"route": ROUTE}]})],
)  # fmt: skip
def test_what_is_no_status_of_a_replay_is_left_out(text: str) -> None:
    assert listed({"run": "r", "user": "u", "ageMs": 0, "status": text}) == []


def test_hostile_values_of_a_status_are_cut() -> None:
    route = {"route": ROUTE, "rows": "x", "total": -1, "rows_per_s": 10**400, "source": "a" * 1_000 + "\n", "state": 7}
    status = json.dumps({"routes": [route], "started_at_ms": True})
    (row,) = listed({"run": "r", "user": "u\x1b", "ageMs": "x", "status": status})
    assert (row["processed"], row["total"], row["seconds_left"], row["started_ms"]) == (0, 0, None, 0)
    assert row["sources"] == "a" * 200
    assert "\x1b" not in str(row["user_name"])


def test_a_cancel_asks_the_program_to_stop_and_resume_and_undo_name_its_command() -> None:
    statuses = Statuses(published(board_of(Progress(1, 2, None))))
    tasks = Tasks(Clock())
    ReplayTasks(statuses, Clock(), tasks)
    row = asyncio.run(tasks.cancel({"id": "P1f2e3d4c"}))
    assert (row["state"], statuses.stopped) == ("running", ["1f2e3d4c5b6a"])
    with pytest.raises(ConfigurationError, match="run its command again, and it goes on"):
        asyncio.run(tasks.resume({"id": "P1f2e3d4c"}))
    with pytest.raises(ConfigurationError, match="with --undo"):
        asyncio.run(tasks.undo({"id": "P1f2e3d4c"}))
    with pytest.raises(ConfigurationError, match="there is no task P9"):
        asyncio.run(tasks.cancel({"id": "P9"}))
    ended = board_of(Progress(2, 2, None))
    ended.on_end(REPLAY)
    statuses.listed = [published(ended)]
    with pytest.raises(ConfigurationError, match="is done"):
        asyncio.run(tasks.cancel({"id": "P1f2e3d4c"}))


def test_runs_that_begin_alike_are_tasks_with_ids_of_their_own() -> None:
    row = published(board_of(Progress(1, 2, None)))
    statuses = Statuses({**row, "run": "1f2e3d4c5b6a"}, {**row, "run": "1f2e3d4cffff"}, {**row, "run": "1f2e3d4c"})
    tasks = Tasks(Clock())
    ReplayTasks(statuses, Clock(), tasks)
    assert [view["id"] for view in tasks.views()] == ["P1f2e3d4c5b6a", "P1f2e3d4cffff", "P1f2e3d4c"]
    asyncio.run(tasks.cancel({"id": "P1f2e3d4c5b6a"}))
    assert statuses.stopped == ["1f2e3d4c5b6a"]
    statuses.listed = statuses.listed[:1]
    asyncio.run(tasks.cancel({"id": "P1f2e3d4c5b6a"}))  # the other one has gone since it was listed
    asyncio.run(tasks.cancel({"id": "P1f2e3d4c"}))
    assert statuses.stopped == ["1f2e3d4c5b6a"] * 3


@pytest.mark.parametrize("speed", ["5e-324", "-0.0", "NaN", "Infinity", "1e-300", "0.1"])
def test_a_speed_that_leads_to_no_time_is_left_out(speed: str) -> None:
    status = f'{{"routes": [{{"route": "{ROUTE}", "rows": 0, "total": 9007199254740991, "rows_per_s": {speed}}}]}}'
    (row,) = listed({"run": "r", "user": "u", "ageMs": 0, "status": status})
    assert row["seconds_left"] is None


def test_the_broker_and_the_program_name_the_route_alike() -> None:
    assert ROUTE == REPLAY
