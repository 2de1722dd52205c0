"""The journal keeps the contract of all stores: on a disk that loses what was not synced, and on real files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.stores import DurableStoreConformance, DurableStoreDriver
from tests.support.journal_driver import JournalDriver
from tests.support.journal_store_driver import JournalStoreDriver


class TestJournalOnASimulatedDisk(DurableStoreConformance):
    def driver(self) -> DurableStoreDriver:
        return JournalDriver()


class TestJournalStoreOnRealFiles(DurableStoreConformance):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> Iterator[None]:
        self.path = tmp_path / "data"
        self.drivers: list[JournalStoreDriver] = []
        yield
        for driver in self.drivers:
            driver.journal_store.stop()

    def driver(self) -> DurableStoreDriver:
        driver = JournalStoreDriver(self.path)
        self.drivers.append(driver)
        return driver


class TestJournalStoreThatSyncsInTheLoop(TestJournalStoreOnRealFiles):
    def driver(self) -> DurableStoreDriver:
        driver = JournalStoreDriver(self.path, in_loop=True)
        self.drivers.append(driver)
        return driver
