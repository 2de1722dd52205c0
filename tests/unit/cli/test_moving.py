"""What the command line says of a move: its dry run, its progress and its end."""

from __future__ import annotations

from typing import cast

import pytest

from spanwire.cli.management.moving import begin, preview_text, progress
from spanwire.management.control_client import ControlClient, ControlError
from spanwire.model.errors import ConfigurationError


class Client:
    """Duck-typed to `ControlClient`; a task has the given states, one after the other."""

    def __init__(self, *rows: dict[str, object]) -> None:
        self.rows = list(rows)
        self.asked: list[tuple[str, dict[str, object]]] = []

    def ask(self, command: str, **arguments: object) -> object:
        if command != "tasks":
            self.asked.append((command, arguments))
            return {"task": "M1"}
        return [{"id": "1"}, self.rows.pop(0) if len(self.rows) > 1 else self.rows[0]]


def row(state: str, **values: object) -> dict[str, object]:
    return {"id": "M1", "state": state, "processed": 3, "undoable": 3, "error": None, "result": [], **values}


def begins(client: Client, background: bool = False) -> object:
    return begin(cast(ControlClient, client), "move", {"target": "B"}, background)


def test_the_row_of_the_ended_task_is_returned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(row("running"), row("running"), row("done"))
    assert begins(client) == row("done")
    assert client.asked == [("move", {"target": "B"})]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert begins(Client(row("running"), row("done"))) == row("done")
    shown = capsys.readouterr().err
    assert shown == "\r\x1b[Ktask M1: 3 messages\nspanwire task undo M1 brings back what nobody has consumed\n"


def test_a_task_in_the_background_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert begins(Client(row("running")), background=True) is None
    assert capsys.readouterr().out == "task M1 goes on; spanwire task show M1 shows its progress\n"


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (row("failed", error="no target"), "the task M1 failed: no target; spanwire task resume M1 goes on"),
        (row("cancelled"), "was cancelled after 3 messages; spanwire task resume M1 goes on, spanwire task undo M1"),
    ],
)
def test_another_end_is_an_error_that_says_what_to_do(ended: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        begins(Client(ended))


def test_a_task_that_is_no_longer_listed_is_an_error() -> None:
    with pytest.raises(ControlError, match="the task M1 is not listed any more"):
        begins(Client({"id": "M2"}))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "task M1: 3 messages"),
        ({"looked": 5, "total": 10, "seconds_left": 59}, "task M1: 3 messages, looked at 5 of 10, 59 s left"),
        ({"seconds_left": 61}, "task M1: 3 messages, 1 min 1 s left"),
        ({"seconds_left": 7_260}, "task M1: 3 messages, 2 h 1 min left"),
        ({"waits_for": "room on the disk"}, "task M1: 3 messages, waits for room on the disk"),
    ],
)
def test_progress_is_one_line(values: dict[str, object], text: str) -> None:
    assert progress(row("running", **values)) == text


def test_a_dry_run_lists_counts_and_a_sample() -> None:
    sample = [{"message_id": "ID:1", "target": "queue://B", "size_bytes": 700}]
    rows = [{"destination": "queue://A", "would_be": 1, "left": 2, "sample": sample}]
    assert preview_text("retry", rows).splitlines() == [
        "queue://A: 1 messages would be retried, 2 would stay",
        "  ID:1 to queue://B, 700 bytes",
        "nothing was changed",
    ]
