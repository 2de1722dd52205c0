"""The messages of the demonstration: a real price series, replayed in rounds by several producers.

Each trade goes to two queues in one send: to `TRADES`, where consumers share the work, and to `ARCHIVE`, which Spark
reads. Beside them each producer sends orders that are no trades to `ARCHIVE` alone: the job's selector must leave them.
"""

from __future__ import annotations

import csv
import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.client import Property

HERE: Final = Path(__file__).resolve().parent
TRADES: Final = "STOCKS.TRADES"
ARCHIVE: Final = "STOCKS.ARCHIVE"
WINDOWS: Final = "STOCKS.WINDOWS"

# STOMP knows strings only. With the prefix, which is ActiveMQ's, a selector compares them with numbers.
SELECTOR: Final = "convert_string_expressions:volume >= 100 AND symbol <> 'TEST'"
SMALLEST_VOLUME: Final = 100
TEST_SYMBOL: Final = "TEST"
TRADES_TO_ONE_OTHER: Final = 20  # after so many trades comes an order that is none


@dataclass(frozen=True, slots=True)
class Trade:
    """One order. ``producer`` and ``number`` name the message at both ends."""

    producer: str
    number: int
    symbol: str
    date: str
    price: str
    volume: int

    @property
    def key(self) -> str:
        """What sender and receiver know the message by."""
        return f"{self.producer}/{self.number}"

    @property
    def day(self) -> datetime.date:
        """The day of the price."""
        return datetime.datetime.strptime(self.date, "%b %d %Y").date()

    @property
    def is_trade(self) -> bool:
        """What `SELECTOR` says, said once more: the ledger does not take the broker's word for it."""
        return self.volume >= SMALLEST_VOLUME and self.symbol != TEST_SYMBOL

    @property
    def queues(self) -> tuple[str, ...]:
        """Where it is sent."""
        return (TRADES, ARCHIVE) if self.is_trade else (ARCHIVE,)

    def properties(self) -> dict[str, Property]:
        """The properties of the message; its body is the price."""
        return {"key": self.key, "symbol": self.symbol, "date": self.date, "volume": self.volume}


def books(rounds: int, kinds: dict[str, str]) -> dict[str, list[Trade]]:
    """For each symbol what its producer sends, in order. ``kinds`` says of what kind a symbol's producer is."""
    with (HERE / "stocks.csv").open(newline="") as source:
        rows = [(row["symbol"], row["date"], row["price"]) for row in csv.DictReader(source)]
    return {
        symbol: list(_orders(f"{kind}-{symbol}", [row for row in rows if row[0] == symbol] * rounds))
        for symbol, kind in kinds.items()
    }


def _orders(producer: str, rows: list[tuple[str, str, str]]) -> Iterator[Trade]:
    number = 0
    for place, (symbol, day, price) in enumerate(rows):
        yield Trade(producer, number, symbol, day, price, SMALLEST_VOLUME + place * 37 % 900)
        number += 1
        if place % TRADES_TO_ONE_OTHER == TRADES_TO_ONE_OTHER - 1:
            is_test = place // TRADES_TO_ONE_OTHER % 2 == 0
            yield Trade(producer, number, TEST_SYMBOL if is_test else symbol, day, price, 500 if is_test else 7)
            number += 1
