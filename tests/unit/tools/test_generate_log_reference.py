"""The table of events and the calls of loggers are compared in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.logs.events import EVENTS
from tools import generate_log_reference
from tools.generate_log_reference import Call, calls_of, differences, page

MODULE = """
import logging
from typing import Final
TEXT: Final = "the disk is full"
logger = logging.getLogger(__name__)
audit: Final = logging.getLogger("spanwire.audit")

def run(location):
    logger.info("no fault")
    logger.warning("slow: %s", 5)
    logger.exception(TEXT)
    audit.warning("refused")
    location.error("no logger")
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    monkeypatch.setattr(generate_log_reference, "SOURCE", tmp_path)
    path = tmp_path / "spanwire" / "disk.py"
    path.parent.mkdir()
    path.write_text(MODULE)
    return sorted(calls_of(path))


def test_calls_of_loggers_above_info_are_found(calls: list[Call]) -> None:
    assert [call[:3] for call in calls] == [
        ("audit", "warning", "refused"),
        ("disk", "error", "the disk is full"),
        ("disk", "warning", "slow: %s"),
    ]


def test_a_call_without_row_and_a_row_without_call_are_named(calls: list[Call]) -> None:
    rows = {"audit": {"refused": "access-refused"}, "disk": {"slow: %s": "slow", "slower": "slower"}}
    missing, unused = differences(calls, rows)
    assert missing.startswith("disk.py:11: the table in spanwire/logs/events.py has no event for disk")
    assert unused == "spanwire/logs/events.py: nothing logs slower of disk with this text: 'slower'"


def test_the_page_has_a_row_for_each_event_of_the_sources() -> None:
    names = {event for rows in EVENTS.values() for event in rows.values()}
    text = generate_log_reference.TARGET.read_text("utf-8")
    assert {name for name in names if f"| `{name}` |" not in text} == set()
    assert page([Call("audit", "warning", "refused: user %s at %s (%s) may not %s", "")]).endswith(
        "| `access-refused` | warning | `audit` | `refused: user %s at %s (%s) may not %s` |\n"
    )
