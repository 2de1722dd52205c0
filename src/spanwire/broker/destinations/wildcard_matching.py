"""Attachment of wildcard consumers to destinations, a slice at a time.

A wildcard consumer may match all destinations, and a new destination all wildcard consumers. Work beyond the first
slice is done in later turns. A queue loses no message meanwhile, since messages wait. A topic completes its own
attachments before dispatch, so that no consumer misses a message.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.model.destination import Destination

JOIN_STEPS: Final = 500  # destinations or consumers examined in one slice
CONSUMERS_PER_STEP: Final = 16  # consumers and durable subscriptions that cost one step more: each is counted


class Attaching(Protocol):
    """Attaches wildcard subscriptions to the destinations that the user may read."""

    def attach(self, destination: BrokerDestination, subscription: Subscription) -> bool:
        """Attach ``subscription`` to ``destination``, once.

        Return False without room: the subscription is ended.
        """
        ...

    def has_room(self) -> bool:
        """Return True if wildcard consumers may be attached to further destinations."""
        ...

    def end(self, subscription: Subscription) -> None:
        """End ``subscription`` for lack of room."""
        ...


class Joining(Job):
    """Attaches one consumer to the destinations under ``pattern``.

    Also attaches several consumers to one destination.
    """

    def __init__(
        self,
        pattern: Destination,
        destinations: list[BrokerDestination],
        subscriptions: list[Subscription],
        attaching: Attaching,
        context: BrokerContext,
    ) -> None:
        """Take many ``destinations`` with one subscription for ``pattern``, or one destination that all
        ``subscriptions`` match.
        """
        self._pattern: Final[Destination] = pattern
        self._destinations: Final[list[BrokerDestination]] = destinations
        self._subscriptions: Final[list[Subscription]] = subscriptions
        self._attaching: Final[Attaching] = attaching
        self._context: Final[BrokerContext] = context
        self._by_pattern: Final[bool] = len(subscriptions) == 1
        self._next = 0  # index of the next destination or consumer
        self.steps = 0

    def start(self) -> None:
        """Do the first slice now, unless the same request did as much before."""
        before = self.steps
        if self._context.first_slices >= JOIN_STEPS or self.work():
            self._context.joins.append(self)
            self._context.schedule(self)
            if self._by_pattern:
                self._subscriptions[0].joins += 1
        self._context.first_slices += self.steps - before

    def load_for(self, destination: BrokerDestination) -> int:
        """Return the number of steps of one message to ``destination`` for the consumers not yet attached."""
        if self._by_pattern:
            subscription = self._subscriptions[0]
            if (
                subscription.removed
                or destination in subscription.destinations
                or not self._pattern.matches(destination.name)
            ):
                return 0
            return subscription.weight
        if destination is not self._destinations[0]:
            return 0
        load = 0
        for subscription in self._subscriptions[self._next :]:
            if not subscription.removed:
                load += subscription.weight
        return load

    def work(self) -> bool:
        """Do one slice and return True while there is more to do."""
        is_limited = self._by_pattern and self._next > 0  # the first slice is always admitted whole
        begin = self.steps
        end = begin + JOIN_STEPS
        first = self._next
        count = len(self._destinations) if self._by_pattern else len(self._subscriptions)
        while self._next < count and self.steps < end:
            if self._next > first and self._context.first_slices >= JOIN_STEPS:
                break  # else each further topic with retained messages would leave a job of its own
            destination = self._destinations[self._next if self._by_pattern else 0]
            subscription = self._subscriptions[0 if self._by_pattern else self._next]
            self._next += 1
            self.steps += 1
            if destination.removed or subscription.removed:
                continue
            if not self._by_pattern or self._pattern.matches(destination.name):
                if is_limited and destination not in subscription.destinations and not self._attaching.has_room():
                    self._attaching.end(subscription)
                    self._next = count
                    break
                self.steps += (destination.consumer_count + destination.durable_count) // CONSUMERS_PER_STEP
                if not self._attach(destination, subscription) and self._by_pattern:
                    self._next = count
        self._context.steps += self.steps - begin
        more = self._next < count and not (self._by_pattern and self._subscriptions[0].removed)
        if not more and self in self._context.joins:
            self._context.joins.remove(self)
            if self._by_pattern:
                self._subscriptions[0].joins -= 1
        return more

    def _attach(self, destination: BrokerDestination, subscription: Subscription) -> bool:
        before = self._context.steps
        if not self._attaching.attach(destination, subscription):
            return False
        self.steps += self._context.steps - before  # steps for retained messages of a topic
        self._context.steps = before
        if subscription.started and destination in subscription.busy:
            destination.fill()
        return True

    def complete(self, destination: BrokerDestination) -> None:
        """Attach all missing consumers to ``destination`` now."""
        if not self._by_pattern:
            if destination is self._destinations[0]:
                for subscription in self._subscriptions[self._next :]:
                    if not subscription.removed:
                        self._attach(destination, subscription)
                self._next = len(self._subscriptions)
        elif not self._subscriptions[0].removed and self._pattern.matches(destination.name):
            if not self._attach(destination, self._subscriptions[0]):
                self._next = len(self._destinations)
