"""Wildcard consumers: matching with new destinations, and limits.

A broker with 1,000 such consumers and 50,000 destinations would have 50 million attachments, of 40 to 230 bytes each.
ActiveMQ has no limit but the heap. Spanwire refuses consumers beyond a limit. A consumer that passes the limit while
being attached is ended with its connection, so that no client relies on a missing attachment.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.pattern_index import PatternIndex, SharedPattern
from spanwire.broker.destinations.wild_weights import WildWeights, front_of, wild_topics
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.model.destination import Destination
from spanwire.model.errors import ResourceAllocationError

MAX_PATTERNS: Final = 50_000  # patterns of one broker; comparing a new destination takes 0.3 microseconds for each
MAX_ATTACHED: Final = 2_000_000  # attachments of wildcard consumers; half a GB for queues


class WildcardConsumers:
    """The patterns of one broker, oldest subscription first.

    `Destinations` and `Joining` attach the consumers.
    """

    def __init__(self, max_attached: int = MAX_ATTACHED) -> None:
        self.max_attached = max_attached
        self._entries: Final[dict[Subscription, list[Destination]]] = {}
        self._index: Final[PatternIndex] = PatternIndex()
        self._numbers: Final[dict[Subscription, int]] = {}  # numbers in the index, ascending with the age
        self._by_number: Final[dict[int, Subscription]] = {}
        self._next_number = 0
        self._counted: Final[dict[Subscription, int]] = {}  # destinations of each, as counted in ``attached``
        self._count = 0
        self.weight = 0  # weight of all with topics: the largest load of a new topic
        self.wild: Final[WildWeights] = WildWeights()  # such weights without bridges waiting for a removed topic
        self.attached = 0  # attachments of all wildcard consumers

    def check_room(self, patterns: int) -> None:
        """Raise `ResourceAllocationError` if there is no room for so many further ``patterns``."""
        if self._count + patterns > MAX_PATTERNS:
            raise ResourceAllocationError(
                f"the broker is at its maximum of {MAX_PATTERNS} wildcards of consumers: end some or use fewer"
            )
        if not self.has_room():
            raise self.refusal()

    def has_room(self) -> bool:
        """Return True if consumers may be attached to further destinations."""
        return self.attached < self.max_attached

    def refusal(self) -> ResourceAllocationError:
        """Return the error for a consumer that finds no room."""
        return ResourceAllocationError(
            f"consumers of wildcards listen at {self.max_attached} destinations together, as many as they may: "
            f"use narrower wildcards or fewer consumers"
        )

    def recount(self, subscription: Subscription) -> None:
        """Update the number of destinations of ``subscription``.

        A subscription without wildcards does not count.
        """
        before = self._counted.get(subscription)
        if before is not None:
            count = len(subscription.destinations)
            self._counted[subscription] = count
            self.attached += count - before

    def add(self, pattern: Destination, subscription: Subscription) -> None:
        """Offer every new destination under ``pattern`` to ``subscription``."""
        if subscription not in self._entries:
            self._next_number += 1
            self._numbers[subscription] = self._next_number
            self._by_number[self._next_number] = subscription
        entries = self._entries.setdefault(subscription, [])
        self._index.add(self._numbers[subscription], pattern)
        if not pattern.is_queue and not _wants_topics(entries):
            self.weight += subscription.weight
        counted = [front_of(other) for other in wild_topics(entries)]
        entries.append(pattern)
        if pattern.is_pattern and not pattern.is_queue and front_of(pattern) not in counted:
            self.wild.add([pattern], subscription.weight)
        self._count += 1
        self._counted.setdefault(subscription, 0)
        self.recount(subscription)

    def remove(self, subscription: Subscription) -> bool:
        """Stop offering destinations to ``subscription``. Return False if the subscription has no patterns."""
        entries = self._entries.pop(subscription, None)
        if entries is None:
            return False
        self._count -= len(entries)
        number = self._numbers.pop(subscription)
        del self._by_number[number]
        for pattern in entries:
            self._index.remove(number, pattern)
        if _wants_topics(entries):
            self.weight -= subscription.weight
        self.wild.add(wild_topics(entries), -subscription.weight)
        self.attached -= self._counted.pop(subscription)
        return True

    def listens(self, subscription: Subscription, destination: Destination) -> bool:
        """Return True if ``destination`` matches a pattern of ``subscription``."""
        return any(pattern.matches(destination) for pattern in self._entries.get(subscription, []))

    def overlapping(self, wanted: Destination) -> list[SharedPattern]:
        """Return the patterns, each once, that may match a destination under ``wanted``; see `PatternIndex`."""
        return self._index.overlapping(wanted)

    @property
    def looked(self) -> int:
        """Number of beginnings of patterns examined by the last call of `overlapping`."""
        return self._index.looked

    def owner(self, number: int) -> Subscription:
        """Return the subscription with ``number`` among the owners of a pattern."""
        return self._by_number[number]

    def compared(self, destination: Destination) -> int:
        """Return the number of comparisons of `subscriptions` for ``destination``."""
        return self._index.compared(destination)

    def subscriptions(self, destination: Destination) -> list[Subscription]:
        """Return the subscriptions that match ``destination``, each once, the oldest first."""
        return [self._by_number[number] for number in self._index.find(destination)]


def _wants_topics(patterns: list[Destination]) -> bool:
    return any(not pattern.is_queue for pattern in patterns)
