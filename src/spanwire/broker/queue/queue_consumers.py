"""The consumers of a queue, best priority first, and the next consumer in turn."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_entry import QueuePolicy
from spanwire.broker.queue.page import ScanPosition
from spanwire.broker.queue.pending_list import PendingList

DEFAULT_START_WAIT_MS: Final = 1_000  # milliseconds; consumersBeforeDispatchStarts without a time waits as in ActiveMQ
AT_ONCE: Final = -1


class QueueConsumer:
    """A subscription at one queue, with scan positions, number of message groups and index in turn."""

    __slots__ = ("groups", "positions", "subscription", "turn_index")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription: Final[Subscription] = subscription
        self.positions: list[ScanPosition] = []
        self.groups = 0
        self.turn_index = 0


class QueueConsumers:
    """Orders the consumers and chooses the next in turn.

    ``selective`` counts consumers with a selector or filter. ``conditional`` counts bridges that may get a refused
    message later. Among exclusive consumers the best gets all messages. A better consumer takes over after the
    acknowledgement of all messages in flight to the previous consumer.
    """

    def __init__(self, policy: QueuePolicy, lists: list[PendingList]) -> None:
        self.all: Final[list[QueueConsumer]] = []
        self.selective = 0
        self.conditional = 0  # bridges with a condition that changes with time
        self.uniform = True
        self.newest: QueueConsumer | None = None  # attached last, with no change since
        self._policy: Final[QueuePolicy] = policy
        self._pending_lists: Final[list[PendingList]] = lists
        self._strict: Final[bool] = policy.strict_order_dispatch
        self._next = 0
        self._is_numbered = True  # the indexes in turn are those of the list
        self._exclusive: Subscription | None = None
        self._leaving: Subscription | None = None  # the previous exclusive consumer, while its messages are in flight

    def attach(self, subscription: Subscription) -> None:
        """Add a consumer behind the others of the same priority, at a cost that hardly depends on their number."""
        consumer = QueueConsumer(subscription)
        index = self._index_behind(subscription.info.priority)
        if index == len(self.all):
            consumer.turn_index = index
        else:
            self._is_numbered = False
        self.all.insert(index, consumer)
        self.newest = consumer
        self._count(subscription)
        best = self._exclusive
        if self._is_exclusive(subscription) and (
            best is None or (self._policy.use_consumer_priority and subscription.info.priority > best.info.priority)
        ):
            best = subscription
        self._begin_turns(best)

    def _index_behind(self, priority: int) -> int:
        """Return the index behind the last consumer of at least this priority."""
        low, high = 0, len(self.all)
        if not self._policy.use_consumer_priority:
            return high
        while low < high:
            middle = (low + high) // 2
            if self.all[middle].subscription.info.priority >= priority:
                low = middle + 1
            else:
                high = middle
        return low

    def detach(self, subscription: Subscription) -> QueueConsumer | None:
        """Remove and return a consumer, None if the subscription was not attached."""
        gone: QueueConsumer | None = None
        for index, consumer in enumerate(self.all):
            if consumer.subscription is subscription:
                gone = consumer
                del self.all[index]
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
        """Remove and return the consumers that have left."""
        gone = [consumer for consumer in self.all if consumer.subscription.is_detached]
        if gone:
            self.all[:] = [consumer for consumer in self.all if not consumer.subscription.is_detached]
            for consumer in gone:
                self._close(consumer)
            if self._leaving is not None and self._leaving.is_detached:
                self._leaving = None
            if self._exclusive is not None and self._exclusive.is_detached:
                self._exclusive = None
            self._changed()
        return gone

    def _changed(self) -> None:
        self._is_numbered = False
        self.newest = None
        self.selective = 0
        self.conditional = 0
        best: Subscription | None = None
        for consumer in self.all:
            self._count(consumer.subscription)
            if best is None and self._is_exclusive(consumer.subscription):
                best = consumer.subscription
        self._begin_turns(best)

    def _count(self, subscription: Subscription) -> None:
        if subscription.selector is not None or subscription.is_filtered:
            self.selective += 1
        if subscription.bridge_condition is not None:
            self.conditional += 1

    def _is_exclusive(self, subscription: Subscription) -> bool:
        return subscription.info.exclusive or self._policy.all_consumers_exclusive

    def _begin_turns(self, best: Subscription | None) -> None:
        """Have the first consumer begin; ``best`` is the best one among exclusive consumers."""
        consumers = self.all
        self._next = 0
        self.uniform = (
            not consumers
            or not self._policy.use_consumer_priority
            or consumers[0].subscription.info.priority == consumers[-1].subscription.info.priority
        )
        if best is self._leaving:
            self._leaving = None  # the better consumer left again
        before = self._exclusive
        if best is not before:
            if before is not None and self._leaving is None and before.dispatched_count > 0:
                self._leaving = before
            self._exclusive = best

    def _turn_of(self, consumer: QueueConsumer) -> int:
        """Return the index of a consumer in turn; all are numbered again after a change at the front."""
        if not self._is_numbered:
            self._is_numbered = True
            for index, each in enumerate(self.all):
                each.turn_index = index
        return consumer.turn_index

    def start_wait_ms(self, policy: QueuePolicy) -> int:
        """Return how long the dispatch must wait after a new consumer, in milliseconds; `AT_ONCE` ends a wait."""
        wait_ms = policy.time_before_dispatch_starts_ms
        if policy.consumers_before_dispatch_starts > 0:
            if len(self.all) >= policy.consumers_before_dispatch_starts:
                return AT_ONCE
            if wait_ms == 0:
                wait_ms = DEFAULT_START_WAIT_MS
        return wait_ms if len(self.all) == 1 else 0

    def start_over(self) -> None:
        """Have each consumer scan the whole queue separately."""
        for consumer in self.all:
            for index, position in enumerate(consumer.positions):
                self._pending_lists[index].start_over(position)
        self.open_positions()

    def open_positions(self) -> None:
        """Give a scan position to each consumer without one."""
        for consumer in self.all:
            if not consumer.positions:
                consumer.positions = [pending_list.open(True) for pending_list in self._pending_lists]

    def close_positions(self) -> None:
        """Forget all scan positions."""
        for consumer in self.all:
            self._close(consumer)

    def _close(self, consumer: QueueConsumer) -> None:
        for index, position in enumerate(consumer.positions):
            self._pending_lists[index].close(position)
        consumer.positions = []

    @property
    def exclusive(self) -> Subscription | None:
        """The consumer that gets all messages; a former one may still have some."""
        return self._exclusive

    def may_share_scan(self) -> bool:
        """Return True if no rule of the queue prefers one able consumer to another."""
        return self._exclusive is None and self.conditional == 0 and not self.in_order and len(self._pending_lists) == 1

    def turns_until(self, consumer: QueueConsumer) -> int:
        """Return the number of consumers in turn before ``consumer``."""
        turns = self._turn_of(consumer) - self._next
        return turns if turns >= 0 else turns + len(self.all)

    def next_taker(self) -> Subscription | None:
        """Return the next consumer in turn with room, of the best priority; None if no consumer has room."""
        if self._exclusive is not None:
            return self._exclusive_taker()
        consumers = self.all
        count: i64 = len(consumers)
        if not self.uniform:
            return self._next_by_priority()
        index: i64 = 0 if self._strict else self._next
        remaining = count
        while remaining > 0:
            if index >= count:
                index = 0
            subscription = consumers[index].subscription
            index += 1
            if subscription.can_take():
                self._next = index
                return subscription
            remaining -= 1
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
        for index, consumer in enumerate(consumers):
            subscription = consumer.subscription
            if subscription.can_take():
                if self._strict:
                    return subscription
                self._go_behind_equals(index)
                return subscription
        return None

    def _go_behind_equals(self, index: int) -> None:
        """Move a consumer behind others of the same priority, so that another one gets the next message."""
        consumers = self.all
        last = index
        priority = consumers[index].subscription.info.priority
        while last + 1 < len(consumers) and consumers[last + 1].subscription.info.priority == priority:
            last += 1
        consumers.insert(last, consumers.pop(index))

    def in_turn(self, by_groups: bool) -> list[QueueConsumer]:
        """Return the consumers that may take a message now, beginning with the next in turn.

        With ``by_groups`` consumers with the fewest message groups come first.
        """
        if self._exclusive is not None:
            exclusive = self._exclusive_taker()
            return [consumer for consumer in self.all if consumer.subscription is exclusive]
        start = 0 if self._strict else self._next
        consumers = self.all.copy() if start == 0 else self.all[start:] + self.all[:start]
        if by_groups:
            consumers.sort(key=_least_groups if self.uniform else _best_with_least_groups)
        return consumers

    def note_taker(self, consumer: QueueConsumer) -> None:
        """Pass the turn on after ``consumer`` chose and took a message."""
        if self._strict:
            return
        if self.uniform:
            behind = self._turn_of(consumer) + 1
            self._next = behind if behind < len(self.all) else 0
        elif self._exclusive is None:
            self._go_behind_equals(self.all.index(consumer))

    @property
    def is_strict(self) -> bool:
        """True if the first consumer with room gets all messages, at any priority (``strictOrderDispatch``)."""
        return self._strict

    @property
    def in_order(self) -> bool:
        """True if some consumers get messages before others as long as they have room."""
        return self._strict or not self.uniform

    def sole(self) -> QueueConsumer | None:
        """Return the only consumer, if only its window and its own choice decide about messages."""
        return self.all[0] if len(self.all) == 1 and self._exclusive is None and not self._strict else None

    def is_hungry(self) -> bool:
        """Return True if a consumer can take a message."""
        if self._exclusive is not None:
            return self._exclusive_taker() is not None
        return any(consumer.subscription.can_take() for consumer in self.all)


def _least_groups(consumer: QueueConsumer) -> int:
    return consumer.groups


def _best_with_least_groups(consumer: QueueConsumer) -> tuple[int, int]:
    return -consumer.subscription.info.priority, consumer.groups
