from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.cli.pipeline.pipeline import trigger_of
from spanwire.cli.pipeline.pipeline_options import moment
from spanwire.cli.pipeline.pipeline_progress import CLEAR, Progress, event_text
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.archive import commands
from spanwire.pipeline.link.connections import check_broker
from spanwire.pipeline.options import Login
from spanwire.pipeline.routes.supervisor import RouteEvent
from tests.support.ports import free_port

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
    assert f"{file}:1: there is no endpoint scheme 'shop'; there are activemq, bean, csv, " in told.err
    assert main(["pipeline", "run", str(tmp_path / "none.yaml"), "--dry-run"]) == 1
    assert "No such file" in capsys.readouterr().err


def test_a_directory_of_functions_that_is_not_there_is_refused_by_a_dry_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, functions = tmp_path / "routes.yaml", tmp_path / "functions"
    file.write_text(ROUTE)
    words = ["pipeline", "run", str(file), "--dry-run", "-D", "out=/x", "--broker", "shop=tcp://h:1"]
    assert main([*words, "--functions", str(functions)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"spanwire pipeline: the directory of functions {functions}: No such file or directory\n"
    functions.mkdir()
    assert main([*words, "--functions", str(functions)]) == 0


@pytest.mark.parametrize("words", [["archive", "queue://A", "{}"], ["replay", "{}", "--to", "queue://B"]])
def test_a_broker_that_is_away_is_told_before_spark_starts(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def session_on(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr(commands, "session_on", session_on)
    url = f"tcp://127.0.0.1:{free_port()}"
    assert main(["pipeline", *[word.format(tmp_path) for word in words], "--url", url]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"spanwire pipeline: no connection to {url}: Connection refused; is the broker started?\n"
    assert list(tmp_path.iterdir()) == []


def test_an_error_names_the_program_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "archive", "queue://A", "archive", "--url", "x:y"]) == 1
    assert capsys.readouterr().err.startswith("spanwire pipeline: x:y: the client speaks OpenWire")
    assert main(["pipeline", "replay", "s3://", "--to", "queue://B", "--dry-run"]) == 1
    assert capsys.readouterr().err.startswith("spanwire pipeline: s3:// is not followed by the name of a bucket")


@pytest.mark.parametrize("option", ["", "?startupMaxReconnectAttempts=1", "?maxReconnectAttempts=2"])
def test_a_url_that_waits_for_its_broker_holds_up_no_check(option: str) -> None:
    url = f"failover:(tcp://127.0.0.1:{free_port()})"
    check_broker(Login(f"{url}{option}", None, None, "id"))
    with pytest.raises(JmsError, match="Connection refused"):
        check_broker(Login(f"{url}?maxReconnectAttempts=0", None, None, "id"))


def test_a_command_that_nobody_knows_is_told_with_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "replai"]) == 2
    assert capsys.readouterr().err == "spanwire pipeline: there is no command 'replai'; did you mean replay?\n"


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


def test_news_are_lines_or_json() -> None:
    news = RouteEvent("orders", "30 rows", 3, 30, 1234.5, 250)
    assert event_text(news) == "orders: batch 3, 30 rows, 1234 rows/s, 0.2 s behind"
    assert event_text(RouteEvent("orders", "the broker is away", is_failure=True)) == "orders: the broker is away"
    stream = io.StringIO()
    Progress(stream, True, lambda: 80).show(news)
    found = json.loads(stream.getvalue())
    assert (found["route"], found["batch"], found["rows"], found["behind_ms"]) == ("orders", 3, 30, 250)


def shown(width: int | None, *news: RouteEvent) -> str:
    """What is shown of these, and of the end."""
    stream = io.StringIO()
    progress = Progress(stream, False, None if width is None else lambda: width)
    for one in news:
        progress.show(one)
    progress.end()
    return stream.getvalue()


def test_on_a_terminal_the_newest_batch_stays_in_sight_and_elsewhere_each_has_a_line() -> None:
    news = (
        RouteEvent("a", "1 rows", 0, 1, 10.0),
        RouteEvent("a", "the broker is away; starting it again", is_failure=True),
        RouteEvent("a", "2 rows", 1, 2, 20.0, 300),
    )
    assert shown(None, *news).splitlines() == [event_text(one) for one in news]
    first, failure, second = (event_text(one) for one in news)
    assert shown(80, *news) == f"{CLEAR}{first}{CLEAR}{failure}\n{first}{CLEAR}{second}\n"
    assert shown(20, news[2]) == f"{CLEAR}{second[:19]}\n"
    assert shown(80, news[1]) == failure + "\n"


def test_a_failure_moves_no_cursor_wherever_it_is_shown() -> None:
    news = RouteEvent("a", "ValueError: \x1b[2J\x1b]0;owned\x07", is_failure=True)
    assert shown(80, news) == shown(None, news) == "a: ValueError: ?[2J?]0;owned?\n"


def test_the_batch_in_sight_is_cut_to_a_terminal_that_became_narrower() -> None:
    stream, widths = io.StringIO(), [80, 20]
    progress = Progress(stream, False, lambda: widths.pop(0))
    batch, failure = RouteEvent("a", "1 rows", 0, 1, 10.0), RouteEvent("a", "away", is_failure=True)
    progress.show(batch)
    progress.show(failure)
    assert stream.getvalue() == f"{CLEAR}{event_text(batch)}{CLEAR}a: away\n{event_text(batch)[:19]}"
