"""The memory store keeps the contract of all stores."""

from __future__ import annotations

from spanwire.broker.ports import Store
from spanwire.model.message import Message
from spanwire.stores.memory import MemoryStore
from tests.conformance.stores import StoreConformance, StoreDriver


class MemoryDriver:
    def __init__(self) -> None:
        self._memory = MemoryStore()
        self.store: Store = self._memory
        self.stored = 0
        self.fetched: dict[int, list[Message | None]] = {}

    def turn(self) -> None:
        self.stored = self._memory.turn()
        self.fetched.update(self._memory.take_fetched())


class TestMemoryStore(StoreConformance):
    def driver(self) -> StoreDriver:
        return MemoryDriver()
