"""A topic with a policy for retained messages or slow consumers.

Slow consumers have a limit of pending messages, or are ended.

A topic without such a policy is a plain `Topic` without costs for these features.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.slow_consumer_strategy import SlowConsumerWatch
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.fan_out import STEPS_OF_REQUEST
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import CLIENT_ID_FILTER, DispatchPolicy, TopicPolicy
from spanwire.broker.topic.client_id_filter import ClientIdFilter
from spanwire.broker.topic.dispatch_policies import recipients
from spanwire.broker.topic.pending_eviction import LOOKS_PER_STEP, MAX_LOOKS, NO_LIMIT, PendingEviction, lose
from spanwire.broker.topic.subscription_recovery import KeptMessages, RecoveryMemory
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import Destination
from spanwire.model.message import Message

RECOVERY_STEPS: Final = 500  # retained messages for a new consumer in one slice, fewer with a selector
LOOKS_PER_RECOVERY_STEP: Final = MAX_LOOKS // RECOVERY_STEPS
ROOM_ROUNDS: Final = 500  # messages discarded at most to make room for one message

logger = logging.getLogger(__name__)


class PolicyTopic(Topic):
    """`Topic` with a `TopicPolicy`.

    Discarded messages become dead letters if the policy asks for dead letters.
    """

    def __init__(
        self,
        destination: Destination,
        policy: PolicyEntry,
        usage: MemoryUsage,
        context: BrokerContext,
        memory: RecoveryMemory,
        slow: SlowConsumerWatch | None,
    ) -> None:
        super().__init__(destination, policy, usage, context)
        tuning: TopicPolicy = policy.topic
        self._is_limited: Final[bool] = tuning.pending_limit is not None
        self.evicts = self._is_limited
        self._eviction: Final[PendingEviction] = PendingEviction(self, tuning, self, context)
        self._always_retroactive: Final[bool] = tuning.always_retroactive
        self._kept: Final[KeptMessages | None] = (
            None if tuning.recovery is None else KeptMessages(destination, tuning.recovery, memory, context)
        )
        self._watch: Final[SlowConsumerWatch | None] = slow
        self._dispatch: Final[DispatchPolicy | None] = tuning.dispatch
        self._recipients: list[Subscription] | None = None  # the next message chooses them
        self._recoveries: Final[dict[Subscription, KeptRecovery]] = {}
        by_client_id = tuning.dispatch is not None and tuning.dispatch.kind == CLIENT_ID_FILTER
        self._client_filter: Final[ClientIdFilter | None] = ClientIdFilter(context.formats) if by_client_id else None
        self.discarded = 0

    def accept(self, message: Message, sequence: int = 0) -> None:
        """Retain ``message`` for later consumers.

        Every subscription that accepts the message gets a copy.
        """
        self.enqueued += 1
        if self._context.joins:
            self._context.complete_joins(self)
        client_filter = self._client_filter
        if client_filter is not None:
            self._recipients = client_filter.recipients(self._dispatch, self.name, message, self.subscriptions)
        if self.observer is None:
            self._distribute(message)
        else:
            self.observer.before_accept(message, sequence)
            self.observer.after_accept(message, self._distribute(message))
        if client_filter is not None:
            self.count_forms(message)

    def is_unheard(self) -> bool:
        """Return True if nobody would get or notice a message, now or later."""
        return super().is_unheard() and self._kept is None and self._client_filter is None

    def _distribute(self, message: Message) -> bool:
        """Retain and dispatch ``message``. Return True if a subscription got the message."""
        retained = self._kept
        if retained is not None:
            message = retained.add(message)
        chosen = self._recipients
        if chosen is None:
            chosen = self.subscriptions if self._dispatch is None else recipients(self._dispatch, self.subscriptions)
            self._recipients = chosen
        if not chosen:
            if retained is None and not self.subscriptions and not self.fans_out:
                self._note_unheard(message)
            return False
        self._context.steps += self._steps
        if message.expiration_ms > 0:
            self._eviction.perishable = True
        reference = MessageReference(self, message, 0, self._context.next_order(), 0)
        self.hold(message)
        wanted = False
        for subscription in chosen:
            if not subscription.accepts(reference):
                continue
            message.holders += 1
            wanted = True
            self._give(subscription, reference)
        self.release(message)
        if self._is_limited:
            self._context.steps += self._eviction.take_looks() // LOOKS_PER_STEP
        return wanted

    def _give(self, subscription: Subscription, reference: MessageReference) -> None:
        if self._takes_now(subscription):
            self.dispatched += 1
            reference.dispatched_at = self._context.monotonic
            subscription.dispatch(reference)
            if self._watch is not None:
                self._watch.keeps_up(subscription)
        else:
            self._let_wait(subscription, reference)

    def _takes_now(self, subscription: Subscription) -> bool:
        if self._recoveries and subscription in self._recoveries:
            return False
        return subscription.can_take() and not subscription.pending

    def attach(self, subscription: Subscription) -> None:
        """Add a subscription. A retroactive subscription first gets retained messages, the first slice now."""
        super().attach(subscription)
        self._choose_recipients()
        if self._watch is not None:
            self._watch.join(subscription, self)
        if self._kept is None or not (self._always_retroactive or subscription.info.retroactive):
            return
        recovery = KeptRecovery(self, subscription, self._kept.messages(), self._context)
        if recovery.start():
            self._recoveries[subscription] = recovery
            self._context.schedule(recovery)
            subscription.joins += 1

    def is_searching(self) -> bool:
        """Return True while a new consumer has not got all retained messages."""
        return len(self._recoveries) > 0

    def give_kept(self, subscription: Subscription, reference: MessageReference, taken: int, later_bytes: int) -> int:
        """Add a retained message to the pending messages of a new consumer.

        The limits apply as if all retained messages had come together before the start of the consumer: a limit of
        pending messages allows the prefetch in addition.

        Args:
            taken: messages that the consumer has taken since it was attached.
            later_bytes: bytes of later messages, which take no room from retained messages.

        Returns:
            The steps beside the evaluation of the selector.
        """
        message = reference.message
        if not (subscription.accepts(reference) and self.usage.takes(message.size - later_bytes)):
            return 0
        self.hold(message)
        if subscription.discarding:
            self.release(message)
            return 0
        if self._watch is not None and 1 < subscription.prefetch_size < len(subscription.pending):
            self._watch.becomes_slow(subscription)
        subscription.pending.append(reference)
        most = self._eviction.most(subscription)
        if most > NO_LIMIT:
            out = 0 if subscription.pulls else max(0, subscription.prefetch_size - taken)
            self._eviction.cut(subscription, most, out, 1)
        return self._eviction.take_looks() // LOOKS_PER_RECOVERY_STEP

    def dispatch_recovered(self, subscription: Subscription, later: deque[MessageReference], at_most: int) -> int:
        """Dispatch at most ``at_most`` messages sent ``later`` than all retained messages.

        Returns the number of messages.
        """
        recovery = self._recoveries.pop(subscription, None)
        count = min(at_most, len(later))
        for _ in range(count):
            reference = later.popleft()
            if reference.message.is_expired(self._context.wall_ms):
                self.drop_expired(reference.message)
            else:
                self._give(subscription, reference)
        if later and recovery is not None:
            self._recoveries[subscription] = recovery
        self._context.steps += self._eviction.take_looks() // LOOKS_PER_STEP
        return count

    def recovery_over(self, subscription: Subscription) -> None:
        """Forget the recovery of a consumer, which is removed."""
        self._recoveries.pop(subscription, None)

    def waiting(self) -> int:
        """Return the number of pending messages of slow subscriptions, including messages behind a recovery."""
        return super().waiting() + sum([recovery.later_count for recovery in self._recoveries.values()])

    def detach(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        if self.observer is not None:
            self.observer.consumer_removed(subscription)
        super().detach(subscription)
        self._choose_recipients()

    def detach_left(self) -> list[Subscription]:
        """Detach and return the subscriptions whose consumers were removed."""
        gone = super().detach_left()
        self._choose_recipients()
        if self.observer is not None:
            for subscription in gone:
                self.observer.consumer_removed(subscription)
        return gone

    def detach_all(self) -> list[Subscription]:
        """Detach and return all subscriptions."""
        gone = super().detach_all()
        self._choose_recipients()
        return gone

    def _choose_recipients(self) -> None:
        """Let the next message choose its recipients; consumers that come or leave together take one choice."""
        if self._dispatch is not None:
            self._recipients = None

    def kept_messages(self) -> list[Message]:
        """Return the retained messages without copying, oldest first, expired messages included."""
        return [] if self._kept is None else self._kept.messages()

    def drop(self) -> None:
        """Discard all retained messages, since the topic is removed."""
        if self._kept is not None:
            self._kept.clear()

    def make_room(self, size: int) -> bool:
        """Discard pending messages of the slowest consumers, oldest first.

        The end is reached when the broker's memory takes ``size`` bytes.

        Only for a policy that limits pending messages and uses no producer flow control.
        """
        if not self._is_limited or self.policy.producer_flow_control:
            return False
        whole = self.usage.parent
        if whole is None:
            return False
        if whole.takes(size):
            return True
        heap = [(-len(one.pending), index) for index, one in enumerate(self.subscriptions) if one.pending]
        heapq.heapify(heap)  # most pending messages first, then the oldest subscription
        subscriptions = list(self.subscriptions)
        for _ in range(ROOM_ROUNDS):
            if not heap:
                return False
            _, index = heap[0]
            pending = subscriptions[index].pending
            if pending:
                self.give_up(subscriptions[index], pending.popleft())
            if pending:
                heapq.heapreplace(heap, (-len(pending), index))
            else:
                heapq.heappop(heap)
            if whole.takes(size):
                return True
        return False

    def _let_wait(self, subscription: Subscription, reference: MessageReference) -> None:
        if subscription.discarding:
            self.release(reference.message)
            return
        if self._recoveries:
            recovery = self._recoveries.get(subscription)
            if recovery is not None:
                recovery.add_later(reference)
                return
        pending = subscription.pending
        if self._watch is not None and 1 < subscription.prefetch_size < len(pending):
            self._watch.becomes_slow(subscription)
        most = self._eviction.most(subscription)
        if most == 0 and subscription.started:
            subscription.discarded += 1
            self.release(reference.message)  # without an advisory, as in ActiveMQ: the limit allows no pending message
            return
        if most > NO_LIMIT and self._eviction.drops(subscription, most):
            self.discarded += 1
            subscription.discarded += 1
            self.release(reference.message)
            return
        pending.append(reference)
        if most > NO_LIMIT:
            self._eviction.arrived(subscription, reference, most)

    def give_up(self, subscription: Subscription, reference: MessageReference) -> None:
        """Discard a message. Advisories about the loss do not reach ``subscription`` meanwhile.

        A discarded advisory causes no further advisory: there would be no end.
        """
        if self.discarded == 0:
            logger.warning(
                "%s: more messages wait for a slow consumer than its policy allows; some are discarded, as it says",
                self.name,
            )
        self.discarded += 1
        subscription.discarded += 1
        subscription.discarding = True
        if self.observer is not None and not reference.destination.name.is_advisory:
            self.observer.message_discarded(subscription, reference.message)
        cause = f"java.lang.Throwable: TopicSubDiscard. ID:{subscription.info.consumer_id}"
        try:
            lose(reference, cause, self._context)
        finally:
            subscription.discarding = False


class KeptRecovery(Job):
    """Delivers retained messages to a new consumer in slices; later messages follow behind.

    The job keeps the messages retained at the consumer's arrival, even if the topic discards some meanwhile.
    """

    def __init__(
        self, topic: PolicyTopic, subscription: Subscription, kept: list[Message], context: BrokerContext
    ) -> None:
        self._topic: Final[PolicyTopic] = topic
        self._subscription: Final[Subscription] = subscription
        self._kept: Final[list[Message]] = kept
        self._context: Final[BrokerContext] = context
        self._order: Final[int] = context.reserve_orders(len(kept))
        self._dispatched_before: Final[int] = subscription.dispatched_total
        self._next = 0
        self._later: Final[deque[MessageReference]] = deque()
        self._later_bytes = 0

    @property
    def later_count(self) -> int:
        """The number of messages sent during the recovery."""
        return len(self._later)

    def add_later(self, reference: MessageReference) -> None:
        """Add a message sent during the recovery, which is held already."""
        self._later.append(reference)
        self._later_bytes += reference.message.size

    def start(self) -> bool:
        """Do the first slice now, unless the same request did as much before.

        Return True if there is more to do.
        """
        context = self._context
        more = True
        if context.first_slices < RECOVERY_STEPS or not self._kept:
            more = self._go_on()
            context.first_slices += self._next * self._subscription.weight
        return more

    def work(self) -> bool:
        """Do one slice and return True while there is more to do."""
        more = self._go_on()
        if not more:
            self._subscription.joins -= 1
        return more

    def _go_on(self) -> bool:
        subscription = self._subscription
        if subscription.removed:
            self._topic.recovery_over(subscription)
            for _ in range(min(RECOVERY_STEPS, len(self._later))):
                self._topic.release(self._later.popleft().message)
            return len(self._later) > 0
        steps = self._give_kept()
        if self._next == len(self._kept):
            if subscription.started:
                subscription.drain(self._context.wall_ms)  # else a limit of what waits counts what the window takes
            steps += self._topic.dispatch_recovered(subscription, self._later, max(0, RECOVERY_STEPS - steps))
        self._context.steps += steps // STEPS_OF_REQUEST
        if subscription.started:
            subscription.drain(self._context.wall_ms)
        return self._next < len(self._kept) or len(self._later) > 0

    def _give_kept(self) -> int:
        subscription = self._subscription
        steps = 0
        while self._next < len(self._kept) and steps < RECOVERY_STEPS:
            message = self._kept[self._next]
            order = self._order + self._next
            self._next += 1
            steps += subscription.weight
            if not message.is_expired(self._context.wall_ms):
                taken = subscription.dispatched_total - self._dispatched_before
                reference = MessageReference(self._topic, message.twin(), 0, order, 0)
                steps += self._topic.give_kept(subscription, reference, taken, self._later_bytes)
        return steps
