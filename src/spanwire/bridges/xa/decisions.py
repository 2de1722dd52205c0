"""The content of a decision log: decisions that are not carried out yet, and heuristic outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spanwire.bridges.xa.records import Decision, Done, Heuristic, Record

MAX_HEURISTICS: Final = 1_000  # reports; an operator reads the latest, and each is in the process's log as well


class Decisions:
    """All records still in use."""

    def __init__(self, log_id: str, records: Iterable[Record] = ()) -> None:
        self.log_id: Final[str] = log_id
        self.pending: Final[dict[str, Decision]] = {}  # by transaction
        self.heuristics: Final[list[Heuristic]] = []
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Take a record."""
        if isinstance(record, Decision):
            self.pending[record.transaction] = record
        elif isinstance(record, Done):
            self.pending.pop(record.transaction, None)
        else:
            self.heuristics.append(record)
            del self.heuristics[:-MAX_HEURISTICS]

    def of_bridge(self, bridge: str) -> list[Decision]:
        """Return the pending decisions of a bridge."""
        return [decision for decision in self.pending.values() if decision.bridge == bridge]

    def records(self) -> list[Record]:
        """Return the records for a new file."""
        return [*self.pending.values(), *self.heuristics]
