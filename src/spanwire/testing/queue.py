"""What a test asks of one queue or topic: counters, what waits in it, and waiting for a state of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from spanwire.broker.admin.views import DestinationView
from spanwire.model.destination import Destination
from spanwire.testing.message import WaitingMessage

CHECK_INTERVAL: Final = 0.005  # seconds between two looks while a test waits
COUNTERS: Final = ("pending", "in_flight", "enqueued", "dequeued", "dispatched", "expired", "consumers", "producers")


class DestinationReader(Protocol):
    """The part of a broker that looks need."""

    def view(self, destination: Destination) -> DestinationView | None:
        """Its counters; None when it does not exist."""
        ...

    def browse(self, destination: Destination, limit: int) -> list[WaitingMessage]:
        """The oldest messages that wait in it."""
        ...

    def purge_one(self, destination: Destination) -> int:
        """Drop what waits in it."""
        ...


class DestinationLook:
    """One queue or topic of a running broker. Every attribute is looked up anew; what does not exist counts 0."""

    def __init__(self, broker: DestinationReader, destination: Destination) -> None:
        self.destination: Final = destination
        self._broker: Final = broker

    @property
    def exists(self) -> bool:
        """Whether the broker knows it."""
        return self.view() is not None

    @property
    def pending(self) -> int:
        """Messages that are not acknowledged yet, those that consumers hold included (ActiveMQ's queue size)."""
        return self.count("pending")

    @property
    def in_flight(self) -> int:
        """Messages that consumers hold."""
        return self.count("in_flight")

    @property
    def enqueued(self) -> int:
        """Messages sent since the broker started."""
        return self.count("enqueued")

    @property
    def dequeued(self) -> int:
        """Messages acknowledged since the broker started."""
        return self.count("dequeued")

    @property
    def consumers(self) -> int:
        """Consumers now."""
        return self.count("consumers")

    @property
    def producers(self) -> int:
        """Producers now; a STOMP client is none."""
        return self.count("producers")

    def view(self) -> DestinationView | None:
        """All counters of one moment; None when it does not exist."""
        return self._broker.view(self.destination)

    def count(self, counter: str) -> int:
        """One of `COUNTERS`."""
        view = self.view()
        return 0 if view is None else int(getattr(view, counter))

    def messages(self, limit: int = 100) -> list[WaitingMessage]:
        """The oldest messages that wait, without those that consumers hold; nothing changes by looking."""
        return self._broker.browse(self.destination, limit)

    def purge(self) -> int:
        """Drop what waits, without what consumers hold; gives how many."""
        return self._broker.purge_one(self.destination)

    def wait_for(self, timeout: float = 5.0, **counts: int) -> None:
        """Wait until the counters have these values: ``queue.wait_for(dequeued=3, consumers=0)``.

        Raises `AssertionError`, with all counters, when they have not after ``timeout`` seconds.
        """
        unknown = [name for name in counts if name not in COUNTERS]
        if unknown:
            raise TypeError(f"{unknown[0]!r} is no counter; there are {', '.join(COUNTERS)}")
        if not wait_until(lambda: all(self.count(name) == expected for name, expected in counts.items()), timeout):
            expected = ", ".join(f"{name}={count}" for name, count in counts.items())
            raise AssertionError(f"{self.destination} has not come to {expected} within {timeout:g} s: {self._state()}")

    def __repr__(self) -> str:
        return f"<{self.destination}: {self._state()}>"

    def _state(self) -> str:
        view = self.view()
        if view is None:
            return "does not exist"
        return ", ".join(f"{name}={getattr(view, name)}" for name in COUNTERS)


def wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    """Look until ``condition`` holds; whether it did within ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(CHECK_INTERVAL)
    return True
