from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes import route_runner
from spanwire.pipeline.routes.route_runner import has_ended_within, session_on, watch_java
from spanwire.pipeline.session import machine_cores


@pytest.mark.parametrize("failure", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("no answer")])
def test_the_end_of_java_is_one_line_with_a_remedy(failure: Exception) -> None:
    with (
        pytest.raises(ConfigurationError, match=r"^Spark on local\[2\]: its Java process has ended, .*--driver-memory"),
        watch_java("local[2]", lambda: True),
    ):
        raise failure


def test_another_connection_that_is_lost_while_java_runs_is_told_as_it_is() -> None:
    failure = BrokenPipeError(32, "Broken pipe")
    with pytest.raises(BrokenPipeError) as found, watch_java("local[2]", lambda: False):
        raise failure
    assert found.value is failure


def test_a_java_process_that_runs_and_does_not_answer_is_one_line() -> None:
    with (
        pytest.raises(
            ConfigurationError, match=r"^Spark on local\[2\]: its Java process does not answer; start again$"
        ),
        watch_java("local[2]", lambda: False),
    ):
        raise Py4JNetworkError("no answer")


def test_a_process_that_waits_has_not_ended_and_one_that_is_told_to_end_has() -> None:
    words = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        assert not has_ended_within(process, within_s=0.1)
        assert process.stdin is not None
        process.stdin.close()
        assert has_ended_within(process, within_s=30.0)


def test_what_else_goes_wrong_is_told_as_it_is() -> None:
    with pytest.raises(ConfigurationError, match=r"^another$"), watch_java("local[2]"):
        raise ConfigurationError("another")


def test_what_py4j_logs_of_a_connection_it_loses_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    def log(path: str, text: str) -> None:
        logging.getLogger().handle(logging.LogRecord("root", logging.ERROR, path, 1, text, None, None))

    with watch_java("local[2]"):
        log("/lib/py4j/java_gateway.py", "Exception while sending command.")
        log("/lib/functions/mine.py", "a function of a route")
    log("/lib/py4j/java_gateway.py", "behind it")
    assert [record.getMessage() for record in caplog.records] == ["a function of a route", "behind it"]


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[1]", 1), ("local[3]", 3), ("local[*]", machine_cores())]
)
@pytest.mark.parametrize("log", [None, Path("/x/spark.log")])
def test_a_session_on_this_machine_has_its_cores_and_a_log(
    master: str, cores: int, log: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def session(*words: object) -> AbstractContextManager[str]:
        asked.extend(words)
        return nullcontext("a session")

    monkeypatch.setattr(route_runner, "local_session", session)
    monkeypatch.setattr(route_runner, "log_of_commands", lambda _: Path("/all/spark.log"))
    with session_on(master, "name", {"a": "b"}, log) as made:
        assert made == "a session"
    assert asked == ["name", cores, {"a": "b"}, log or Path("/all/spark.log"), False]


def test_a_session_without_a_core_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="a session needs at least one core"), session_on("local[0]", "name"):
        pass
