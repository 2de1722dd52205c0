"""The commands of the pages about tasks are understood; `tests/spark/test_task_pages.py` runs them."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from spanwire.cli import spark_parts
from spanwire.cli.main import main
from spanwire.cli.pipeline import pipeline, pipeline_replay, pipeline_report
from spanwire.pipeline.archive.replay import ReplayEnd
from spanwire.testing.broker import Broker
from tests.support.task_pages import blocks, pages

SPARK = (pipeline.RUN, pipeline.ARCHIVE, pipeline_replay.REPLAY, pipeline_replay.PLAN, pipeline_report.REPORT)
ANSWERS = {pipeline_replay.PLAN: [], pipeline_replay.REPLAY: ReplayEnd(1, 1, 0)}
COMMANDS = [(page, title) for page in pages() for title, text in blocks(page).items() if text.startswith("spanwire ")]
PROGRAMS = [(page, title) for page in pages() for title, text in blocks(page).items() if "import " in text]


def test_there_is_a_page_for_each_task() -> None:
    assert pages() == [
        "archive-a-queue", "bridge-two-brokers", "feed-a-table", "find-lost-messages", "replay-a-day",
    ]  # fmt: skip
    assert len(COMMANDS) == 12 and len(PROGRAMS) == 2


@pytest.mark.parametrize(("page", "title"), COMMANDS)
def test_a_command_reaches_spark_or_the_broker(
    page: str,
    title: str,
    spanwire_broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = blocks(page)
    for name, text in found.items():
        if name.endswith(".yaml"):
            (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    called: list[str] = []

    def load(reference: str) -> Callable[..., object]:
        if reference not in SPARK:
            return spark_parts.load(reference)
        called.append(reference)
        return lambda *_: ANSWERS.get(reference, 1)

    for module in (pipeline, pipeline_replay, pipeline_report):
        monkeypatch.setattr(module, "load", load)
    monkeypatch.setattr(pipeline_report, "TEXT", "builtins:str")
    words = shlex.split(found[title].replace("\\\n", " "))
    words = [spanwire_broker.url if word.startswith("tcp://127.0.0.1") else word for word in words]
    status = main(words[1:])
    if words[2] == "stop":  # nothing runs
        assert (status, called) == (1, [])
        assert f"there is no pipeline '{words[3]}'" in capsys.readouterr().err
    else:
        assert status == 0
        assert len(called) == int(words[2] != "status" and title != "plan")


@pytest.mark.parametrize(("page", "title"), PROGRAMS)
def test_a_program_is_python(page: str, title: str) -> None:
    ast.parse(blocks(page)[title])
