"""The messages of the demonstration: a real price series, replayed in rounds."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Trade:
    """One price of one stock in one round. ``key`` names the message at both ends."""

    symbol: str
    date: str
    price: str
    round: int

    @property
    def key(self) -> str:
        """What sender and receiver know the message by."""
        return f"{self.symbol}/{self.date}/{self.round}"

    @property
    def queue(self) -> str:
        """The queue it is sent to, where it must arrive."""
        return f"TRADE.STOCK.{self.symbol}"

    @property
    def topic(self) -> str:
        """The topic it is sent to, where it reaches whoever listens."""
        return f"PRICE.STOCK.{self.symbol}"


def trades(rounds: int) -> dict[str, list[Trade]]:
    """All trades by symbol, in the order in which they are sent."""
    with (HERE / "stocks.csv").open(newline="") as source:
        rows = list(csv.DictReader(source))
    found: dict[str, list[Trade]] = {}
    for number in range(rounds):
        for row in rows:
            trade = Trade(row["symbol"], row["date"], row["price"], number)
            found.setdefault(trade.symbol, []).append(trade)
    return found
