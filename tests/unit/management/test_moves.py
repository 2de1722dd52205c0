"""Moves as an operator orders them: started as tasks, counted in a dry run, shown, cancelled, resumed and undone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from spanwire.management.commands import broker_operations
from spanwire.management.handles import OPERATOR, Operator
from spanwire.management.tables.operation_table import Role
from spanwire.management.tables.work_tables import TASKS
from spanwire.management.tasks import Tasks
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError, IllegalStateError, InvalidSelectorError
from spanwire.model.message import Message
from tests.support.dialogue.broker_dialogue import Stage

OTTO = Operator("otto", "http://h:1", Role.OPERATE, 100.0)


class Office:
    """The operations of a stage's broker, and its tasks."""

    def __init__(self, count: int = 4) -> None:
        self.stage = Stage()
        peer = self.stage.peer("p")
        for number in range(count):
            peer.sends("queue://A", f"{number}", properties={"n": number})
        self.stage.settle()
        self.tasks = Tasks(self)
        self.operations = broker_operations(self.stage.broker, self, lambda: None, _nothing, self.tasks)

    def now(self) -> Time:
        return self.stage.now

    def asks(self, command: str, **arguments: object) -> object:
        """The answer to a request; the broker does its work meanwhile."""
        return asyncio.run(self._asked(command, {OPERATOR: OTTO, **arguments}))

    async def _asked(self, command: str, arguments: Mapping[str, object]) -> object:
        answer = asyncio.ensure_future(self.operations[command](arguments))
        for _ in range(20):
            await asyncio.sleep(0)
            if answer.done():
                break
            self.stage.settle()
        return await answer

    def row(self, task_id: str) -> dict[str, object]:
        return next(row for row in self.tasks.views() if row["id"] == task_id)

    def moves(self, **arguments: object) -> object:
        return self.asks("move", destinations=["A"], target="B", **arguments)


async def _nothing(*_: object) -> list[Message | None]:
    return []


def test_a_move_as_a_task_is_shown_with_its_progress_and_its_result() -> None:
    office = Office()
    assert office.moves(as_task=True, selector="n > 0", rate=10) == {"task": "M1"}
    office.stage.settle()
    row = office.row("M1")
    assert row.keys() == {attribute.name for attribute in TASKS.attributes}
    shown = {name: row[name] for name in ("operation", "sources", "target", "user_name", "state", "processed", "rate")}
    assert shown == {
        "operation": "move", "sources": "queue://A", "target": "queue://B", "user_name": "otto", "state": "running",
        "processed": 1, "rate": 10,
    }  # fmt: skip
    assert (row["total"], row["result"], row["ended_ms"]) == (4, None, None)
    for _ in range(5):
        office.stage.waits(0.1)
        office.stage.settle()
    row = office.row("M1")
    assert (row["state"], row["undoable"]) == ("done", 3)
    assert row["result"] == [{"destination": "queue://A", "moved": 3, "left": 0}]


def test_an_undo_is_a_task_that_names_the_other() -> None:
    office = Office()
    office.moves(as_task=True)
    office.stage.settle()
    assert office.asks("task-undo", id="M1") == {"task": "M2"}
    office.stage.settle()
    assert (office.row("M1")["undone_by"], office.row("M2")["undoes"]) == ("M2", "M1")
    assert office.row("M2")["result"] == [{"task": "M1", "returned": 4, "gone": 0, "in_use": 0}]
    assert office.row("M1")["undoable"] == 0
    assert office.stage.view("queue://A").pending == 4


def test_a_task_is_cancelled_and_resumed() -> None:
    office = Office()
    office.moves(as_task=True, rate=10)
    office.stage.settle()
    view = office.asks("task-cancel", id="M1")
    assert isinstance(view, dict) and view["state"] == "running"
    office.stage.waits(1)
    office.stage.settle()
    row = office.row("M1")
    assert (row["state"], row["result"]) == ("cancelled", [{"destination": "queue://A", "moved": 1, "left": 0}])
    assert office.asks("task-resume", id="M1") == {"task": "M1"}
    for _ in range(5):
        office.stage.waits(0.1)
        office.stage.settle()
    assert (office.row("M1")["state"], office.row("M1")["processed"]) == ("done", 4)


def test_a_dry_run_counts_the_messages_of_each_queue_and_shows_some() -> None:
    office = Office()
    office.stage.peer("q").sends("queue://A2", "x", properties={"n": 9})
    rows = office.asks("move", destinations=["A", "A2"], target="B", selector="n > 2", dry_run=True)
    assert isinstance(rows, list)
    assert [(row["destination"], row["would_be"], row["left"]) for row in rows] == [
        ("queue://A", 1, 0), ("queue://A2", 1, 0),
    ]  # fmt: skip
    (sampled,) = rows[0]["sample"]
    assert (sampled["message_id"], sampled["target"]) == ("ID:p:1:1:1:4", "queue://B")
    assert list(office.tasks.views()) == []
    assert not office.stage.has("queue://B")


def test_a_move_without_a_task_is_answered_at_its_end() -> None:
    office = Office()
    assert office.moves() == [{"destination": "queue://A", "moved": 4, "left": 0}]
    assert list(office.tasks.views()) == []


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"rate": 5}, ConfigurationError, "rate needs a task: give as_task, too"),
        ({"follow": True}, ConfigurationError, "follow needs a task: give as_task, too"),
        ({"rate": -1, "as_task": True}, ConfigurationError, "rate is no number of messages a second"),
        ({"rate": 10**9, "as_task": True}, ConfigurationError, "rate is no number of messages a second"),
        ({"rate": "5", "as_task": True}, ConfigurationError, "rate is no number of messages a second"),
        ({"selector": "n >", "as_task": True}, InvalidSelectorError, "n >"),
        ({"destinations": ["NONE"], "as_task": True}, ConfigurationError, "there is no queue NONE"),
    ],
)
def test_a_wrong_argument_is_refused(arguments: dict[str, object], error: type[Exception], words: str) -> None:
    office = Office()
    with pytest.raises(error, match=words):
        office.asks("move", **{"destinations": ["A"], "target": "B", **arguments})
    assert list(office.tasks.views()) == []


@pytest.mark.parametrize("command", ["task-undo", "task-resume", "task-cancel"])
def test_an_unknown_task_is_refused(command: str) -> None:
    with pytest.raises(IllegalStateError, match="there is no task M7"):
        Office().asks(command, id="M7")
    with pytest.raises((IllegalStateError, ConfigurationError), match="there is no task 7"):
        Office().asks(command, id="7")
