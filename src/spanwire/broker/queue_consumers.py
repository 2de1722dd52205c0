"""The consumers of one queue, best priority first, and whose turn it is."""

from __future__ import annotations

from typing import Final

from spanwire.broker.subscription import Subscription


class QueueConsumer:
    """A subscription at one queue, and how far down the line it has looked."""

    __slots__ = ("scanned", "subscription")

    def __init__(self, subscription: Subscription, scanned: int) -> None:
        self.subscription: Final[Subscription] = subscription
        self.scanned = scanned


class QueueConsumers:
    """Keeps the order of the consumers and gives the next in turn; what they get is left to `Queue`.

    ``selective`` counts those that do not take every message.
    """

    def __init__(self) -> None:
        self.all: Final[list[QueueConsumer]] = []
        self.selective = 0
        self.uniform = True
        self._next = 0
        self._exclusive: Subscription | None = None

    def attach(self, subscription: Subscription, scanned: int) -> None:
        """Add a consumer, behind those of the same priority."""
        priority = subscription.info.priority
        place = 0
        while place < len(self.all) and self.all[place].subscription.info.priority >= priority:
            place += 1
        self.all.insert(place, QueueConsumer(subscription, scanned))
        self._changed()

    def detach(self, subscription: Subscription) -> None:
        """Remove a consumer."""
        for place, consumer in enumerate(self.all):
            if consumer.subscription is subscription:
                del self.all[place]
                break
        self._changed()

    def _changed(self) -> None:
        consumers = self.all
        self._next = 0
        self.uniform = not consumers or (
            consumers[0].subscription.info.priority == consumers[-1].subscription.info.priority
        )
        self.selective = 0
        self._exclusive = None
        for consumer in consumers:
            subscription = consumer.subscription
            if (
                subscription.selector is not None
                or subscription.no_local_connection is not None
                or subscription.network_filter is not None
            ):
                self.selective += 1
            if subscription.info.exclusive and self._exclusive is None:
                self._exclusive = subscription

    def next_taker(self) -> Subscription | None:
        """The consumer whose turn it is, among those of the best priority that can take a message."""
        exclusive = self._exclusive
        if exclusive is not None:
            return exclusive if exclusive.can_take() else None
        consumers = self.all
        count = len(consumers)
        if not self.uniform:
            return self._next_by_priority()
        index = self._next
        for _ in range(count):
            if index >= count:
                index = 0
            subscription = consumers[index].subscription
            index += 1
            if subscription.can_take():
                self._next = index
                return subscription
        return None

    def _next_by_priority(self) -> Subscription | None:
        consumers = self.all
        for place, consumer in enumerate(consumers):
            subscription = consumer.subscription
            if subscription.can_take():
                last = place
                priority = subscription.info.priority
                while last + 1 < len(consumers) and consumers[last + 1].subscription.info.priority == priority:
                    last += 1
                consumers.insert(last, consumers.pop(place))
                return subscription
        return None

    def in_turn(self) -> list[QueueConsumer]:
        """All that may take a message now, beginning with another one each time."""
        exclusive = self._exclusive
        if exclusive is not None:
            return [consumer for consumer in self.all if consumer.subscription is exclusive]
        if not self.uniform or self._next == 0:
            self._next = 1 if self.uniform and len(self.all) > 1 else 0
            return self.all.copy()
        start = self._next
        self._next = start + 1 if start + 1 < len(self.all) else 0
        return self.all[start:] + self.all[:start]

    def is_hungry(self) -> bool:
        """Whether some consumer can take more."""
        return any(consumer.subscription.can_take() for consumer in self.all)
