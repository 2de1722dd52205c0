"""A broker with branches, a ledger queue and a lock, and a way to stop whoever works on it before or after any step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import JmsError
from spanwire.pipeline.sink.xa_ledger_sink import BranchName, Entry, LedgerSink


class KilledError(Exception):
    """The process is gone; nobody may catch this but the test."""


class FakeBroker:
    """What outlives its clients: prepared branches, delivered rows, ledger entries, who holds the lock."""

    def __init__(self) -> None:
        self.prepared_branches: dict[BranchName, list[object]] = {}
        self.delivered: list[object] = []
        self.ledgers: dict[str, list[Entry]] = {}
        self.holders: dict[str, FakeLedger] = {}
        self.steps = 0
        self._names = 0
        self.stop: Callable[[int, bool], None] = lambda step, is_done: None

    def step(self, work: Callable[[], None]) -> None:
        """One answered command; ``stop`` may raise before it or after it."""
        self.steps += 1
        number = self.steps
        self.stop(number, False)
        work()
        self.stop(number, True)

    def sink(self, target: str = "queue://B", first: int = 0) -> LedgerSink:
        """A sink of its own process."""
        return LedgerSink(
            target, first, lambda: FakeBrancher(self), lambda query: FakeLedger(self, query), self._unique
        )

    def _unique(self) -> str:
        self._names += 1
        return str(self._names)


class FakeBrancher:
    """A task's connection."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    def prepare(self, branch: BranchName, rows: Iterable[Outgoing]) -> int:
        found = [row.body for row in rows]
        if found:
            self._broker.step(lambda: self._broker.prepared_branches.__setitem__(branch, found))
        return len(found)

    def close(self) -> None:
        pass


class FakeLedger:
    """The driver's connection; one at a time for a query."""

    def __init__(self, broker: FakeBroker, query: str) -> None:
        if query in broker.holders:
            raise JmsError("another process commits for the query")
        self._broker = broker
        self._query = query
        self._taken: list[Entry] = []
        broker.holders[query] = self

    def take(self, is_there: bool) -> Entry | None:
        def work() -> None:
            self._taken = self._broker.ledgers.pop(self._query, [])

        self._broker.step(work)
        return max(self._taken, key=lambda entry: entry.batch, default=None)

    def save(self, entry: Entry) -> None:
        def work() -> None:
            self._taken = []
            self._broker.ledgers[self._query] = [entry]

        self._broker.step(work)

    def drop(self) -> None:
        self._broker.step(self._taken.clear)

    def undo(self) -> None:
        self._broker.step(self._give_back)

    def prepared_branches(self) -> list[BranchName]:
        self._broker.step(lambda: None)
        return list(self._broker.prepared_branches)

    def commit(self, branch: BranchName) -> None:
        self._broker.step(lambda: self._broker.delivered.extend(self._broker.prepared_branches.pop(branch)))

    def roll_back(self, branch: BranchName) -> None:
        self._broker.step(lambda: self._broker.prepared_branches.__delitem__(branch))

    def close(self) -> None:
        self._give_back()
        del self._broker.holders[self._query]

    def _give_back(self) -> None:
        if self._taken:
            self._broker.ledgers[self._query] = self._taken
            self._taken = []


def bodies(values: Iterable[object]) -> Iterator[Outgoing]:
    """Rows with these bodies."""
    return (Outgoing(value, None, Destination(QUEUE, "B")) for value in values)
