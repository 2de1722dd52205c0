"""Under which further conditions a bridge gets a message: back to where it message_added from, and how many in a time.

A message does not go to a broker that it has passed. When its consumers have moved there meanwhile it would be stuck;
so a policy may let it go back once nobody consumes here (ActiveMQ's ``conditionalNetworkBridgeFilterFactory``).
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.arrival_times import Arrivals
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageCondition, MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.bridge_policy import BridgePolicy
from spanwire.broker.queue.queue_consumers import QueueConsumers
from spanwire.model.message import Message
from spanwire.model.routing import MAX_PATH, NetworkFilter

FAR_OFF: Final = float("inf")


class BridgeCondition(MessageCondition):
    """One bridge's consumer at one or more queues with such a policy. What the filter of the bridge itself says is
    asked here, too.
    """

    def __init__(self, network_filter: NetworkFilter, context: BrokerContext, subscription: Subscription) -> None:
        self._filter: Final[NetworkFilter] = network_filter
        self._context: Final[BrokerContext] = context
        self._subscription: Final[Subscription] = subscription
        self._policies: Final[dict[str, BridgePolicy]] = {}
        self._homes: Final[dict[str, BrokerDestination]] = {}
        self._consumers: Final[dict[str, QueueConsumers]] = {}
        self._arrivals: Final[dict[str, Arrivals]] = {}
        self._alarms: Final[dict[str, float]] = {}  # when each queue is woken
        self._passed_by: Final[set[str]] = set()  # the queues with messages that it may have later
        self._window_end = 0.0
        self._in_window = 0
        self._is_closed = False  # it had its share, and takes nothing until the time is over

    def add(
        self, queue: BrokerDestination, consumers: QueueConsumers, policy: BridgePolicy, arrivals: Arrivals | None
    ) -> None:
        """It consumes from ``queue``, too, besides ``consumers``."""
        name = queue.destination.qualified_name
        self._policies[name] = policy
        self._homes[name] = queue
        self._consumers[name] = consumers
        if arrivals is not None:
            self._arrivals[name] = arrivals

    def forget(self, queue: BrokerDestination) -> None:
        """It consumes from ``queue`` no more."""
        name = queue.destination.qualified_name
        self._policies.pop(name, None)
        self._homes.pop(name, None)
        self._consumers.pop(name, None)
        self._arrivals.pop(name, None)
        self._alarms.pop(name, None)
        self._passed_by.discard(name)

    @property
    def queues(self) -> list[str]:
        """What it consumes from, by name."""
        return list(self._homes)

    def lets_through(self, reference: MessageReference) -> bool:
        """Whether the bridge may have this message now. If it may later, its queue is woken then."""
        message = reference.message
        name = message.destination.qualified_name
        policy = self._policies.get(name)
        queue = self._homes.get(name)
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

    def _was_long_here(self, name: str, queue: BrokerDestination, reference: MessageReference) -> bool:
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
        """One message goes. The last of so many closes the subscription, which keeps its place in each pending_list."""
        now = self._context.monotonic
        if now >= self._window_end:
            self._window_end = now + policy.rate_duration_ms / 1000
            self._in_window = 0
        self._in_window += 1
        if self._in_window >= policy.rate_limit and not self._is_closed:
            self._filter.refusals.rate += 1
            self._is_closed = True
            self._subscription.started = False
            for queue in self._homes.values():
                self._wake_at(queue, self._window_end)

    def resume(self, queue: BrokerDestination) -> bool:
        """``queue`` is woken. True when messages were passed by there that may go now."""
        name = queue.destination.qualified_name
        if self._is_closed and self._context.monotonic >= self._window_end:
            self._is_closed = False
            self._subscription.started = not self._subscription.removed
        if name not in self._passed_by or self._alarms.get(name, FAR_OFF) > self._context.monotonic:
            return False
        self._passed_by.discard(name)
        return True

    def _wake_at(self, queue: BrokerDestination, due: float) -> None:
        """One alarm of a queue at a time is enough: what is due later asks again then."""
        name = queue.destination.qualified_name
        alarm = self._alarms.get(name, FAR_OFF)
        if alarm <= self._context.monotonic or due < alarm:
            self._alarms[name] = due
            self._context.wake_at(queue, due)


def add_condition(
    queue: BrokerDestination,
    subscription: Subscription,
    consumers: QueueConsumers,
    arrivals: Arrivals | None,
    context: BrokerContext,
) -> None:
    """``subscription`` comes to ``queue``: if it is a bridge's, and the policy of ``queue`` has something to say of
    bridges, that holds for it from now on.
    """
    policy = queue.policy.queue.bridges
    network_filter = subscription.network_filter
    if policy is None or network_filter is None:
        return
    condition = subscription.bridge_condition
    if not isinstance(condition, BridgeCondition):
        condition = BridgeCondition(network_filter, context, subscription)
        subscription.bridge_condition = condition
    condition.add(queue, consumers, policy, arrivals)


def forget_condition(queue: BrokerDestination, subscription: Subscription) -> None:
    """``subscription`` leaves ``queue``."""
    condition = subscription.bridge_condition
    if isinstance(condition, BridgeCondition):
        condition.forget(queue)


def let_go_on(queue: BrokerDestination, consumers: QueueConsumers) -> bool:
    """Time has passed: bridges that had their share take more. True when one passed by what it may have now."""
    found = False
    for consumer in consumers.all:
        condition = consumer.subscription.bridge_condition
        if isinstance(condition, BridgeCondition) and condition.resume(queue):
            found = True
    return found


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
