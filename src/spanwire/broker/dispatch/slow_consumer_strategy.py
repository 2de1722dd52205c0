"""Aborts slow consumers after too long or too frequent slow phases (ActiveMQ's slowConsumerStrategy).

Each policy with a strategy has one watch. A consumer joins the watch when attached to a destination under the policy.
Acknowledgements and dispatches do not notify the watch: several times in each period the watch compares the consumer's
progress. Only a topic reports its slow consumers, because a topic keeps pending messages per consumer.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import Alarm, Job
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_entry import PolicyEntry, SlowConsumerPolicy
from spanwire.model.destination import SUBSCRIPTION
from spanwire.model.errors import JmsError

LOOKS_PER_PERIOD: Final = 4  # looks at a consumer's progress in each check period
MIN_LOOK_SECONDS: Final = 0.01  # seconds between two looks, however short the period
LOOKS_PER_TURN: Final = 500  # consumers looked at in one turn
MAX_WINDOW: Final = 1 << 17  # messages; more than a window and its extension can hold
GRACE_SECONDS: Final = 1.0  # seconds for a client to close its consumer, as in ActiveMQ

logger = logging.getLogger(__name__)


class WatchedConsumer:
    """A consumer, the progress at the last check, and the duration and number of slow phases.

    ``slow_count`` 0 means no suspicion; ``progress`` changes with each acknowledgement.
    """

    __slots__ = ("is_slow", "marks", "progress", "queue", "since", "slow_count", "subscription")

    def __init__(self, subscription: Subscription, queue: BrokerDestination | None, now: float) -> None:
        self.subscription: Final[Subscription] = subscription
        self.queue: Final[BrokerDestination | None] = queue  # of the durable subscription; None for other consumers
        self.is_slow = False
        self.slow_count = 0
        self.marks = 0
        self.progress = progress_of(subscription)
        self.since = now

    def suspect(self) -> None:
        """Count another slow phase."""
        self.is_slow = True
        self.slow_count += 1

    def clear(self) -> None:
        """End the slow phase and reset the count."""
        self.is_slow = False
        self.slow_count = 0
        self.marks = 0

    def spare(self, now: float) -> None:
        """Let the time of a slow phase begin anew, and forget earlier ones."""
        self.marks = 0
        self.slow_count = 1 if self.is_slow else 0
        self.since = now


class ClosingConsumer:
    """A consumer with a close request to the client, and the deadline in monotonic seconds."""

    __slots__ = ("deadline", "subscription")

    def __init__(self, subscription: Subscription, deadline: float) -> None:
        self.subscription: Final[Subscription] = subscription
        self.deadline: Final[float] = deadline


class SlowConsumerWatch(Job, Alarm):
    """Watches the consumers under one policy. An operator may replace ``strategy`` by one of its kind."""

    def __init__(self, policy: PolicyEntry, strategy: SlowConsumerPolicy, context: BrokerContext) -> None:
        self.policy: Final[PolicyEntry] = policy
        self.strategy: SlowConsumerPolicy = strategy
        self._context: Final[BrokerContext] = context
        self._period: Final[float] = strategy.check_period_ms / 1000
        self._by_acks: Final[bool] = strategy.max_since_ack_ms is not None
        self._watched: Final[dict[Subscription, WatchedConsumer]] = {}
        self._left: list[WatchedConsumer] = []
        self._closing: list[ClosingConsumer] = []
        self._check_due = 0.0
        self._checks = False  # this pass is a check, not only a look
        self._armed = False

    def join(self, subscription: Subscription, destination: BrokerDestination) -> None:
        """Watch a consumer of ``destination``."""
        if subscription.info.browser or subscription in self._watched:
            return
        now = self._context.monotonic
        queue = destination if destination.name.kind == SUBSCRIPTION else None
        self._watched[subscription] = WatchedConsumer(subscription, queue, now)
        if not self._armed:
            self._check_due = now + self._period
            self._arm()

    def slow(self) -> list[WatchedConsumer]:
        """Return the consumers that are slow, or have been since they last kept up, without spared bridges."""
        return [one for one in self._watched.values() if one.slow_count > 0 and not self._spares(one)]

    def becomes_slow(self, subscription: Subscription) -> None:
        """Record that more messages than the prefetch wait for a consumer of a topic."""
        watched = self._watched.get(subscription)
        if watched is not None and not watched.is_slow and not self._by_acks:
            watched.suspect()

    def keeps_up(self, subscription: Subscription) -> None:
        """Record that a consumer of a topic gets a message at once and has no pending messages."""
        watched = self._watched.get(subscription)
        if watched is not None:
            watched.is_slow = False

    def wake(self) -> None:
        """Look at all consumers, a slice at a time."""
        self._remove_unresponsive()
        if not self._left:
            self._checks = self._context.monotonic >= self._check_due
            self._left = list(self._watched.values())
        self._context.schedule(self)

    def work(self) -> bool:
        """Look at some consumers.

        Returns:
            True if consumers are left.
        """
        doomed: list[Subscription] = []
        for _ in range(min(LOOKS_PER_TURN, len(self._left))):
            watched = self._left.pop()
            if watched.subscription.removed:
                self._watched.pop(watched.subscription, None)
                continue
            self._look(watched)
            if self._checks and self._is_doomed(watched):
                self._watched.pop(watched.subscription, None)
                doomed.append(watched.subscription)
        self._abort(doomed)
        if self._left:
            return True
        if self._checks:
            self._checks = False
            self._check_due = self._context.monotonic + self._period
        self._armed = False
        if self._watched or self._closing:
            self._arm()
        return False

    def _arm(self) -> None:
        self._armed = True
        due = self._context.monotonic + max(self._period / LOOKS_PER_PERIOD, MIN_LOOK_SECONDS)
        due = min(due, max(self._check_due, self._context.monotonic))
        for closing in self._closing:
            due = min(due, closing.deadline)
        self._context.wake_at(self, due)

    def _look(self, watched: WatchedConsumer) -> None:
        subscription = watched.subscription
        progress = progress_of(subscription)
        if progress != watched.progress:
            watched.progress = progress
            watched.since = self._context.monotonic
        elif self.strategy.ignore_idle_consumers and subscription.dispatched_count == 0:
            watched.since = self._context.monotonic  # a consumer without messages owes no acknowledgement
        queue = watched.queue
        if queue is not None and not self._by_acks and not subscription.pulls:
            room = subscription.prefetch_size + subscription.in_flight.extension - subscription.dispatched_count
            if room > 0:
                watched.is_slow = False
            elif not watched.is_slow and queue.waiting() > 0:
                watched.suspect()

    def _spares(self, watched: WatchedConsumer) -> bool:
        """Return True for a bridge while the strategy ignores bridges, which an operator may change."""
        return self.strategy.ignore_network_consumers and watched.subscription.info.network_subscription

    def _is_doomed(self, watched: WatchedConsumer) -> bool:
        """Return True if a check ends the consumer."""
        if self._spares(watched):
            watched.spare(self._context.monotonic)
            return False
        if self._by_acks:
            self._check_acks(watched)
        elif watched.slow_count > 0:
            if not watched.is_slow:
                logger.info("consumer %s is no longer slow", watched.subscription.info.consumer_id)
                watched.clear()
            else:
                watched.marks += 1
        if watched.slow_count == 0:
            return False
        strategy = self.strategy
        too_long = strategy.max_slow_ms > 0 and watched.marks * strategy.check_period_ms >= strategy.max_slow_ms
        return too_long or 0 < strategy.max_slow_count <= watched.slow_count

    def _check_acks(self, watched: WatchedConsumer) -> None:
        limit_ms = self.strategy.max_since_ack_ms
        if limit_ms is None or limit_ms < 0:
            return
        idle = self.strategy.ignore_idle_consumers and watched.subscription.dispatched_count == 0
        silent_ms = (self._context.monotonic - watched.since) * 1000
        if idle or silent_ms <= limit_ms:
            if watched.slow_count > 0:
                logger.info("consumer %s is no longer slow", watched.subscription.info.consumer_id)
            watched.clear()
            return
        watched.marks += 1
        if watched.slow_count == 0 or self.strategy.max_slow_count > 0:
            watched.suspect()

    def _abort(self, doomed: list[Subscription]) -> None:
        strategy = self.strategy
        for subscription in doomed:
            info = subscription.info
            reason = JmsError(
                f"consumer {info.consumer_id} of {info.destination} was slow too often (>{strategy.max_slow_count}) or "
                f"too long (>{strategy.max_slow_ms}): acknowledge faster, or change the slowConsumerStrategy of "
                f"{self.policy.destination}"
            )
            if strategy.abort_connection:
                logger.warning("connection %s is ended: %s", info.consumer_id.connection_id, reason)
                subscription.output.connection.close_with(reason)
            else:
                logger.warning("slow consumer is ended: %s", reason)
                subscription.consumer.close(reason)
                self._closing.append(ClosingConsumer(subscription, self._context.monotonic + GRACE_SECONDS))
            subscription.output.mark_dirty()

    def _remove_unresponsive(self) -> None:
        """Remove the consumers still open at the deadline of the close request."""
        now = self._context.monotonic
        remover = self._context.remover
        due = [closing for closing in self._closing if closing.deadline <= now]
        if not due:
            return
        self._closing = [closing for closing in self._closing if closing.deadline > now]
        for closing in due:
            if not closing.subscription.removed and remover is not None:
                remover.remove_consumer(closing.subscription)


def progress_of(subscription: Subscription) -> int:
    """Return a number that changes with each acknowledgement of the consumer, also in a transaction."""
    settled = subscription.dispatched_total - subscription.dispatched_count
    return settled * MAX_WINDOW + subscription.in_flight.extension
