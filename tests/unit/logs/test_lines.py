"""Each line of a broker's log has the same form, the start included."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from spanwire.logs.events import EVENTS
from spanwire.logs.lines import JSON, START, JsonFormatter, LineFormatter, begin_log


def record(message: str, exception: BaseException | None = None) -> logging.LogRecord:
    error = None if exception is None else (type(exception), exception, None)
    return logging.LogRecord("spanwire.audit", logging.WARNING, "audit.py", 1, message, (), error)


def test_a_line_begins_with_the_time_and_its_zone() -> None:
    line = LineFormatter().format(record("refused"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d WARNING spanwire\.audit: refused", line)


def test_a_json_line_is_one_object_also_with_an_exception() -> None:
    line = JsonFormatter().format(record("a\nb", ValueError("bad")))
    assert "\n" not in line
    found = json.loads(line)
    assert (found["level"], found["logger"], found["message"]) == ("WARNING", "spanwire.audit", "a\nb")
    assert "ValueError: bad" in found["exception"]


def test_the_start_is_told_at_every_level_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    begin_log("error", JSON)
    logging.getLogger(START).info("started")
    logging.getLogger("spanwire").warning("not told")
    logging.getLogger("spanwire").error("told")
    told = capsys.readouterr()
    assert json.loads(told.out)["message"] == "started"
    assert [json.loads(line)["message"] for line in told.err.splitlines()] == ["told"]


def fault() -> logging.LogRecord:
    text = "the disk is full: no message is taken until there is room, consumers go on"
    return logging.LogRecord("spanwire.stores.driver.journal_store", logging.ERROR, "", 1, text, (), None)


def test_a_fault_has_its_event_in_both_forms() -> None:
    assert LineFormatter().format(fault()).endswith("consumers go on [disk-full]")
    assert json.loads(JsonFormatter().format(fault()))["event"] == "disk-full"


def test_a_record_without_a_row_has_no_event() -> None:
    assert "event" not in json.loads(JsonFormatter().format(record("refused")))


def test_a_log_in_a_file_has_the_start_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log"
    begin_log("info", JSON, file)
    logging.getLogger(START).info("started")
    logging.getLogger("spanwire").info("told")
    told = capsys.readouterr()
    assert (json.loads(told.out)["message"], told.err) == ("started", "")
    assert [json.loads(line)["message"] for line in file.read_text().splitlines()] == ["started", "told"]


@pytest.mark.parametrize(
    ("event", "remedy"),
    [
        ("cursor-lost", "run spanwire store check, then start the query with another checkpointLocation"),
        ("sink-part-damaged", "run spanwire store check, then start the query again"),
        ("consumer-not-announced", "raise networkTTL"),
    ],
)
def test_an_event_about_a_loss_says_what_to_do(event: str, remedy: str) -> None:
    (text,) = [text for texts in EVENTS.values() for text, name in texts.items() if name == event]
    assert remedy in text
    assert "conduit" not in text
