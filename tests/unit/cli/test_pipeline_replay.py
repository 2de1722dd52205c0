"""What ``spanwire pipeline replay`` prints: dry run, progress, end and undo, in the words of a move."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import datetime

import pytest

from spanwire.cli.main import main
from spanwire.cli.pipeline import pipeline_replay
from spanwire.cli.pipeline.pipeline_progress import CLEAR
from spanwire.cli.pipeline.pipeline_replay import ReplayProgress, progress_text
from spanwire.cli.spark_parts import load
from spanwire.pipeline.archive.commands import plan_row
from spanwire.pipeline.archive.replay import Progress, ReplayEnd
from spanwire.pipeline.archive.replay_undo import UndoResult
from spanwire.pipeline.archive.selection import DestinationTotal

WAITING = Progress(40, 100, 65, "consumers of queue://B")


def replaces(monkeypatch: pytest.MonkeyPatch, reference: str, answer: object) -> list[tuple[object, ...]]:
    """Let a part with Spark answer; the list of what it was asked."""
    asked: list[tuple[object, ...]] = []

    def loaded(name: str) -> Callable[..., object]:
        if name != reference:
            return load(name)

        def part(*arguments: object) -> object:
            asked.append(arguments)
            return answer

        return part

    monkeypatch.setattr(pipeline_replay, "load", loaded)
    return asked


def test_a_dry_run_counts_and_shows_messages_as_that_of_a_move(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, last = datetime(2026, 1, 31, 12), datetime(2026, 2, 1)
    total = DestinationTotal("queue://A", 2, first, last)
    rows = [
        plan_row(total, ["ID:1", "ID:2"], "queue://B"),
        plan_row(DestinationTotal("queue://C", 1, None, None), [], None),
    ]
    asked = replaces(monkeypatch, pipeline_replay.PLAN, rows)
    assert main(["pipeline", "replay", "archive", "--to", "queue://B", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "queue://A: 2 messages would be replayed, sent from 2026-01-31 12:00:00 to 2026-02-01 00:00:00",
        "  ID:1 to queue://B",
        "  ID:2 to queue://B",
        "queue://C: 1 messages would be replayed",
        "nothing was changed",
    ]
    assert asked[0][2] == "queue://B"


def test_a_dry_run_without_messages_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replaces(monkeypatch, pipeline_replay.PLAN, [])
    assert main(["pipeline", "replay", "archive", "--dry-run"]) == 0
    assert capsys.readouterr().out == "no messages would be replayed\nnothing was changed\n"


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (ReplayEnd(100, 100, 40), "replay: sent 100 messages\n"),
        (ReplayEnd(0, 0, 0), "replay: sent 0 messages\n"),
        (ReplayEnd(40, 100, 0), "replay: sent 40 messages, left 60; the same command goes on\n"),
        (
            ReplayEnd(100, 100, 100),
            "replay: sent nothing, as all 100 messages were sent before; delete archive.replay to replay anew\n",
        ),
    ],
)
def test_the_end_says_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], end: ReplayEnd, line: str
) -> None:
    monkeypatch.setattr(pipeline_replay, "stop_on_signals", lambda stop: None)
    asked = replaces(monkeypatch, pipeline_replay.REPLAY, end)
    assert main(["pipeline", "replay", "archive/", "--rate", "5", "--follow"]) == 0
    assert capsys.readouterr().out == line
    assert asked[0][3:6] == ("archive.replay", 5, True)


def test_an_undo_counts_what_it_took_back_and_has_no_dry_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = replaces(monkeypatch, pipeline_replay.UNDO, UndoResult(8, 1, 2))
    assert main(["pipeline", "replay", "archive", "--undo", "--state", "s"]) == 0
    assert capsys.readouterr().out == "replay: removed 8, gone 1, in use 2\n"
    assert asked[0][1] == "s"
    assert main(["pipeline", "replay", "archive", "--undo", "--dry-run"]) != 0
    assert "leave out --undo or --dry-run" in capsys.readouterr().err
    assert len(asked) == 1


def test_progress_has_the_time_left_and_what_is_waited_for() -> None:
    assert progress_text(WAITING) == "replay: 40 of 100 messages, 1 min 5 s left, waits for consumers of queue://B"
    assert progress_text(Progress(0, 100, None)) == "replay: 0 of 100 messages"


@pytest.mark.parametrize(
    ("as_json", "is_terminal", "shown"),
    [
        (True, False, '{"sent": 1, "total": 2, "seconds_left": 3, "waits_for": ""}\n' * 3),
        (False, True, f"{CLEAR}replay: 1 of 2 messages, 3 s left" * 3 + "\n"),
        (False, False, "replay: 1 of 2 messages, 3 s left\n"),
    ],
)
def test_a_terminal_has_one_line_and_a_file_one_in_some_seconds(as_json: bool, is_terminal: bool, shown: str) -> None:
    stream, times = io.StringIO(), iter([0.0, 1.0, 5.0, 5.0, 6.0])
    progress = ReplayProgress(stream, as_json, is_terminal, lambda: next(times))
    for _ in range(3):
        progress.show(Progress(1, 2, 3))
    progress.end()
    assert stream.getvalue() == shown
