"""The consumers of one queue, best priority first, and whose turn it is."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.queue_policy import QueuePolicy
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.scan_position import ScanPosition


class QueueConsumer:
    """A subscription at one queue, how far down each pending_list it has looked if it scanned for itself, how many message
    groups it owns, and its place among the others.
    """

    __slots__ = ("positions", "groups", "place", "subscription")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription: Final[Subscription] = subscription
        self.positions: list[ScanPosition] = []
        self.groups = 0
        self.place = 0


class QueueConsumers:
    """Keeps the order of the consumers and gives the next in turn; what they get is left to `Queue`.

    ``selective`` counts those that do not take every message. Of exclusive consumers only one gets messages; when a
    better one comes it begins once the one before has acknowledged all it had.
    """

    def __init__(self, policy: QueuePolicy, pending_lists: list[PendingList]) -> None:
        self.all: Final[list[QueueConsumer]] = []
        self.selective = 0
        self.conditional = 0  # bridges that may be refused a message now and get it later
        self.uniform = True
        self._policy: Final[QueuePolicy] = policy
        self._pending_lists: Final[list[PendingList]] = pending_lists
        self._strict: Final[bool] = policy.strict_order_dispatch
        self._next = 0
        self._exclusive: Subscription | None = None
        self._leaving: Subscription | None = None  # exclusive before, and still has messages out

    def attach(self, subscription: Subscription) -> None:
        """Add a consumer, behind those of the same priority."""
        place = len(self.all)
        if self._policy.use_consumer_priority:
            priority = subscription.info.priority
            place = 0
            while place < len(self.all) and self.all[place].subscription.info.priority >= priority:
                place += 1
        self.all.insert(place, QueueConsumer(subscription))
        self._changed()

    def detach(self, subscription: Subscription) -> QueueConsumer | None:
        """Remove a consumer; gives it."""
        gone: QueueConsumer | None = None
        for place, consumer in enumerate(self.all):
            if consumer.subscription is subscription:
                gone = consumer
                del self.all[place]
                break
        if gone is not None:
            self._close(gone)
        if self._leaving is subscription:
            self._leaving = None
        if self._exclusive is subscription:
            self._exclusive = None
        self._changed()
        return gone

    def detach_left(self) -> list[QueueConsumer]:
        """Remove the consumers that have left; gives them."""
        gone = [consumer for consumer in self.all if consumer.subscription.left]
        if gone:
            self.all[:] = [consumer for consumer in self.all if not consumer.subscription.left]
            for consumer in gone:
                self._close(consumer)
            if self._leaving is not None and self._leaving.left:
                self._leaving = None
            if self._exclusive is not None and self._exclusive.left:
                self._exclusive = None
            self._changed()
        return gone

    def _changed(self) -> None:
        consumers = self.all
        self._next = 0
        self.uniform = (
            not consumers
            or not self._policy.use_consumer_priority
            or consumers[0].subscription.info.priority == consumers[-1].subscription.info.priority
        )
        self.selective = 0
        self.conditional = 0
        best: Subscription | None = None
        for place, consumer in enumerate(consumers):
            consumer.place = place
            subscription = consumer.subscription
            if subscription.selector is not None or subscription.is_filtered:
                self.selective += 1
            if subscription.bridge_condition is not None:
                self.conditional += 1
            if best is None and (subscription.info.exclusive or self._policy.all_consumers_exclusive):
                best = subscription
        if best is self._leaving:
            self._leaving = None  # the better one did not stay
        before = self._exclusive
        if best is not before:
            if before is not None and self._leaving is None and before.dispatched_count > 0:
                self._leaving = before
            self._exclusive = best

    def start_over(self) -> None:
        """All look at the whole pending_list, each for itself."""
        for consumer in self.all:
            for place, position in enumerate(consumer.positions):
                self._pending_lists[place].start_over(position)
        self.open_positions()

    def open_positions(self) -> None:
        """Those that do not look yet begin."""
        for consumer in self.all:
            if not consumer.positions:
                consumer.positions = [pending_list.open(True) for pending_list in self._pending_lists]

    def close_positions(self) -> None:
        """Nobody scanned for itself any more."""
        for consumer in self.all:
            self._close(consumer)

    def _close(self, consumer: QueueConsumer) -> None:
        for place, position in enumerate(consumer.positions):
            self._pending_lists[place].close(position)
        consumer.positions = []

    def may_share_scan(self) -> bool:
        """Whether it is all the same to the queue who of those that can take a message gets it."""
        return self._exclusive is None and self.conditional == 0 and not self.in_order and len(self._pending_lists) == 1

    def turns_until(self, consumer: QueueConsumer) -> int:
        """How many others have their turn before it."""
        turns = consumer.place - self._next
        return turns if turns >= 0 else turns + len(self.all)

    def next_taker(self) -> Subscription | None:
        """The consumer whose turn it is, among those of the best priority that can take a message."""
        if self._exclusive is not None:
            return self._exclusive_taker()
        consumers = self.all
        count = len(consumers)
        if not self.uniform:
            return self._next_by_priority()
        index = 0 if self._strict else self._next
        for _ in range(count):
            if index >= count:
                index = 0
            subscription = consumers[index].subscription
            index += 1
            if subscription.can_take():
                self._next = index
                return subscription
        return None

    def _exclusive_taker(self) -> Subscription | None:
        leaving = self._leaving
        if leaving is not None:
            if leaving.dispatched_count > 0:
                return None
            self._leaving = None
        exclusive = self._exclusive
        return exclusive if exclusive is not None and exclusive.can_take() else None

    def _next_by_priority(self) -> Subscription | None:
        consumers = self.all
        for place, consumer in enumerate(consumers):
            subscription = consumer.subscription
            if subscription.can_take():
                if self._strict:
                    return subscription
                self._go_behind_equals(place)
                return subscription
        return None

    def _go_behind_equals(self, place: int) -> None:
        """The next message is for another consumer of the same priority, if there is one."""
        consumers = self.all
        last = place
        priority = consumers[place].subscription.info.priority
        while last + 1 < len(consumers) and consumers[last + 1].subscription.info.priority == priority:
            last += 1
        consumers.insert(last, consumers.pop(place))

    def in_turn(self, by_groups: bool) -> list[QueueConsumer]:
        """All that may take a message now, beginning behind the one that note_taker the last; ``by_groups`` those with the
        fewest message groups first.
        """
        if self._exclusive is not None:
            exclusive = self._exclusive_taker()
            return [consumer for consumer in self.all if consumer.subscription is exclusive]
        start = 0 if self._strict else self._next
        found = self.all.copy() if start == 0 else self.all[start:] + self.all[:start]
        if by_groups:
            found.sort(key=_least_groups if self.uniform else _best_with_least_groups)
        return found

    def note_taker(self, consumer: QueueConsumer) -> None:
        """A message of those that consumers choose from went to ``consumer``: the turn is the next one's."""
        if self._strict:
            return
        if self.uniform:
            self._next = consumer.place + 1 if consumer.place + 1 < len(self.all) else 0
        elif self._exclusive is None:
            self._go_behind_equals(self.all.index(consumer))

    @property
    def is_strict(self) -> bool:
        """Whether the first that can take a message is served as long as it can, whatever the priorities."""
        return self._strict

    @property
    def in_order(self) -> bool:
        """Whether some are served as long as they can take messages, before the others."""
        return self._strict or not self.uniform

    def sole(self) -> QueueConsumer | None:
        """The only consumer, if whether it gets a message is for its window and its own choice to say."""
        return self.all[0] if len(self.all) == 1 and self._exclusive is None and not self._strict else None

    def is_hungry(self) -> bool:
        """Whether some consumer can take more."""
        if self._exclusive is not None:
            return self._exclusive_taker() is not None
        return any(consumer.subscription.can_take() for consumer in self.all)


def _least_groups(consumer: QueueConsumer) -> int:
    return consumer.groups


def _best_with_least_groups(consumer: QueueConsumer) -> tuple[int, int]:
    return -consumer.subscription.info.priority, consumer.groups
