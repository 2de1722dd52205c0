"""Conditions under which a network bridge gets a message.

The conditions are replay to an earlier broker, and a rate limit.

A bridge refuses a message to a broker in the message's path. A message whose consumers moved back there would be stuck.
A policy may therefore allow the return once no consumer is left here (ActiveMQ's
``conditionalNetworkBridgeFilterFactory``).
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import QueueBase
from spanwire.broker.dispatch.history.arrival_times import Arrivals
from spanwire.broker.dispatch.message_reference import MessageCondition, MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_entry import BridgePolicy
from spanwire.broker.queue.queue_consumers import QueueConsumers
from spanwire.model.message import Message
from spanwire.model.routing import MAX_PATH, NetworkFilter

FAR_OFF: Final = float("inf")


class BridgeCondition(MessageCondition):
    """The condition of one bridge's subscription, at all queues with such a policy.

    Includes the bridge's filter.
    """

    def __init__(self, network_filter: NetworkFilter, context: BrokerContext, subscription: Subscription) -> None:
        self._filter: Final[NetworkFilter] = network_filter
        self._context: Final[BrokerContext] = context
        self._subscription: Final[Subscription] = subscription
        self._policies: Final[dict[str, BridgePolicy]] = {}
        self._queues: Final[dict[str, QueueBase]] = {}
        self._consumers: Final[dict[str, QueueConsumers]] = {}
        self._arrivals: Final[dict[str, Arrivals]] = {}
        self._alarms: Final[dict[str, float]] = {}  # by queue: monotonic time of the last alarm set
        self._passed_by: Final[set[str]] = set()  # queues with refused messages that the bridge may get later
        self._window_end = 0.0
        self._in_window = 0
        self._is_closed = False  # the rate limit is reached until the window ends

    def add(self, queue: QueueBase, consumers: QueueConsumers, policy: BridgePolicy, arrivals: Arrivals | None) -> None:
        """Note that the subscription consumes from ``queue``, beside the other ``consumers``."""
        name = queue.name.qualified_name
        self._policies[name] = policy
        self._queues[name] = queue
        self._consumers[name] = consumers
        if arrivals is not None:
            self._arrivals[name] = arrivals

    def forget(self, queue: QueueBase) -> None:
        """Note that the subscription no longer consumes from ``queue``."""
        name = queue.name.qualified_name
        self._policies.pop(name, None)
        self._queues.pop(name, None)
        self._consumers.pop(name, None)
        self._arrivals.pop(name, None)
        self._alarms.pop(name, None)
        self._passed_by.discard(name)

    @property
    def queues(self) -> list[str]:
        """Names of the queues from which the subscription consumes."""
        return list(self._queues)

    def lets_through(self, reference: MessageReference) -> bool:
        """Return True if the bridge may have the message now.

        If a wait would help, an alarm wakes the queue later.
        """
        message = reference.message
        name = message.destination.qualified_name
        policy = self._policies.get(name)
        queue = self._queues.get(name)
        path = message.broker_path
        if policy is None or queue is None:
            return self._filter.passes(path)
        if self._filter.target_broker_id in path:
            if not policy.replays or len(path) >= MAX_PATH or _is_wanted_here(self._consumers[name], message, policy):
                self._filter.refusals.path += 1
                return False
            if not self._was_long_here(name, queue, reference):
                self._filter.refusals.replay += 1
                return False
        elif not self._filter.passes(path):
            return False
        if policy.rate_limit > 0:
            self._count_in_window(policy)
        return True

    def _was_long_here(self, name: str, queue: QueueBase, reference: MessageReference) -> bool:
        arrivals = self._arrivals.get(name)
        if arrivals is None:
            return True
        due = arrivals.due(reference)
        if due > self._context.monotonic:
            self._passed_by.add(name)
            self._wake_at(queue, due)
            return False
        return True

    def _count_in_window(self, policy: BridgePolicy) -> None:
        """Count one message against the rate limit. The last one stops the subscription until the window ends."""
        now = self._context.monotonic
        if now >= self._window_end:
            self._window_end = now + policy.rate_duration_ms / 1000
            self._in_window = 0
        self._in_window += 1
        if self._in_window >= policy.rate_limit and not self._is_closed:
            self._filter.refusals.rate += 1
            self._is_closed = True
            self._subscription.started = False
            for queue in self._queues.values():
                self._wake_at(queue, self._window_end)

    def resume(self, queue: QueueBase) -> bool:
        """Act on an alarm of ``queue``. Return True if refused messages may be forwarded now."""
        name = queue.name.qualified_name
        if self._is_closed and self._context.monotonic >= self._window_end:
            self._is_closed = False
            self._subscription.started = not self._subscription.removed
        if name not in self._passed_by or self._alarms.get(name, FAR_OFF) > self._context.monotonic:
            return False
        self._passed_by.discard(name)
        return True

    def _wake_at(self, queue: QueueBase, due: float) -> None:
        """Set an alarm for ``queue``, unless an earlier alarm is set. Each alarm leads to the next."""
        name = queue.name.qualified_name
        alarm = self._alarms.get(name, FAR_OFF)
        if alarm <= self._context.monotonic or due < alarm:
            self._alarms[name] = due
            self._context.wake_at(queue, due)


def add_condition(
    queue: QueueBase,
    subscription: Subscription,
    consumers: QueueConsumers,
    arrivals: Arrivals | None,
    context: BrokerContext,
) -> None:
    """Give a bridge's ``subscription`` a condition if the policy of ``queue`` sets one."""
    policy = queue.policy.queue.bridges
    network_filter = subscription.network_filter
    if policy is None or network_filter is None:
        return
    condition = subscription.bridge_condition
    if not isinstance(condition, BridgeCondition):
        condition = BridgeCondition(network_filter, context, subscription)
        subscription.bridge_condition = condition
    condition.add(queue, consumers, policy, arrivals)


def forget_condition(queue: QueueBase, subscription: Subscription) -> None:
    """Remove ``queue`` from the condition of ``subscription``."""
    condition = subscription.bridge_condition
    if isinstance(condition, BridgeCondition):
        condition.forget(queue)


def let_go_on(queue: QueueBase, consumers: QueueConsumers) -> bool:
    """Let bridges take messages after their windows.

    Return True if a bridge may have messages refused before.
    """
    has_messages = False
    for consumer in consumers.all:
        condition = consumer.subscription.bridge_condition
        if isinstance(condition, BridgeCondition):
            has_messages = condition.resume(queue) or has_messages
            consumer.note_room()
    return has_messages


def _is_wanted_here(consumers: QueueConsumers, message: Message, policy: BridgePolicy) -> bool:
    for consumer in consumers.all:
        subscription = consumer.subscription
        info = subscription.info
        if info.network_subscription or info.browser:
            continue
        selector = subscription.selector
        if not policy.selector_aware or selector is None or subscription.values.matches(selector, message, 0):
            return True
    return False
