"""The journal keeps the contract of all stores, on a disk that loses what was not synced."""

from __future__ import annotations

from tests.conformance.stores import DurableStoreConformance, DurableStoreDriver
from tests.support.journal_driver import JournalDriver


class TestJournalOnASimulatedDisk(DurableStoreConformance):
    def driver(self) -> DurableStoreDriver:
        return JournalDriver()
