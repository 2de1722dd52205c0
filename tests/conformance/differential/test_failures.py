"""Every refusal of `tests/vectors/exceptions.json`, row by row: the class, the words, the code, and whether the
connection lives on. Classic must still say what the row holds, Spanwire must say the same.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.differential.brokers import ClassicBroker, SpanwireBroker
from tests.conformance.differential.not_yet import (
    CLIENT_ALONE,
    ELSEWHERE,
    FAILURES_DEVIATING,
    FAILURES_NOT_YET,
    UNCHECKED,
)
from tests.conformance.differential.playing import Scenario, play, scenarios, unlike
from tests.conformance.differential.scenarios.failures import with_selector
from tests.support.java import JavaProcess

PROJECT = Path(__file__).parents[3]
ROWS: dict[str, dict[str, Any]] = {
    row["id"]: row
    for row in json.loads((PROJECT / "tests/vectors/exceptions.json").read_text(encoding="utf-8"))["cases"]
}
WITH_SELECTOR = "createConsumer with selector: "
BROKER_OF_THE_TABLE = "plain"
XID = re.compile(r"globalId=[0-9a-f]+")
LOADER = re.compile(r"unnamed module of loader .*")
PATIENCE_MS = 2_000


def _scenarios() -> dict[str, Scenario]:
    written = scenarios("failures")
    found: dict[str, Scenario] = {}
    for name, row in ROWS.items():
        if row["action"].startswith(WITH_SELECTOR):
            found[name] = with_selector(row["action"].removeprefix(WITH_SELECTOR))
        elif scenario := written.get(f"failures.{name.replace('-', '_')}"):
            found[name] = scenario
    return found


PLAYED = _scenarios()


def _plain(text: str) -> str:
    return LOADER.sub("", XID.sub("globalId=<xid>", text))


def check_row(row: dict[str, Any], transcript: list[str]) -> None:
    """Classic refused what the row says it refuses, in its words, and nothing else happened to the connection."""
    refusals = [_plain(line.partition(" ✗ ")[2]) for line in transcript if " ✗ " in line]
    if row["exception"] is None:
        assert refusals == []
        return
    words = str(row["message"]).replace(BROKER_OF_THE_TABLE, "differential")
    expected = _plain(f"{row['exception']}: {words}")
    assert any(refusal.startswith(expected) for refusal in refusals), f"{expected}\nis not in\n" + "\n".join(refusals)
    if "xa_error_code" in row:
        assert any(refusal.endswith(f"(code {row['xa_error_code']})") for refusal in refusals)


@pytest.mark.parametrize("name", PLAYED)
def test_a_row_is_as_it_was_observed_and_the_same_on_both(
    name: str, remote: JavaProcess, played_on_classic: ClassicBroker, played_on_spanwire: SpanwireBroker, take: int
) -> None:
    scenario_name = name.replace("-", "_")
    classics = play(remote, played_on_classic, scenario_name, PLAYED[name], take, PATIENCE_MS)
    check_row(ROWS[name], classics)
    ours = play(remote, played_on_spanwire, scenario_name, PLAYED[name], take, PATIENCE_MS)
    lines = unlike(ours, classics)
    added = [line for line in lines if line.startswith("+ ")]
    if name in FAILURES_NOT_YET:
        assert lines, f"{name} is as on Classic now: take it off the list"
        assert any(FAILURES_NOT_YET[name].refusal in line for line in ours if "✗" in line), "\n".join(ours)
    elif name in FAILURES_DEVIATING:
        expected = FAILURES_DEVIATING[name].lines
        assert len(added) == len(expected), "\n".join(lines)
        assert all(line.endswith(end) for line, end in zip(added, expected, strict=True)), "\n".join(lines)
    else:
        assert not lines, "\n".join(["Classic (-) and Spanwire (+) differ:", *lines])


def test_every_row_is_played_or_says_who_decides_it() -> None:
    listed = [*PLAYED, *CLIENT_ALONE, *ELSEWHERE, *UNCHECKED]
    assert sorted(listed) == sorted(ROWS)
    assert len(PLAYED) >= 115
    assert set(FAILURES_NOT_YET) | set(FAILURES_DEVIATING) <= set(PLAYED)
    assert all((PROJECT / path).exists() for path in ELSEWHERE.values())
