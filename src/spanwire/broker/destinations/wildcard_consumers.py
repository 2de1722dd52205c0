"""Consumers of wildcards: which new destinations are offered to whom, and how many there may be.

A broker with 1,000 such consumers and 50,000 destinations would have 50 million attachments, of 40 to 230 bytes each.
ActiveMQ has no limit but its heap. Here consumers beyond a limit are refused, and one that passes it while it is being
attached is ended with its connection, so that no client believes that it listens where it does not.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.wild_weights import WildWeights, front_of, wild_topics
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.model.destination import Destination
from spanwire.model.errors import ResourceAllocationError

MAX_PATTERNS: Final = 50_000  # of one broker; a new destination is compared with each, at 0.3 microseconds
MAX_ATTACHED: Final = 2_000_000  # places at which consumers of wildcards listen; half a GB for queues
COMPARED_PER_STEP: Final = 64  # names or destinations looked at, at 0.3 microseconds each, which count as one step


class PatternSubscription:
    """A subscription and one wildcard pattern it asked for."""

    __slots__ = ("pattern", "subscription")

    def __init__(self, pattern: Destination, subscription: Subscription) -> None:
        self.pattern: Final[Destination] = pattern
        self.subscription: Final[Subscription] = subscription


class WildcardConsumers:
    """The patterns of one broker, by who came first. Attaching is left to `Destinations` and `Joining`."""

    def __init__(self, max_attached: int = MAX_ATTACHED) -> None:
        self.max_attached = max_attached
        self._entries: Final[dict[Subscription, list[PatternSubscription]]] = {}
        self._places: Final[dict[Subscription, int]] = {}  # where each listens, as far as that is in ``attached``
        self._count = 0
        self.weight = 0  # of those that want topics: what a new topic may have to hand each message to
        self.wild: Final[WildWeights] = WildWeights()  # the same without bridges that wait for a removed topic
        self.attached = 0  # places at which all of them listen, each consumer with all its destinations

    def check_room(self, patterns: int) -> None:
        """Raises `ResourceAllocationError` when there may not be so many more."""
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
        """Return what a consumer is told that cannot be attached."""
        return ResourceAllocationError(
            f"consumers of wildcards listen at {self.max_attached} destinations together, as many as they may: "
            f"use narrower wildcards or fewer consumers"
        )

    def recount(self, subscription: Subscription) -> None:
        """Count the destinations of ``subscription`` anew, which have changed; one without wildcards does not count."""
        before = self._places.get(subscription)
        if before is not None:
            places = len(subscription.homes)
            self._places[subscription] = places
            self.attached += places - before

    def add(self, pattern: Destination, subscription: Subscription) -> None:
        """Offer every new destination under ``pattern`` to ``subscription``."""
        entries = self._entries.setdefault(subscription, [])
        if not pattern.is_queue and not _wants_topics(entries):
            self.weight += subscription.weight
        counted = [front_of(other) for other in _wild(entries)]
        entries.append(PatternSubscription(pattern, subscription))
        if pattern.is_pattern and not pattern.is_queue and front_of(pattern) not in counted:
            self.wild.add([pattern], subscription.weight)
        self._count += 1
        self._places.setdefault(subscription, 0)
        self.recount(subscription)

    def remove(self, subscription: Subscription) -> bool:
        """Stop offering destinations to ``subscription``; False when none were."""
        entries = self._entries.pop(subscription, None)
        if entries is None:
            return False
        self._count -= len(entries)
        if _wants_topics(entries):
            self.weight -= subscription.weight
        self.wild.add(_wild(entries), -subscription.weight)
        self.attached -= self._places.pop(subscription)
        return True

    def listens(self, subscription: Subscription, destination: Destination) -> bool:
        """Return True if ``destination`` falls under a pattern of ``subscription``."""
        return any(entry.pattern.matches(destination) for entry in self._entries.get(subscription, []))

    def all(self) -> list[PatternSubscription]:
        """The patterns that somebody listens to, by who came first."""
        return [entry for entries in self._entries.values() for entry in entries]

    def steps(self) -> int:
        """Return the steps that comparing a new destination takes."""
        return self._count // COMPARED_PER_STEP

    def subscriptions(self, destination: Destination) -> list[Subscription]:
        """The subscriptions that want ``destination``, each once."""
        found: list[Subscription] = []
        for subscription, entries in self._entries.items():
            for entry in entries:
                if entry.pattern.matches(destination):
                    found.append(subscription)
                    break
        return found


def _wants_topics(entries: list[PatternSubscription]) -> bool:
    return any(not entry.pattern.is_queue for entry in entries)


def _wild(entries: list[PatternSubscription]) -> list[Destination]:
    return wild_topics([entry.pattern for entry in entries])
