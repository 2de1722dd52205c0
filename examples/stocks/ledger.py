"""Who sent what and who got what, counted by the clients; the broker has no part in it."""

from __future__ import annotations

import threading
from collections import Counter

from prices import Trade


class Ledger:
    """Sends, answers and deliveries by message. All threads write into it."""

    def __init__(self, trades: dict[str, list[Trade]]) -> None:
        self._lock = threading.Lock()
        self.trades = {trade.key: trade for entries in trades.values() for trade in entries}
        self.answered: set[str] = set()
        self.resent: Counter[str] = Counter()
        self.deliveries: Counter[str] = Counter()
        self.flagged: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.topic_sent: Counter[str] = Counter()
        self.topic_received: Counter[str] = Counter()

    def send_answered(self, key: str) -> None:
        """The broker said that it has the message."""
        with self._lock:
            self.answered.add(key)

    def send_repeated(self, key: str) -> None:
        """A send without an answer is made again after the connection broke."""
        with self._lock:
            self.resent[key] += 1

    def published(self, symbol: str) -> None:
        """A price went to the symbol's topic."""
        with self._lock:
            self.topic_sent[symbol] += 1

    def noticed(self, symbol: str) -> None:
        """The topic's listener got a price."""
        with self._lock:
            self.topic_received[symbol] += 1

    def delivered(self, key: str, price: str, redelivered: bool) -> None:
        """A consumer has taken a message for good: it acknowledges it now."""
        with self._lock:
            self.deliveries[key] += 1
            if redelivered:
                self.flagged[key] += 1
            trade = self.trades.get(key)
            if trade is None or trade.price != price:
                self.wrong.append(f"{key} with price {price!r}")

    @property
    def delivered_count(self) -> int:
        """How many different messages arrived."""
        return len(self.deliveries)

    def lost(self) -> list[str]:
        """Messages whose send was answered and that nobody got."""
        return sorted(self.answered - set(self.deliveries))

    def duplicated(self) -> int:
        """Deliveries beyond the first of each message."""
        return sum(self.deliveries.values()) - len(self.deliveries)

    def unflagged(self) -> list[str]:
        """Messages that came more often than their redelivered flags explain."""
        return sorted(key for key, times in self.deliveries.items() if times - 1 > self.flagged[key])

    def queue_table(self) -> str:
        """One line per queue."""
        lines = [f"{'queue':24} {'sent':>7} {'delivered':>10} {'lost':>5} {'duplicated':>11} {'redelivered':>12}"]
        for symbol in sorted({trade.symbol for trade in self.trades.values()}):
            keys = [key for key, trade in self.trades.items() if trade.symbol == symbol]
            sent = [key for key in keys if key in self.answered]
            arrived = [key for key in keys if key in self.deliveries]
            lost = len(set(sent) - set(arrived))
            again = sum(self.deliveries[key] for key in arrived) - len(arrived)
            flagged = sum(self.flagged[key] for key in arrived)
            lines.append(
                f"TRADE.STOCK.{symbol:12} {len(sent):>7} {len(arrived):>10} {lost:>5} {again:>11} {flagged:>12}"
            )
        return "\n".join(lines)

    def topic_table(self) -> str:
        """One line per topic; a topic promises nothing to a listener who is not connected."""
        lines = [f"{'topic':24} {'published':>10} {'received':>9}"]
        for symbol in sorted(self.topic_sent):
            lines.append(f"PRICE.STOCK.{symbol:12} {self.topic_sent[symbol]:>10} {self.topic_received[symbol]:>9}")
        return "\n".join(lines)

    def last_line(self) -> str:
        """The verdict in numbers."""
        return (
            f"ledger: sent={len(self.answered)} delivered={self.delivered_count} lost={len(self.lost())} "
            f"duplicated={self.duplicated()} redelivered={sum(self.flagged.values())}"
        )
