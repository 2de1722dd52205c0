"""Who sent what, who got what and what was archived, counted at the ends; the brokers have no part in it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from prices import Trade

MAX_NAMED = 5  # messages that a line of complaint names


@dataclass(frozen=True, slots=True)
class ArchivedRow:
    """What the archive says of one message."""

    key: str
    symbol: str
    date: str
    price: str
    volume: int
    redelivered: bool


class Ledger:
    """Sends, answers, deliveries and archived rows by message. All threads write into it."""

    def __init__(self, orders: Iterable[Trade]) -> None:
        self._lock: Final = threading.Lock()
        self.orders: Final = {order.key: order for order in orders}
        self.trades: Final = {key: order for key, order in self.orders.items() if order.is_trade}
        self.sent: Final[set[str]] = set()  # trades whose send was answered
        self.others: Final[set[str]] = set()  # the same of orders that are no trades
        self.repeated: Final[Counter[str]] = Counter()
        self.deliveries: Final[Counter[str]] = Counter()
        self.flagged: Final[Counter[str]] = Counter()
        self.taken: Final[Counter[str]] = Counter()  # deliveries by consumer
        self.archived: Final[Counter[str]] = Counter()
        self.archived_again: Final[set[str]] = set()  # archived from a delivery that was not the first
        self.left: Final[set[str]] = set()
        self.wrong: Final[list[str]] = []

    def send_answered(self, key: str) -> None:
        """The broker said that it has the message."""
        with self._lock:
            (self.sent if key in self.trades else self.others).add(key)

    def send_repeated(self, key: str) -> None:
        """A send without an answer is made again after the connection broke."""
        with self._lock:
            self.repeated[key] += 1

    def delivered(self, consumer: str, key: str, price: str, redelivered: bool) -> None:
        """A consumer has taken a message for good: it acknowledges it now."""
        with self._lock:
            self.taken[consumer] += 1
            self.deliveries[key] += 1
            if redelivered:
                self.flagged[key] += 1
            trade = self.trades.get(key)
            if trade is None or trade.price != price:
                self.wrong.append(f"{key} delivered with price {price!r}")

    def book_archive(self, rows: Iterable[ArchivedRow]) -> None:
        """All that the archive holds at the end."""
        for row in rows:
            self.archived[row.key] += 1
            if row.redelivered:
                self.archived_again.add(row.key)
            trade = self.trades.get(row.key)
            if trade is None:
                self.wrong.append(f"{row.key} archived, which the selector excludes")
            elif (trade.symbol, trade.date, float(trade.price), trade.volume) != (
                row.symbol,
                row.date,
                float(row.price),
                row.volume,
            ):
                self.wrong.append(f"{row.key} archived as {row}")

    def book_left(self, keys: Iterable[str]) -> None:
        """What still lies in the archive's queue at the end."""
        self.left.update(keys)

    @property
    def delivered_count(self) -> int:
        """How many different messages arrived."""
        return len(self.deliveries)

    def lost(self) -> list[str]:
        """Trades whose send was answered and that are missing at one of the two ends."""
        return sorted(self.not_delivered() | self.not_archived())

    def not_delivered(self) -> set[str]:
        """Trades that no consumer got."""
        return self.sent - set(self.deliveries)

    def not_archived(self) -> set[str]:
        """Trades that the archive does not have."""
        return self.sent - set(self.archived)

    def duplicated(self) -> int:
        """Deliveries and archived rows beyond the first of each message."""
        return sum(times - 1 for counter in (self.deliveries, self.archived) for times in counter.values())

    def unflagged(self) -> list[str]:
        """Messages that came more often than their redelivered flags explain."""
        return sorted(key for key, times in self.deliveries.items() if times - 1 > self.flagged[key])

    def archived_twice(self) -> list[str]:
        """Messages with several rows: the job drops by message id what comes again, so there may be none."""
        return sorted(key for key, times in self.archived.items() if times > 1)

    def problems(self) -> list[str]:
        """One line for each promise that was not kept."""
        checks = {
            "lost on the way to the consumers": sorted(self.not_delivered()),
            "lost on the way to the archive": sorted(self.not_archived()),
            "duplicated without redelivered flag": self.unflagged(),
            "archived twice": self.archived_twice(),
            "changed on the way": self.wrong,
            "sent without an answer": sorted(set(self.orders) - self.sent - self.others),
            "neither left by the selector nor in its queue": sorted(self.others - self.left),
            "left in the queue although selected": sorted(self.left & set(self.trades)),
        }
        return [f"{what}: {_named(found)}" for what, found in checks.items() if found]

    def table(self) -> str:
        """One line for each producer."""
        heads = ("producer", "sent", "delivered", "archived", "lost", "duplicated", "redelivered")
        lines = [f"{heads[0]:<14}" + "".join(f"{head:>12}" for head in heads[1:])]
        for producer in sorted({trade.producer for trade in self.trades.values()}):
            keys = {key for key, trade in self.trades.items() if trade.producer == producer}
            numbers = (
                len(keys & self.sent),
                len(keys & set(self.deliveries)),
                len(keys & set(self.archived)),
                len(keys & set(self.lost())),
                sum(max(0, self.deliveries[key] - 1) + max(0, self.archived[key] - 1) for key in keys),
                sum(self.flagged[key] for key in keys),
            )
            lines.append(f"{producer:<14}" + "".join(f"{number:>12}" for number in numbers))
        return "\n".join(lines)

    def last_line(self) -> str:
        """The verdict in numbers."""
        return (
            f"ledger: sent={len(self.sent)} delivered={self.delivered_count} archived={len(self.archived)} "
            f"lost={len(self.lost())} duplicated={self.duplicated()} redelivered={sum(self.flagged.values())}"
        )


def _named(keys: list[str]) -> str:
    more = f" and {len(keys) - MAX_NAMED} more" if len(keys) > MAX_NAMED else ""
    return ", ".join(keys[:MAX_NAMED]) + more
