"""`kill -9` of a broker in the middle of a move and of its undo, and the commands about moves against a broker."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.client.blocking import connect
from spanwire.management.control_client import ControlClient
from tests.service.started import TIMEOUT_S, Started

COUNT = 600
RATE = 400  # messages a second: the kill comes in the middle


def sends(broker: Started, queue: str, count: int) -> None:
    with connect(broker.broker_url) as connection, connection.session() as session:
        producer = session.create_producer(f"queue://{queue}")
        for number in range(count):
            producer.send(f"{number}", {"number": number})


def asked(broker: Started, command: str, **arguments: object) -> object:
    return ControlClient(broker.data, TIMEOUT_S).ask(command, **arguments)


def task(broker: Started, task_id: str) -> dict[str, object]:
    rows = asked(broker, "tasks")
    assert isinstance(rows, list)
    return next(row for row in rows if row["id"] == task_id)


def reaches(broker: Started, task_id: str, processed: int) -> dict[str, object]:
    """The row of a task that has processed so many messages, or has ended."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        row = task(broker, task_id)
        done = row["processed"]
        assert isinstance(done, int)
        if done >= processed or row["state"] != "running":
            return row
        time.sleep(0.02)
    raise AssertionError(f"the task {task_id} does not get there: {task(broker, task_id)}")


def killed(broker: Started) -> None:
    """The broker ends as by a crash of its machine, and starts again."""
    os.kill(broker.pid, signal.SIGKILL)
    broker.ended()
    broker.start()


def received(broker: Started, queue: str) -> list[int]:
    with connect(broker.broker_url) as connection, connection.session() as session:
        consumer = session.create_consumer(f"queue://{queue}")
        numbers: list[int] = []
        while (message := consumer.receive(0.5)) is not None:
            numbers.append(int(message.text))
        return numbers


def test_a_move_and_its_undo_go_on_after_kill_9_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        sends(broker, "FROM", COUNT)
        started = asked(broker, "move", destinations=["FROM"], target="TO", as_task=True, rate=RATE)
        assert started == {"task": "M1"}
        assert reaches(broker, "M1", COUNT // 3)["state"] == "running"
        killed(broker)
        row = reaches(broker, "M1", COUNT + 1)
        assert (row["state"], row["processed"], row["undoable"]) == ("done", COUNT, COUNT)
        assert asked(broker, "task-undo", id="M1") == {"task": "M2"}
        assert reaches(broker, "M2", COUNT // 3)["state"] == "running"
        killed(broker)
        row = reaches(broker, "M2", COUNT + 1)
        assert row["result"] == [{"task": "M1", "returned": COUNT, "gone": 0, "in_use": 0}]
        assert received(broker, "TO") == []
        assert Counter(received(broker, "FROM")) == Counter(range(COUNT))


def test_the_commands_move_show_and_undo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Started(tmp_path) as broker:

        def told(*words: str, status: int = 0) -> str:
            assert main([*words, "--data-directory", str(broker.data)]) == status
            printed = capsys.readouterr()
            return printed.out + printed.err

        sends(broker, "ORDERS", 5)
        words = ("queue", "move", "ORDERS", "--target", "PARKED", "--selector", "number > 1")
        dry = told(*words, "--dry-run").splitlines()
        assert dry[0] == "queue://ORDERS: 3 messages would be moved"
        assert dry[1].endswith(" bytes") and " to queue://PARKED, " in dry[1]
        assert dry[-1] == "nothing was changed"
        assert told(*words, "--rate", "1000") == "queue://ORDERS: moved 3, left 0\n"
        (row,) = json.loads(told("task", "list", "--json"))
        assert (row["id"], row["state"], row["undoable"]) == ("M1", "done", 3)
        assert told("task", "undo", "M1") == "M1: returned 3, gone 0, in use 0\n"
        assert sorted(received(broker, "ORDERS")) == [0, 1, 2, 3, 4]
        sends(broker, "ORDERS", 5)
        assert told(*words, "--background", "--rate", "1") == (
            "task M3 goes on; spanwire task show M3 shows its progress\n"
        )
        assert told("task", "cancel", "M3").startswith("M3: ")
        assert reaches(broker, "M3", 5)["state"] == "cancelled"
        assert told("task", "resume", "M3", status=0) == "queue://ORDERS: moved 3, left 0\n"
        assert "there is no task M9" in told("task", "undo", "M9", status=1)
        assert "is done: only a cancelled or failed one is resumed" in told("task", "resume", "M1", status=1)
