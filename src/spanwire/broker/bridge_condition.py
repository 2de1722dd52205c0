"""Under which further conditions a bridge gets a message: back to where it came from, and how many in a time.

A message does not go to a broker that it has passed. When its consumers have moved there meanwhile it would be stuck;
so a policy may let it go back once nobody consumes here (ActiveMQ's ``conditionalNetworkBridgeFilterFactory``).
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.bridge_policy import BridgePolicy, MessageCondition
from spanwire.broker.context import BrokerContext
from spanwire.broker.queue_consumers import QueueConsumers
from spanwire.broker.reference import BrokerDestination
from spanwire.model.message import Message
from spanwire.model.routing import MAX_PATH, NetworkFilter

MAX_DELAYED: Final = 10_000  # messages whose delay one bridge counts at a time; the others' begins later
FAR_OFF: Final = float("inf")


class BridgeCondition(MessageCondition):
    """One bridge's consumer at one or more queues with such a policy. What the filter of the bridge itself says is
    asked here, too.
    """

    def __init__(self, network_filter: NetworkFilter, context: BrokerContext) -> None:
        self._filter: Final[NetworkFilter] = network_filter
        self._context: Final[BrokerContext] = context
        self._policies: Final[dict[str, BridgePolicy]] = {}
        self._homes: Final[dict[str, BrokerDestination]] = {}
        self._consumers: Final[dict[str, QueueConsumers]] = {}
        self._due: Final[dict[str, float]] = {}  # when a message may go back, in the order of the first looks at them
        self._alarms: Final[dict[str, float]] = {}  # when each queue is woken
        self._window_end = 0.0
        self._in_window = 0

    def add(self, home: BrokerDestination, consumers: QueueConsumers, policy: BridgePolicy) -> None:
        """It consumes from ``home``, too, besides ``consumers``."""
        name = home.destination.qualified_name
        self._policies[name] = policy
        self._homes[name] = home
        self._consumers[name] = consumers

    def forget(self, home: BrokerDestination) -> None:
        """It consumes from ``home`` no more."""
        name = home.destination.qualified_name
        self._policies.pop(name, None)
        self._homes.pop(name, None)
        self._consumers.pop(name, None)
        self._alarms.pop(name, None)

    @property
    def queues(self) -> list[str]:
        """What it consumes from, by name."""
        return list(self._homes)

    def lets_through(self, message: Message) -> bool:
        """Whether the bridge may have ``message`` now. If it may later, its queue is woken then."""
        name = message.destination.qualified_name
        policy = self._policies.get(name)
        home = self._homes.get(name)
        path = message.broker_path
        if policy is None or home is None:
            return self._filter.passes(path)
        if self._filter.target_broker_id in path:
            if not policy.replays or len(path) >= MAX_PATH or _is_wanted_here(self._consumers[name], message, policy):
                self._filter.refusals.path += 1
                return False
            if not self._was_long_here(home, message, policy):
                self._filter.refusals.replay += 1
                return False
        elif not self._filter.passes(path):
            return False
        if policy.rate_limit > 0 and not self._is_within_rate(home, policy):
            self._filter.refusals.rate += 1
            return False
        if self._due:
            self._due.pop(str(message.message_id), None)
        return True

    def _was_long_here(self, home: BrokerDestination, message: Message, policy: BridgePolicy) -> bool:
        if policy.replay_delay_ms <= 0:
            return True
        key = str(message.message_id)
        now = self._context.monotonic
        due = self._due.get(key)
        if due is None:
            due = now + policy.replay_delay_ms / 1000
            if self._has_place(now):
                self._due[key] = due
        if due > now:
            self._wake_at(home, due)
            return False
        return True

    def _has_place(self, now: float) -> bool:
        """Whether one more can be counted. The oldest gives way when its delay is over: as a rule it went elsewhere."""
        if len(self._due) < MAX_DELAYED:
            return True
        oldest = next(iter(self._due))
        if self._due[oldest] > now:
            return False
        del self._due[oldest]
        return True

    def _is_within_rate(self, home: BrokerDestination, policy: BridgePolicy) -> bool:
        now = self._context.monotonic
        if now >= self._window_end:
            self._window_end = now + policy.rate_duration_ms / 1000
            self._in_window = 0
        if self._in_window >= policy.rate_limit:
            self._wake_at(home, self._window_end)
            return False
        self._in_window += 1
        return True

    def _wake_at(self, home: BrokerDestination, due: float) -> None:
        """One alarm of a queue at a time is enough: what is due later asks again then."""
        name = home.destination.qualified_name
        alarm = self._alarms.get(name, FAR_OFF)
        if alarm <= self._context.monotonic or due < alarm:
            self._alarms[name] = due
            self._context.wake_at(home, due)


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
