"""An operator's changes of a running broker's limits and settings, and resets of counters.

No change outlives the broker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from spanwire.broker.connections.connections import Connections
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.routing.parked_sends import ParkedSends
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import InvalidDestinationError


@dataclass(frozen=True)
class LimitChange:
    """New limits of a broker; None leaves a limit as before, 0 disk bytes stand for the whole disk."""

    memory_bytes: int | None = None
    store_bytes: int | None = None
    temporary_bytes: int | None = None
    uncommitted: int | None = None


@dataclass(frozen=True)
class SettingsChange:
    """New settings of a queue or topic; None leaves a setting as before.

    A memory limit of 0 leaves only the broker's limit.
    """

    memory_limit_bytes: int | None = None
    producer_flow_control: bool | None = None
    audits_copies: bool | None = None
    blocked_warning_ms: int | None = None


@dataclass(frozen=True)
class StrategyChange:
    """New settings of a strategy for slow consumers; None leaves a setting as before."""

    max_slow_count: int | None = None
    max_slow_ms: int | None = None
    max_since_ack_ms: int | None = None
    ignore_idle_consumers: bool | None = None
    ignore_network_consumers: bool | None = None


class Adjustments:
    """Changes limits and settings.

    The configuration is not written: the next start, or a reload, brings the configured values back.
    """

    def __init__(
        self,
        context: BrokerContext,
        usage: MemoryUsage,
        destination_map: DestinationMap,
        connections: Connections,
        parked: ParkedSends,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._usage: Final[MemoryUsage] = usage
        self._map: Final[DestinationMap] = destination_map
        self._connections: Final[Connections] = connections
        self._parked: Final[ParkedSends] = parked
        self._flow: Final[FlowControl] = parked.flow

    def change_limits(self, change: LimitChange, now: Time) -> None:
        """Set limits of the broker. Waiting sends go on if there is room now."""
        self._context.begin_request(now)
        if change.memory_bytes is not None:
            self._usage.limit_bytes = change.memory_bytes
        if change.uncommitted is not None:
            self._connections.uncommitted.messages = change.uncommitted
        limits = self._flow.limits
        self._flow.use_limits(
            replace(
                limits,
                memory_bytes=self._usage.limit_bytes,
                store_bytes=limits.store_bytes if change.store_bytes is None else change.store_bytes,
                temporary_bytes=limits.temporary_bytes if change.temporary_bytes is None else change.temporary_bytes,
            )
        )
        self._parked.unpark()

    def change_settings(self, destination: Destination, change: SettingsChange, now: Time) -> None:
        """Set settings of a queue or topic.

        Raises:
            InvalidDestinationError: there is no such destination.
        """
        self._context.begin_request(now)
        found = self._map.find(destination)
        if found is None:
            raise InvalidDestinationError(f"there is no {destination.qualified_name}")
        policy = found.policy
        if change.producer_flow_control is not None:
            policy = replace(policy, producer_flow_control=change.producer_flow_control)
        if change.blocked_warning_ms is not None:
            policy = replace(policy, blocked_producer_warning_interval_ms=change.blocked_warning_ms)
        if change.audits_copies is not None:
            policy = replace(policy, topic=replace(policy.topic, audits_copies=change.audits_copies))
        if change.memory_limit_bytes is not None:
            policy = replace(policy, memory_limit_bytes=change.memory_limit_bytes)
            found.usage.limit_bytes = change.memory_limit_bytes
        found.policy = policy
        self._parked.unpark()

    def change_strategy(self, name: str, change: StrategyChange, now: Time) -> None:
        """Set settings of the strategy for slow consumers of a policy.

        Args:
            name: the pattern of the policy entry, such as ``topic://PRICES.>``.
            change: the settings; ``max_since_ack_ms`` changes a strategy with such a limit.
            now: the present time.

        Raises:
            InvalidDestinationError: no destination uses such a strategy.
        """
        self._context.begin_request(now)
        watch = self._map.slow_consumer_watch(name)
        if watch is None:
            raise InvalidDestinationError(f"there is no strategy for slow consumers of {name}")
        strategy = watch.strategy
        if change.max_slow_count is not None:
            strategy = replace(strategy, max_slow_count=change.max_slow_count)
        if change.max_slow_ms is not None:
            strategy = replace(strategy, max_slow_ms=change.max_slow_ms)
        if change.ignore_network_consumers is not None:
            strategy = replace(strategy, ignore_network_consumers=change.ignore_network_consumers)
        if change.ignore_idle_consumers is not None:
            strategy = replace(strategy, ignore_idle_consumers=change.ignore_idle_consumers)
        if change.max_since_ack_ms is not None and strategy.max_since_ack_ms is not None:
            strategy = replace(strategy, max_since_ack_ms=change.max_since_ack_ms)
        watch.strategy = strategy

    def reset_producer(self, producer_id: str, only_waits: bool, now: Time) -> None:
        """Set the counters of a producer to 0, ``only_waits`` the counters of waiting sends.

        Raises:
            InvalidDestinationError: there is no such producer.
        """
        self._context.begin_request(now)
        for state in self._connections.all():
            info = state.producers.get(producer_id)
            if info is not None:
                counts = info.counts
                counts.blocked, counts.blocked_seconds = 0, 0.0
                if not only_waits:
                    counts.sent = 0
                return
        raise InvalidDestinationError(f"there is no producer {producer_id[:200]}")

    def reset_consumer(self, consumer_id: str, now: Time) -> None:
        """Set the counters of a consumer to 0; messages at the consumer stay counted as such.

        Raises:
            InvalidDestinationError: there is no such consumer.
        """
        self._context.begin_request(now)
        for state in self._connections.all():
            subscription = state.consumers.get(consumer_id)
            if subscription is not None:
                subscription.dispatched_before = subscription.dispatched_total
                subscription.acknowledged_before = subscription.in_flight.acknowledged_total
                subscription.discarded = 0
                return
        raise InvalidDestinationError(f"there is no consumer {consumer_id[:200]}")
