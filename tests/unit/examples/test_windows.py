"""The windows that the demonstration expects of Spark, and what it makes of the messages that tell them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal

from prices import Trade
from windows import ReceivedWindows, Window, expected_windows, first_day

TRADES = [
    Trade("stomp-MSFT", 0, "MSFT", "Nov 24 1999", "39.81", 100),
    Trade("stomp-MSFT", 1, "MSFT", "Nov 25 1999", "36.35", 200),
    Trade("stomp-MSFT", 2, "MSFT", "Jan 1 2000", "43.2", 300),
    Trade("java-IBM", 0, "IBM", "Jan 1 2000", "100.52", 400),
]
EXPECTED = {
    ("MSFT", "1998-11-26"): Window(1, 100, Decimal("39.81"), Decimal("39.81")),
    ("MSFT", "1999-11-25"): Window(2, 500, Decimal("36.35"), Decimal("43.2")),
    ("IBM", "1999-11-25"): Window(1, 400, Decimal("100.52"), Decimal("100.52")),
}


def told(name: tuple[str, str], window: Window) -> str:
    """As the job's ``to_json`` writes it."""
    head = json.dumps({"symbol": name[0], "begin": name[1], "trades": window.trades, "volume": window.volume})
    return f'{head[:-1]},"low":{window.low:.2f},"high":{window.high:.2f}}}'


def received(windows: dict[tuple[str, str], Window] = EXPECTED) -> ReceivedWindows:
    found = ReceivedWindows()
    for name, window in windows.items():
        found.add(told(name, window), 0)
    return found


def test_windows_have_52_weeks_and_begin_with_the_epoch() -> None:
    assert first_day(date(1970, 1, 1)) == first_day(date(1970, 12, 30)) == "1970-01-01"
    assert first_day(date(1970, 12, 31)) == "1970-12-31"


def test_trades_are_counted_by_symbol_and_window() -> None:
    assert expected_windows(TRADES) == EXPECTED


def test_windows_that_are_told_as_expected_are_no_problem() -> None:
    assert received().problems(EXPECTED) == []
    assert received().trades == 4


def test_the_newest_batch_counts_whatever_comes_last() -> None:
    name, window = next(iter(EXPECTED.items()))
    found = received()
    found.add(told(name, replace(window, trades=7)), 5)
    found.add(told(name, window), 6)
    found.add(told(name, replace(window, trades=7)), 5)  # a batch that was sent again
    assert found.problems(EXPECTED) == []
    assert found.messages == 6


def test_a_window_that_is_missing_wrong_or_too_many_is_named() -> None:
    name, window = ("MSFT", "1999-11-25"), EXPECTED["MSFT", "1999-11-25"]
    missing = {key: value for key, value in EXPECTED.items() if key != name}
    for problems in (
        received(missing).problems(EXPECTED),
        received(EXPECTED).problems(missing),
        received({**EXPECTED, name: replace(window, trades=3)}).problems(EXPECTED),
        received({**EXPECTED, name: replace(window, high=Decimal("99"))}).problems(EXPECTED),
    ):
        assert len(problems) == 1
        assert problems[0].startswith("window MSFT from 1999-11-25: ")
