"""Lines of a child are logged again, and cannot imitate lines of the parent."""

from __future__ import annotations

import json
import logging

import pytest

from spanwire.logs.children import MAX_LINE, ChildLines
from spanwire.logs.lines import JsonFormatter, LineFormatter


def line(**parts: object) -> bytes:
    return (
        json.dumps({"level": "ERROR", "logger": "spanwire.web.routes", "message": "failed", **parts}).encode() + b"\n"
    )


def records(caplog: pytest.LogCaptureFixture, *chunks: bytes) -> list[logging.LogRecord]:
    lines = ChildLines("spanwire.web")
    for chunk in chunks:
        assert lines.feed(chunk) == []
    return caplog.records


def test_a_record_keeps_logger_level_text_and_event(caplog: pytest.LogCaptureFixture) -> None:
    (record,) = records(caplog, line(event="web-fault"))
    assert (record.name, record.levelname, record.getMessage()) == ("spanwire.web.routes", "ERROR", "failed")
    assert LineFormatter().format(record).endswith("failed [web-fault]")
    assert json.loads(JsonFormatter().format(record))["event"] == "web-fault"


def test_lines_in_pieces_are_put_together(caplog: pytest.LogCaptureFixture) -> None:
    text = line() + line(message="again")
    messages = [one.getMessage() for one in records(caplog, text[:7], text[7:100], text[100:], b"")]
    assert messages == ["failed", "again"]


def test_a_traceback_is_indented_in_text_and_whole_in_json(caplog: pytest.LogCaptureFixture) -> None:
    (record,) = records(caplog, line(exception="Traceback\n2026-11-22T21:07:33.502+01:00 INFO spanwire.audit: x"))
    _, *rest = LineFormatter().format(record).splitlines()
    assert rest == ["    Traceback", "    2026-11-22T21:07:33.502+01:00 INFO spanwire.audit: x"]
    assert json.loads(JsonFormatter().format(record))["exception"].startswith("    Traceback\n")


def test_a_child_cannot_write_into_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    (record,) = records(caplog, line(logger="spanwire.audit", message="a\n2026 INFO spanwire.audit: b"))
    assert (record.name, record.getMessage()) == ("spanwire.web", "spanwire.audit: a?2026 INFO spanwire.audit: b")


@pytest.mark.parametrize("logger", ["spanwire.webber", "spanwire.web.x\nspanwire.audit", "", 5, None])
def test_names_of_loggers_stay_on_their_line(logger: object, caplog: pytest.LogCaptureFixture) -> None:
    (record,) = records(caplog, line(logger=logger))
    assert record.name.startswith("spanwire.web")
    assert record.name.isprintable()
    assert len(LineFormatter().format(record).splitlines()) == 1


def test_names_of_loggers_that_a_child_makes_up_are_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    before = len(logging.root.manager.loggerDict)
    records(caplog, *(line(logger=f"spanwire.web.made.up.{number}") for number in range(20)))
    assert len(logging.root.manager.loggerDict) <= before + 1


def test_the_level_of_the_child_s_package_decides(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("spanwire.web").setLevel(logging.WARNING)
    try:
        assert records(caplog, line(level="INFO")) == []
    finally:
        logging.getLogger("spanwire.web").setLevel(logging.NOTSET)


@pytest.mark.parametrize("text", ["plain", "{", '{"level": "INFO"}', "[" * 100_000, "{" * 100_000])
def test_other_lines_are_returned(text: str, caplog: pytest.LogCaptureFixture) -> None:
    lines = ChildLines("spanwire.web")
    assert "".join([*lines.feed(text.encode() + b"\n"), *lines.feed(b"")]) == text
    assert caplog.records == []


def test_a_line_without_end_is_cut() -> None:
    lines = ChildLines("spanwire.web")
    assert lines.feed(b"x" * (MAX_LINE + 1)) == ["x" * (MAX_LINE + 1)]
    assert lines.feed(b"\x1b[31mred\n") == ["?[31mred"]
