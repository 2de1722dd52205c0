"""View of one queue or topic for a test: counters, pending messages, and waits for a state."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from spanwire.broker.admin.views import DestinationView
from spanwire.model.destination import Destination
from spanwire.testing.message import WaitingMessage

CHECK_INTERVAL: Final = 0.005  # seconds between two checks while a test waits
COUNTERS: Final = ("pending", "in_flight", "enqueued", "dequeued", "dispatched", "expired", "consumers", "producers")


class DestinationReader(Protocol):
    """Port: the methods of a broker that a view calls."""

    def view(self, destination: Destination) -> DestinationView | None:
        """Return the counters of a destination, or None if the destination does not exist."""
        ...

    def browse(self, destination: Destination, limit: int) -> list[WaitingMessage]:
        """Return the oldest messages that are not in flight."""
        ...

    def purge_one(self, destination: Destination) -> int:
        """Remove pending messages, except for messages in flight. Returns their number."""
        ...


class DestinationLook:
    """A queue or topic of a running broker. Each attribute is read anew; a missing destination counts 0."""

    def __init__(self, broker: DestinationReader, destination: Destination) -> None:
        self.destination: Final = destination
        self._broker: Final = broker

    @property
    def exists(self) -> bool:
        """True if the broker has the destination."""
        return self.view() is not None

    @property
    def pending(self) -> int:
        """Messages that are not acknowledged, messages in flight included (ActiveMQ's queue size)."""
        return self.count("pending")

    @property
    def in_flight(self) -> int:
        """Messages dispatched to consumers and not acknowledged."""
        return self.count("in_flight")

    @property
    def enqueued(self) -> int:
        """Messages sent since the start of the broker."""
        return self.count("enqueued")

    @property
    def dequeued(self) -> int:
        """Messages acknowledged since the start of the broker."""
        return self.count("dequeued")

    @property
    def consumers(self) -> int:
        """Number of consumers."""
        return self.count("consumers")

    @property
    def producers(self) -> int:
        """Number of producers; STOMP clients have none."""
        return self.count("producers")

    def view(self) -> DestinationView | None:
        """Return all counters of one moment, or None if the destination does not exist."""
        return self._broker.view(self.destination)

    def count(self, counter: str) -> int:
        """Return one of `COUNTERS`."""
        view = self.view()
        return 0 if view is None else int(getattr(view, counter))

    def messages(self, limit: int = 100) -> list[WaitingMessage]:
        """Return the oldest messages that are not in flight, without a change of the queue."""
        return self._broker.browse(self.destination, limit)

    def purge(self) -> int:
        """Remove pending messages, except for messages in flight. Returns their number."""
        return self._broker.purge_one(self.destination)

    def wait_for(self, timeout: float = 5.0, **counts: int) -> None:
        """Wait until counters have the given values: ``queue.wait_for(dequeued=3, consumers=0)``.

        Raises:
            AssertionError: The counters have other values after ``timeout`` seconds; the text shows all counters.
            TypeError: A counter does not exist.
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
    """Wait until ``condition`` holds. Returns False after ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(CHECK_INTERVAL)
    return True
