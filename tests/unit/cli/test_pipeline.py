from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.cli.pipeline import line_of, moment, printer, trigger_of
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.supervisor import News

ROUTE = """- from: {uri: "shop:queue:A", steps: [{to: "json:{{out}}"}]}\n"""


def test_a_dry_run_tells_the_plan_and_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(ROUTE)
    words = ["pipeline", "run", str(file), "--dry-run", "-D", "out=/x", "--broker", "shop=tcp://h:1"]
    assert main(words) == 0
    assert capsys.readouterr().out == "route route1\n  from queue://A (url=tcp://h:1)\n  to json:/x\n"
    assert [path.name for path in tmp_path.iterdir()] == ["routes.yaml"]


def test_a_mistake_in_the_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(ROUTE)
    assert main(["pipeline", "run", str(file), "--dry-run", "-D", "out=/x"]) == 1
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1
    assert f"{file}:1: there is no endpoint scheme 'shop'; the closest is" in told.err
    assert main(["pipeline", "run", str(tmp_path / "none.yaml"), "--dry-run"]) == 1
    assert "No such file" in capsys.readouterr().err


def test_a_command_that_nobody_knows_is_told_with_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "replai"]) == 2
    assert capsys.readouterr().err == "spanwire pipeline: there is no command 'replai'; the closest is 'replay'\n"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("available-now", "available-now"),
        ("interval", "1 second"),
        ("interval=500ms", "500 milliseconds"),
        ("interval=5s", "5 seconds"),
        ("interval=1m", "1 minutes"),
    ],
)
def test_triggers_as_spark_says_them(text: str, word: str) -> None:
    assert trigger_of(text) == word


@pytest.mark.parametrize("text", ["now", "interval=5", "interval=-5s", "interval=5h", "available-now=1s"])
def test_a_trigger_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--trigger"):
        trigger_of(text)


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert moment("since", None) is None
    assert moment("since", "2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC)
    assert moment("since", "2026-01-31T12:00:00+02:00") == datetime(2026, 1, 31, 10, tzinfo=UTC)
    with pytest.raises(ConfigurationError, match="--until is 'tomorrow'"):
        moment("until", "tomorrow")


def test_news_are_lines_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    news = News("orders", "30 rows", 3, 30, 1234.5, 250)
    assert line_of(news) == "orders: batch 3, 30 rows, 1234 rows/s, 0.2 s behind"
    assert line_of(News("orders", "the broker is away", is_failure=True)) == "orders: the broker is away"
    printer(True)(news)
    found = json.loads(capsys.readouterr().out)
    assert (found["route"], found["batch"], found["rows"], found["behind_ms"]) == ("orders", 3, 30, 250)
