"""What all destinations of one broker share: the store, the time of this turn, the order of dispatch, the jobs to go on
with.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import Final, Protocol

from spanwire.broker.dispatch.destination_events import News
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import MessageStore
from spanwire.model.destination import Destination

MAX_RINGS: Final = 250  # destinations whose time has come that are called in one turn


class DeadLetterOffice(Protocol):
    """Where a destination hands in what it may not or cannot dispatch."""

    def dead_letter(self, reference: MessageReference, cause: str) -> None:
        """Put a copy in its place where the destination's policy says, and forget it."""
        ...

    def is_behind(self) -> bool:
        """Whether the disk is too far behind for long work that leaves copies; it should wait."""
        ...


class ConsumerRemover(Protocol):
    """Who ends a consumer for the broker's own reasons."""

    def remove_consumer(self, subscription: Subscription) -> None:
        """Remove a consumer whose client does not; what it held goes back in line."""
        ...


class PendingJoin(Protocol):
    """Wildcard consumers that are being attached to destinations in slices."""

    def complete(self, home: BrokerDestination) -> None:
        """Attach to ``home`` now who is not attached yet."""
        ...


class EventObserver(Protocol):
    """Who wants to know what happens that no client asked the broker's facade for."""

    def branch_event(self, event: str, xid: str) -> None:
        """Something is asked of an XA branch: ``preparing transaction`` and so on."""
        ...

    def destination_event(self, event: str, name: str) -> None:
        """A destination comes or goes."""
        ...


class BrokerContext:
    """Shared by a broker's queues, topics and browses. ``wall_ms`` and ``monotonic`` are those of the current input."""

    def __init__(self, store: MessageStore | None, formats: MessageFormats | None = None) -> None:
        self.store: Final[MessageStore | None] = store
        self.formats: Final[MessageFormats | None] = formats
        self.office: DeadLetterOffice | None = None
        self.observer: EventObserver | None = None
        self.news: News | None = None  # None on a broker without advisories
        self.remover: ConsumerRemover | None = None
        self.joins: Final[list[PendingJoin]] = []  # under way
        self.crowded: Final[dict[BrokerDestination, None]] = {}  # topics with more than half of the consumers they take
        self.steps = 0  # of work: requests, and what they did at once for many destinations or consumers
        self.wall_ms = 0
        self.monotonic = 0.0
        self._order = 0
        self._request = 0
        self._fetching: Final[dict[int, BrokerDestination]] = {}
        self._jobs: Final[dict[BrokerDestination, None]] = {}  # in the order in which they have their turns
        self._alarms: Final[list[tuple[float, int, BrokerDestination]]] = []  # a heap; the number keeps their order
        self._alarm = 0

    def next_order(self) -> int:
        """The next place in the broker's dispatch order."""
        self._order += 1
        return self._order

    def last_order(self) -> int:
        """The place that was given last."""
        return self._order

    def reserve_orders(self, count: int) -> int:
        """The next ``count`` places in the dispatch order; gives the first."""
        first = self._order + 1
        self._order += count
        return first

    def fetch(self, home: BrokerDestination, destination: Destination, sequences: list[int]) -> int:
        """Ask the store for messages; ``home.fetched`` gets them with the number that this gives, in a later turn."""
        assert self.store is not None
        self._request += 1
        self._fetching[self._request] = home
        self.store.fetch(self._request, destination, sequences)
        return self._request

    def forget_fetches(self, home: BrokerDestination) -> None:
        """``home`` no longer wants what it asked for."""
        for request in [request for request, asked in self._fetching.items() if asked is home]:
            del self._fetching[request]

    def take_fetching(self, request: int) -> BrokerDestination | None:
        """Who asked for this read; None if it is gone."""
        return self._fetching.pop(request, None)

    def schedule(self, home: BrokerDestination) -> None:
        """Go on with ``home.work`` in a later turn."""
        self._jobs[home] = None

    def wake_at(self, home: BrokerDestination, monotonic: float) -> None:
        """Call ``home.wake`` at a time in monotonic seconds."""
        self._alarm += 1
        heapq.heappush(self._alarms, (monotonic, self._alarm, home))

    def next_alarm(self) -> float | None:
        """When the next destination wants to be called."""
        return self._alarms[0][0] if self._alarms else None

    def ring(self) -> None:
        """Call the destinations whose time has come."""
        due: list[BrokerDestination] = []
        while self._alarms and self._alarms[0][0] <= self.monotonic and len(due) < MAX_RINGS:
            due.append(heapq.heappop(self._alarms)[2])
        for home in due:
            home.wake()

    def complete_joins(self, home: BrokerDestination) -> None:
        """``home`` is about to hand on a message: all who want it are to get it."""
        for join in self.joins:
            join.complete(home)

    def is_scheduled(self, home: BrokerDestination) -> bool:
        """Whether ``home.work`` goes on in a later turn."""
        return home in self._jobs

    def has_jobs(self) -> bool:
        """Whether some job wants to go on."""
        return len(self._jobs) > 0

    def job_count(self) -> int:
        """The number of jobs that have more to do."""
        return len(self._jobs)

    def take_jobs(self, at_most: int) -> list[BrokerDestination]:
        """The jobs of this turn; those with more to do are scheduled again by their slice, behind the others."""
        jobs = list(islice(self._jobs, at_most))
        for home in jobs:
            del self._jobs[home]
        return jobs

    def is_behind(self) -> bool:
        """Whether long work that leaves dead letters should wait for the disk."""
        return self.office is not None and self.office.is_behind()

    def dead_letter(self, reference: MessageReference, cause: str) -> None:
        """Hand ``reference`` to the dead letter office, which forgets it when it has its copy."""
        if self.office is not None:
            self.office.dead_letter(reference, cause)
        else:
            reference.home.settled(reference)
