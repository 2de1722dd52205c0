"""Tasks: started, watched, cancelled, bounded in number, and forgotten."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

import pytest

from spanwire.management.handles import OPERATOR, Operator
from spanwire.management.tables.operation_table import Role
from spanwire.management.tables.work_tables import TASKS
from spanwire.management.tasks import KEPT_S, MAX_RESULT, MAX_TASKS, PROGRESS, Progress, Tasks
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError

OTTO = Operator("otto", "http://h:1", Role.OPERATE, 100.0)


class Clock:
    def __init__(self) -> None:
        self.monotonic = 1.0

    def now(self) -> Time:
        return Time(self.monotonic, int(self.monotonic * 1000))


class Work:
    """An operation that processes a message whenever the test lets it."""

    def __init__(self) -> None:
        self.steps = asyncio.Semaphore(0)
        self.error: Exception | None = None
        self.result: object = [{"removed": 1}]

    async def __call__(self, arguments: Mapping[str, object]) -> object:
        progress = arguments[PROGRESS]
        assert isinstance(progress, Progress)
        while True:
            await self.steps.acquire()
            if self.error is not None:
                raise self.error
            progress.processed += 1
            if progress.is_cancelled or progress.processed >= 3:
                return self.result


def played(scene: Callable[[Tasks, Clock], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = Clock()
        await scene(Tasks(clock), clock)

    asyncio.run(run())


async def goes_on(work: Work, steps: int) -> None:
    for _ in range(steps):
        work.steps.release()
        for _ in range(5):
            await asyncio.sleep(0)


def test_a_task_shows_its_progress_and_its_result() -> None:
    async def scene(tasks: Tasks, clock: Clock) -> None:
        work = Work()
        answer = await tasks.startable("purge", work)({"as_task": True, OPERATOR: OTTO})
        assert answer == {"task": "1"}
        await goes_on(work, 2)
        (row,) = tasks.views()
        assert (row["state"], row["processed"], row["user_name"], row["ended_ms"]) == ("running", 2, "otto", None)
        assert row.keys() == {attribute.name for attribute in TASKS.attributes}
        clock.monotonic = 3.0
        await goes_on(work, 1)
        (row,) = tasks.views()
        assert (row["state"], row["processed"], row["result"], row["ended_ms"]) == ("done", 3, [{"removed": 1}], 3_000)
        with pytest.raises(ConfigurationError, match="the task 1 is done"):
            await tasks.cancel({"id": "1"})

    played(scene)


def test_a_cancelled_task_keeps_what_it_has_done() -> None:
    async def scene(tasks: Tasks, clock: Clock) -> None:
        work = Work()
        await tasks.startable("purge", work)({"as_task": True})
        await goes_on(work, 1)
        await tasks.cancel({"id": "1"})
        await goes_on(work, 1)
        (row,) = tasks.views()
        assert (row["state"], row["processed"], row["result"]) == ("cancelled", 2, [{"removed": 1}])
        with pytest.raises(ConfigurationError, match="there is no task 9"):
            await tasks.cancel({"id": "9"})

    played(scene)


@pytest.mark.parametrize(
    ("error", "words"),
    [(ConfigurationError("there is no queue Q"), "there is no queue Q"), (RuntimeError("x"), "the broker's log")],
)
def test_a_failure_is_shown(error: Exception, words: str) -> None:
    async def scene(tasks: Tasks, clock: Clock) -> None:
        work = Work()
        work.error = error
        await tasks.startable("purge", work)({"as_task": True})
        await goes_on(work, 1)
        (row,) = tasks.views()
        assert row["state"] == "failed"
        assert str(row["error"]).startswith(words)

    played(scene)


def test_without_the_argument_the_answer_is_the_result() -> None:
    async def scene(tasks: Tasks, clock: Clock) -> None:
        async def operation(arguments: Mapping[str, object]) -> object:
            return arguments["n"]

        assert await tasks.startable("purge", operation)({"n": 5}) == 5
        assert list(tasks.views()) == []

    played(scene)


def test_tasks_are_bounded_and_forgotten_after_a_while() -> None:
    async def scene(tasks: Tasks, clock: Clock) -> None:
        work = Work()
        start = tasks.startable("purge", work)
        for _ in range(MAX_TASKS):
            await start({"as_task": True})
        with pytest.raises(ConfigurationError, match="tasks are running"):
            await start({"as_task": True})
        await goes_on(work, 3 * MAX_TASKS)
        await start({"as_task": True})
        assert next(iter(tasks.views()))["id"] == "2"
        clock.monotonic += KEPT_S
        assert [row["state"] for row in tasks.views()] == ["running"]

    played(scene)


def test_a_long_result_is_left_out() -> None:
    async def scene(tasks: Tasks, clock: Clock) -> None:
        work = Work()
        work.result = ["x" * MAX_RESULT]
        await tasks.startable("purge", work)({"as_task": True})
        await goes_on(work, 3)
        (row,) = tasks.views()
        assert (row["state"], row["result"]) == ("done", None)

    played(scene)


def test_the_audit_names_the_user_of_a_task_and_none_where_the_command_line_began_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(tasks: Tasks, _clock: Clock) -> None:
        for operator in ({OPERATOR: OTTO}, {}):
            work = Work()
            await tasks.startable("purge", work)({"as_task": True, **operator})
            await goes_on(work, 3)

    with caplog.at_level(logging.INFO, "spanwire.audit"):
        played(scene)
    lines = [record.message for record in caplog.records if record.name == "spanwire.audit"]
    assert lines == ["task 1 of user otto: purge done, 3 messages", "task 2: purge done, 3 messages"]
