"""The consumers of a queue, best priority first, and the next consumer in turn."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from mypy_extensions import i64

from spanwire.broker.dispatch.message_reference import MessageHolder
from spanwire.broker.dispatch.subscription import Attachment, Subscription
from spanwire.broker.policy.policy_entry import QueuePolicy
from spanwire.broker.queue.page import ScanPosition
from spanwire.broker.queue.pending_list import PendingList

DEFAULT_START_WAIT_MS: Final = 1_000  # milliseconds; consumersBeforeDispatchStarts without a time waits as in ActiveMQ
AT_ONCE: Final = -1
FEW: Final = 32  # consumers that each message may look at for the next one with room


class QueueConsumer(Attachment):
    """A subscription at one queue, with scan positions and message groups.

    Consumers stand in the order of ``priority``, the highest first, and then of ``rank``.
    """

    __slots__ = (
        "groups",
        "index",
        "is_conditional",
        "is_ready",
        "is_selective",
        "number",
        "positions",
        "priority",
        "rank",
        "ready",
        "subscription",
    )

    def __init__(
        self,
        subscription: Subscription,
        priority: int,
        rank: int,
        ready: OrderedDict[QueueConsumer, None] | None = None,
    ) -> None:
        """``ready`` is `QueueConsumers.ready`."""
        self.subscription: Final[Subscription] = subscription
        self.positions: list[ScanPosition] = []
        self.groups: Final[dict[str, None]] = {}  # keys of the message groups that it owns
        self.priority: Final[int] = priority
        self.rank = rank
        self.index = 0  # in the list of all consumers, when it was last sought
        self.number = 0  # in its group of one selector
        self.is_selective: Final[bool] = subscription.selector is not None or subscription.is_filtered
        self.is_conditional: Final[bool] = subscription.bridge_condition is not None
        self.ready: Final[OrderedDict[QueueConsumer, None] | None] = ready
        self.is_ready = True  # stands in ``ready``, or nobody has looked for room

    def note_room(self) -> None:
        """Note that the subscription may have got room for a message."""
        if not self.is_ready and self.ready is not None:
            self.is_ready = True
            self.ready[self] = None


class QueueConsumers:
    """Orders the consumers and chooses the next in turn.

    ``selective`` counts consumers with a selector or filter. ``conditional`` counts bridges that may get a refused
    message later. Among exclusive consumers the best gets all messages. A better consumer takes over after the
    acknowledgement of all messages in flight to the previous consumer.

    The cost of a consumer that comes or leaves hardly depends on the number of others. Otherwise a thousand clients
    that come or leave at once would take the square of their number. Neither does the cost of a message: of more than
    `FEW` consumers, those without room are passed over until `QueueConsumer.note_room`.
    """

    def __init__(self, policy: QueuePolicy, lists: list[PendingList]) -> None:
        self.all: Final[list[QueueConsumer]] = []
        self.selective = 0
        self.conditional = 0  # bridges with a condition that changes with time
        self.uniform = True
        self.newest: QueueConsumer | None = None  # attached last, unless it has left
        self._policy: Final[QueuePolicy] = policy
        self._pending_lists: Final[list[PendingList]] = lists
        self._strict: Final[bool] = policy.strict_order_dispatch
        self.ready: Final[OrderedDict[QueueConsumer, None]] = OrderedDict()  # consumers that may have room, in turn
        self._has_ready = False  # ``ready`` has all consumers that may have room
        self._misses = 0  # searches in ``ready`` without success since it had all consumers
        self._shared = 0  # consumers of several destinations: a window that reopens is not noted at each
        self._next = 0
        self._ranks = 0  # ranks given so far
        self._has_positions = False  # each consumer has a scan position
        self._exclusives: list[QueueConsumer] | None = None  # in order; None without any
        self._exclusive: Subscription | None = None
        self._leaving: Subscription | None = None  # the previous exclusive consumer, while its messages are in flight

    def attach(self, subscription: Subscription, queue: MessageHolder) -> QueueConsumer:
        """Add a consumer of ``queue`` behind the others of the same priority."""
        self._keep_turn()
        priority = subscription.info.priority if self._policy.use_consumer_priority else 0
        consumer = QueueConsumer(subscription, priority, self._next_rank(), self.ready)
        consumer.index = _index_of(consumer, self.all)
        self.all.insert(consumer.index, consumer)
        self.newest = consumer
        self._count(consumer, 1)
        if self._has_ready:
            self.ready[consumer] = None
        if self._has_positions:
            self._open(consumer)
        if subscription.info.exclusive or self._policy.all_consumers_exclusive:
            if self._exclusives is None:
                self._exclusives = []
            self._exclusives.insert(_index_of(consumer, self._exclusives), consumer)
        self._begin_turns()
        if self._leaving is not None and self._leaving.shared:
            self._leaving.yields[queue] = None
        return consumer

    def _next_rank(self) -> int:
        self._ranks += 1
        return self._ranks

    def detach(self, consumer: QueueConsumer) -> bool:
        """Remove a consumer. Return False if it is not attached."""
        self._keep_turn()
        index = self._find(consumer)
        if index >= len(self.all) or self.all[index] is not consumer:
            return False
        del self.all[index]
        exclusives = self._exclusives
        if exclusives is not None:
            index = _index_of(consumer, exclusives)
            if index < len(exclusives) and exclusives[index] is consumer:
                del exclusives[index]
        self._forget(consumer)
        self._begin_turns()
        return True

    def detach_left(self) -> list[QueueConsumer]:
        """Remove and return the consumers that have left."""
        gone = [consumer for consumer in self.all if consumer.subscription.is_detached]
        if gone:
            self._keep_turn()
            self.all[:] = [consumer for consumer in self.all if not consumer.subscription.is_detached]
            if self._exclusives is not None:
                self._exclusives = [one for one in self._exclusives if not one.subscription.is_detached]
            for consumer in gone:
                self._forget(consumer)
            self._begin_turns()
        return gone

    def _forget(self, consumer: QueueConsumer) -> None:
        self._close(consumer)
        self._count(consumer, -1)
        self.ready.pop(consumer, None)
        if self.newest is consumer:
            self.newest = None
        if self._leaving is consumer.subscription:
            self._leaving = None
        if self._exclusive is consumer.subscription:
            self._exclusive = None

    def _count(self, consumer: QueueConsumer, number: int) -> None:
        if consumer.is_selective:
            self.selective += number
        if consumer.is_conditional:
            self.conditional += number
        if consumer.subscription.shared:
            self._shared += number
            self._has_ready = False

    def _keep_turn(self) -> None:
        """Put the next consumer in turn first, before another one comes or leaves.

        Otherwise a queue whose consumers come and go would serve the oldest one again and again. Many consumers take
        turns in ``ready``, and a strict order begins with the oldest consumer.
        """
        start = self._next
        if self._strict or not 0 < start < len(self.all) <= FEW or not self.uniform or self._exclusives is not None:
            return
        self.all[:] = self.all[start:] + self.all[:start]
        for consumer in self.all:
            consumer.rank = self._next_rank()
        self._next = 0

    def _begin_turns(self) -> None:
        """Have the first consumer begin, and the best one among exclusive consumers get the messages."""
        consumers = self.all
        self._next = 0
        self.uniform = not consumers or consumers[0].priority == consumers[-1].priority
        best = self._exclusives[0].subscription if self._exclusives else None
        if best is self._leaving:
            self._leaving = None  # the better consumer left again
        before = self._exclusive
        if best is not before:
            if before is not None and self._leaving is None and before.dispatched_count > 0:
                self._leaving = before
            self._exclusive = best

    def _find(self, consumer: QueueConsumer) -> int:
        """Return the index of an attached consumer; a change before it has moved it since the last search."""
        index = consumer.index
        if index >= len(self.all) or self.all[index] is not consumer:
            index = _index_of(consumer, self.all)
            consumer.index = index
        return index

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
        """Give a scan position to each consumer without one, and to each one that comes later."""
        if self._has_positions:
            return
        self._has_positions = True
        for consumer in self.all:
            if not consumer.positions:
                self._open(consumer)

    def _open(self, consumer: QueueConsumer) -> None:
        consumer.positions = [pending_list.open(True) for pending_list in self._pending_lists]

    def close_positions(self) -> None:
        """Forget all scan positions."""
        self._has_positions = False
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

    def succeed(self, subscription: Subscription) -> None:
        """Let the exclusive consumer take over from ``subscription``, which has no message in flight."""
        if self._leaving is subscription:
            self._leaving = None

    def may_share_scan(self) -> bool:
        """Return True if no rule of the queue prefers one able consumer to another."""
        return self._exclusive is None and self.conditional == 0 and not self.in_order and len(self._pending_lists) == 1

    def turns_until(self, consumer: QueueConsumer) -> int:
        """Return the number of consumers in turn before ``consumer``."""
        turns = self._find(consumer) - self._next
        return turns if turns >= 0 else turns + len(self.all)

    def next_taker(self) -> Subscription | None:
        """Return the next consumer in turn with room, of the best priority; None if no consumer has room."""
        if self._exclusive is not None:
            return self._exclusive_taker()
        consumers = self.all
        count: i64 = len(consumers)
        if not self.uniform:
            return self._next_by_priority()
        if count > FEW and not self._strict and self._shared == 0:
            return self._next_ready()
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

    def _next_ready(self) -> Subscription | None:
        """Return the next consumer in turn with room among many, without a look at those known to be full.

        Now and then all are looked at again, at the cost of one look for each search. So no consumer waits for good.
        """
        if not self._has_ready:
            self._look_at_all()
        ready = self.ready
        while ready:
            consumer = next(iter(ready))
            if consumer.subscription.can_take():
                ready.move_to_end(consumer)
                return consumer.subscription
            consumer.is_ready = False
            del ready[consumer]
        self._misses += 1
        if self._misses > len(self.all):
            self._has_ready = False
        return None

    def _look_at_all(self) -> None:
        self._has_ready = True
        self._misses = 0
        self.ready.clear()
        for consumer in self.all:
            consumer.is_ready = True
            self.ready[consumer] = None

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
        consumer = self.all.pop(index)
        consumer.rank = self._next_rank()
        self.all.insert(_index_of(consumer, self.all), consumer)

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
            behind = self._find(consumer) + 1
            self._next = behind if behind < len(self.all) else 0
        elif self._exclusive is None:
            self._go_behind_equals(self._find(consumer))

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
        if self._has_ready:
            ready = self.ready
            while ready:
                consumer = next(iter(ready))
                if consumer.subscription.can_take():
                    return True
                consumer.is_ready = False
                del ready[consumer]
            return False
        return any(consumer.subscription.can_take() for consumer in self.all)


def _index_of(consumer: QueueConsumer, consumers: list[QueueConsumer]) -> int:
    """Return the index at which a consumer stands, or belongs, in a list in order."""
    low, high = 0, len(consumers)
    priority, rank = consumer.priority, consumer.rank
    while low < high:
        middle = (low + high) // 2
        other = consumers[middle]
        if other.priority > priority or (other.priority == priority and other.rank < rank):
            low = middle + 1
        else:
            high = middle
    return low


def _least_groups(consumer: QueueConsumer) -> int:
    return len(consumer.groups)


def _best_with_least_groups(consumer: QueueConsumer) -> tuple[int, int]:
    return -consumer.subscription.info.priority, len(consumer.groups)
