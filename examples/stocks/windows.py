"""Trades by symbol and window of 52 weeks: what Spark must have counted, and what its messages say.

The job sends a window again whenever it has grown, with the number of the batch. The newest one counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from prices import Trade

EPOCH: Final = date(1970, 1, 1)  # where Spark's windows begin
WINDOW_DAYS: Final = 52 * 7


@dataclass(frozen=True, slots=True)
class Window:
    """The trades of one symbol in one window."""

    trades: int
    volume: int
    low: Decimal
    high: Decimal


Name = tuple[str, str]
"""Symbol, and the window's first day as YYYY-MM-DD."""


def first_day(day: date) -> str:
    """The first day of the window that ``day`` lies in."""
    return (day - timedelta(days=(day - EPOCH).days % WINDOW_DAYS)).isoformat()


def expected_windows(trades: Iterable[Trade]) -> dict[Name, Window]:
    """Counted from what was sent."""
    found: dict[Name, Window] = {}
    for trade in trades:
        name = (trade.symbol, first_day(trade.day))
        price = Decimal(trade.price)
        sofar = found.get(name, Window(0, 0, price, price))
        found[name] = Window(
            sofar.trades + 1, sofar.volume + trade.volume, min(sofar.low, price), max(sofar.high, price)
        )
    return found


class ReceivedWindows:
    """The windows as the messages of the job tell them."""

    def __init__(self) -> None:
        self.messages = 0
        self.windows: Final[dict[Name, Window]] = {}
        self._batches: Final[dict[Name, int]] = {}

    def add(self, text: str, batch: int) -> None:
        """One message. An older batch than the one that is known changes nothing; the same one says the same."""
        told = json.loads(text, parse_float=Decimal)
        name = (told["symbol"], told["begin"])
        self.messages += 1
        if batch >= self._batches.get(name, -1):
            self._batches[name] = batch
            low, high = Decimal(told["low"]), Decimal(told["high"])
            self.windows[name] = Window(told["trades"], told["volume"], low, high)

    @property
    def trades(self) -> int:
        """All trades, counted again."""
        return sum(window.trades for window in self.windows.values())

    def problems(self, expected: dict[Name, Window]) -> list[str]:
        """One line for each window that is missing, wrong or too many."""
        return [
            f"window {symbol} from {begin}: told {self.windows.get((symbol, begin))}, "
            f"expected {expected.get((symbol, begin))}"
            for symbol, begin in sorted(expected.keys() | self.windows.keys())
            if self.windows.get((symbol, begin)) != expected.get((symbol, begin))
        ]
