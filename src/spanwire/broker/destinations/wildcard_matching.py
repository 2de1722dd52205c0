"""Wildcard consumers and destinations find each other: many of them a slice at a time.

A consumer of a wildcard may match all destinations, and a new destination all consumers of wildcards. What is over
the first slice is done in later turns. A queue loses nothing by that, for its messages wait. A topic completes what
concerns itself before it hands a message on, so that nobody misses one.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import BrokerDestination
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.destination import Destination

JOIN_STEPS: Final = 500  # destinations or consumers that one slice looks at
CONSUMERS_PER_STEP: Final = 16  # that a destination has already count as one more: some of them are told


class Attaching(Protocol):
    """Who attaches a wildcard subscription, if it may read the destination."""

    def attach(self, home: BrokerDestination, subscription: Subscription) -> bool:
        """Attach ``subscription`` to ``home``, once; False when there was no room and it is ended."""
        ...

    def has_room(self) -> bool:
        """Return True if consumers of wildcards may be attached to further destinations."""
        ...

    def end(self, subscription: Subscription) -> None:
        """There is no room for ``subscription``, which is being attached: end it."""
        ...


class Joining(BrokerDestination):
    """Attaches a consumer to the destinations under ``pattern``, or consumers to one destination. A job of the broker
    and no place for messages.
    """

    def __init__(
        self,
        pattern: Destination,
        homes: list[BrokerDestination],
        subscriptions: list[Subscription],
        attaching: Attaching,
        context: BrokerContext,
    ) -> None:
        """Either ``homes`` are those that ``pattern`` may match, or there is one, which all ``subscriptions`` want."""
        super().__init__(pattern, PolicyEntry(pattern), MemoryUsage(0))
        self._homes: Final[list[BrokerDestination]] = homes
        self._subscriptions: Final[list[Subscription]] = subscriptions
        self._attaching: Final[Attaching] = attaching
        self._context: Final[BrokerContext] = context
        self._by_pattern: Final[bool] = len(subscriptions) == 1
        self._next = 0  # of whichever there are many
        self.steps = 0

    def start(self) -> None:
        """Do the first slice now."""
        if self.work():
            self._context.joins.append(self)
            self._context.schedule(self)

    def work(self) -> bool:
        """One slice; True while there is more to do."""
        is_limited = self._by_pattern and self._next > 0  # the first slice is let in whole
        begin = self.steps
        end = begin + JOIN_STEPS
        count = len(self._homes) if self._by_pattern else len(self._subscriptions)
        while self._next < count and self.steps < end:
            home = self._homes[self._next if self._by_pattern else 0]
            subscription = self._subscriptions[0 if self._by_pattern else self._next]
            self._next += 1
            self.steps += 1
            if home.removed or subscription.removed:
                continue
            if not self._by_pattern or self.destination.matches(home.destination):
                if is_limited and home not in subscription.homes and not self._attaching.has_room():
                    self._attaching.end(subscription)
                    self._next = count
                    break
                self.steps += home.consumer_count // CONSUMERS_PER_STEP
                if not self._attach(home, subscription) and self._by_pattern:
                    self._next = count
        self._context.steps += self.steps - begin
        more = self._next < count and not (self._by_pattern and self._subscriptions[0].removed)
        if not more and self in self._context.joins:
            self._context.joins.remove(self)
        return more

    def _attach(self, home: BrokerDestination, subscription: Subscription) -> bool:
        before = self._context.steps
        if not self._attaching.attach(home, subscription):
            return False
        self.steps += self._context.steps - before  # what a topic gives that it has kept
        self._context.steps = before
        if subscription.started and home in subscription.busy:
            home.fill()
        return True

    def complete(self, home: BrokerDestination) -> None:
        """Attach to ``home`` now who is not attached yet."""
        if not self._by_pattern:
            if home is self._homes[0]:
                for subscription in self._subscriptions[self._next :]:
                    if not subscription.removed:
                        self._attach(home, subscription)
                self._next = len(self._subscriptions)
        elif not self._subscriptions[0].removed and self.destination.matches(home.destination):
            if not self._attach(home, self._subscriptions[0]):
                self._next = len(self._homes)
