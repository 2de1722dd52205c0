"""Rows of changed destinations, for readers with the other rows at hand.

A reader asks each second for the counters of all destinations, most of them unchanged. So the values of the last scan
are kept: a destination without a change costs some comparisons, and no row. Each scan has a number, the *revision*, and
each destination has the revision of its last found change.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.topic.topic import Topic

MAX_REMOVED: Final = 1_000  # names of removed destinations that are kept; a reader that has missed more gets all rows


class SeenDestination:
    """The values of a destination in the last scan."""

    def __init__(self, destination: BrokerDestination, takes_dead_letters: bool) -> None:
        self._takes_dead_letters: Final[bool] = takes_dead_letters
        self._destination: Final[BrokerDestination] = destination
        self._name: Final[str] = destination.name.qualified_name
        self._topic: Final[Topic | None] = destination if isinstance(destination, Topic) else None
        self.revision = 0
        self.mark = 0  # the scan that has met the destination
        self._pending = -1
        self._in_flight = 0
        self._enqueued = 0
        self._dequeued = 0
        self._dispatched = 0
        self._expired = 0
        self._consumers = 0
        self._producers = 0
        self._memory_bytes = 0
        self._limit_bytes = 0
        self._paused = False
        self._durables = 0
        self._cached = 0
        self._blocked_sends = 0
        self._blocked_seconds = 0.0

    @property
    def name(self) -> str:
        """The qualified name."""
        return self._name

    def update(self) -> bool:
        """Take the present values. Return True after a change."""
        destination, topic = self._destination, self._topic
        usage = destination.usage
        pending = destination.waiting() + destination.in_flight
        durables = 0
        if topic is not None:
            durables = len(topic.durables)
            for durable in topic.durables:
                if durable.terms.topic == topic.name:
                    pending += durable.queue.waiting() + durable.queue.in_flight
        consumers, cached = destination.consumer_count, destination.paged_in()
        if (
            pending == self._pending
            and destination.enqueued == self._enqueued
            and destination.dequeued == self._dequeued
            and destination.dispatched == self._dispatched
            and destination.in_flight == self._in_flight
            and destination.expired == self._expired
            and consumers == self._consumers
            and destination.producers == self._producers
            and usage.used_bytes == self._memory_bytes
            and usage.limit_bytes == self._limit_bytes
            and cached == self._cached
            and durables == self._durables
            and destination.paused == self._paused
            and destination.blocked_sends == self._blocked_sends
            and destination.blocked_seconds == self._blocked_seconds
        ):
            return False
        self._pending, self._durables = pending, durables
        self._consumers, self._cached = consumers, cached
        self._enqueued, self._dequeued = destination.enqueued, destination.dequeued
        self._dispatched, self._in_flight = destination.dispatched, destination.in_flight
        self._expired, self._producers = destination.expired, destination.producers
        self._memory_bytes, self._limit_bytes = usage.used_bytes, usage.limit_bytes
        self._paused = destination.paused
        self._blocked_sends, self._blocked_seconds = destination.blocked_sends, destination.blocked_seconds
        return True

    def row(self) -> list[object]:
        """Return the values in the order of `spanwire.broker.admin.views.DestinationView`."""
        return [
            self._name,
            self._pending,
            self._in_flight,
            self._enqueued,
            self._dequeued,
            self._dispatched,
            self._expired,
            self._consumers,
            self._producers,
            self._memory_bytes,
            self._limit_bytes,
            self._paused,
            self._durables,
            self._cached,
            self._blocked_sends,
            int(self._blocked_seconds * 1000),
            self._takes_dead_letters,
        ]


class DestinationChanges:
    """Keeps the values from scans. One scan ends before the next one begins."""

    def __init__(self, destination_map: DestinationMap, policies: PolicyMap) -> None:
        self._map: Final[DestinationMap] = destination_map
        self._policies: Final[PolicyMap] = policies
        self._generation = policies.generation
        self._seen: Final[dict[BrokerDestination, SeenDestination]] = {}
        self._removed: Final[deque[tuple[int, str]]] = deque()
        self._met = 0  # destinations that the scan has met
        self._forgotten = 0  # readers of earlier revisions need all rows
        self.revision = 0

    def begin(self) -> list[BrokerDestination]:
        """Begin a scan; its destinations are then handed to `scan` in slices."""
        if self._generation != self._policies.generation:  # other destinations take dead letters now
            self._generation = self._policies.generation
            self._seen.clear()
            self._forgotten = self.revision + 1
        self.revision += 1
        self._met = 0
        return self._map.all()

    def is_complete(self, since: int) -> bool:
        """Return True if a reader of the revision ``since`` needs all rows."""
        return since < self._forgotten

    def scan(self, destinations: list[BrokerDestination], since: int) -> list[list[object]]:
        """Look at some destinations of the scan. Return the rows of destinations changed after ``since``."""
        rows: list[list[object]] = []
        revision = self.revision
        for destination in destinations:
            if destination.removed:
                continue
            seen = self._seen.get(destination)
            if seen is None:
                takes_dead_letters = self._policies.takes_dead_letters(destination.name)
                seen = self._seen[destination] = SeenDestination(destination, takes_dead_letters)
            seen.mark = revision
            self._met += 1
            if seen.update():
                seen.revision = revision
            if seen.revision > since:
                rows.append(seen.row())
        return rows

    def end(self, since: int) -> list[str]:
        """End the scan. Return the names of destinations removed after ``since``.

        A name may belong to a destination created again, with a row in the scan as well.
        """
        if self._met != len(self._seen):
            gone = [destination for destination, seen in self._seen.items() if seen.mark != self.revision]
            for destination in gone:
                self._removed.append((self.revision, self._seen.pop(destination).name))
        while len(self._removed) > MAX_REMOVED:
            self._forgotten = self._removed.popleft()[0]
        return [name for revision, name in self._removed if revision > since]
