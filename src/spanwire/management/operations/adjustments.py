"""An operator's changes of limits and settings, and resets of counters (control socket)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from spanwire.broker.admin.adjustments import LimitChange, SettingsChange, StrategyChange
from spanwire.management.operations.administration import named_destinations
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.transports.base import Clock

View = dict[str, object]
MAX_BYTES: Final = 1 << 53  # the largest whole number of JSON that all programs read alike
MAX_MS: Final = (1 << 31) - 1  # ActiveMQ's attributes for times and counts are of this size
MAX_UNCOMMITTED: Final = 10_000_000  # messages; each takes some 200 bytes of the broker's memory until the commit


class AdjustedBroker(Protocol):
    """The part of the broker used here (``broker/admin/adjustments.py``)."""

    def change_limits(self, change: LimitChange, now: Time) -> None:
        """Set limits of the broker."""
        ...

    def change_settings(self, destination: Destination, change: SettingsChange, now: Time) -> None:
        """Set settings of a queue or topic."""
        ...

    def change_strategy(self, name: str, change: StrategyChange, now: Time) -> None:
        """Set settings of a strategy for slow consumers."""
        ...

    def reset_producer(self, producer_id: str, only_waits: bool, now: Time) -> None:
        """Set the counters of a producer to 0."""
        ...

    def reset_consumer(self, consumer_id: str, now: Time) -> None:
        """Set the counters of a consumer to 0."""
        ...


class BrokerAdjustments:
    """Checks the arguments of requests, and calls the broker."""

    def __init__(self, broker: AdjustedBroker, clock: Clock, wake: Callable[[], None]) -> None:
        self._broker: Final = broker
        self._clock: Final = clock
        self._wake: Final = wake

    async def limits(self, arguments: Mapping[str, object]) -> View:
        """Set the usage limits of the broker; missing limits stay.

        The limits are ``memory_limit_bytes``, ``store_limit_bytes``, ``temporary_limit_bytes`` and
        ``maximum_uncommitted``.

        Raises:
            ConfigurationError: an argument is invalid
        """
        change = LimitChange(
            memory_bytes=_number(arguments, "memory_limit_bytes", 1, MAX_BYTES),
            store_bytes=_number(arguments, "store_limit_bytes", 0, MAX_BYTES),
            temporary_bytes=_number(arguments, "temporary_limit_bytes", 0, MAX_BYTES),
            uncommitted=_number(arguments, "maximum_uncommitted", 1, MAX_UNCOMMITTED),
        )
        self._broker.change_limits(change, self._clock.now())
        self._wake()
        names = ("memory_limit_bytes", "store_limit_bytes", "temporary_limit_bytes", "maximum_uncommitted")
        return {name: arguments[name] for name in names if arguments.get(name) is not None}

    async def settings(self, arguments: Mapping[str, object]) -> list[View]:
        """Set memory limit, flow control, audit of copies and pause between warnings of the ``destinations``.

        Raises:
            ConfigurationError: an argument is invalid
            JmsError: there is no such destination
        """
        change = SettingsChange(
            memory_limit_bytes=_number(arguments, "memory_limit_bytes", 0, MAX_BYTES),
            producer_flow_control=_flag(arguments, "producer_flow_control"),
            audits_copies=_flag(arguments, "audits_copies"),
            blocked_warning_ms=_number(arguments, "blocked_warning_ms", 0, MAX_MS),
        )
        views: list[View] = []
        for destination in named_destinations(arguments):
            self._broker.change_settings(destination, change, self._clock.now())
            views.append({"destination": destination.qualified_name})
        self._wake()
        return views

    async def strategy(self, arguments: Mapping[str, object]) -> View:
        """Set the bounds of the strategy for slow consumers ``name``, the pattern of its policy entry.

        Raises:
            ConfigurationError: an argument is invalid
            JmsError: there is no such strategy
        """
        name = _name(arguments, "name")
        change = StrategyChange(
            max_slow_count=_number(arguments, "max_slow_count", -1, MAX_MS),
            max_slow_ms=_number(arguments, "max_slow_ms", -1, MAX_MS),
            max_since_ack_ms=_number(arguments, "max_since_ack_ms", 0, MAX_MS),
            ignore_idle_consumers=_flag(arguments, "ignores_idle"),
            ignore_network_consumers=_flag(arguments, "ignores_network"),
        )
        self._broker.change_strategy(name, change, self._clock.now())
        return {"name": name}

    async def reset_producer(self, arguments: Mapping[str, object]) -> View:
        """Set the counters of the producer ``producer_id`` to 0.

        With ``only_waits`` the counters of blocked sends alone become 0.

        Raises:
            ConfigurationError: an argument is invalid
            JmsError: there is no such producer
        """
        producer_id = _name(arguments, "producer_id")
        only_waits = _flag(arguments, "only_waits") is True
        self._broker.reset_producer(producer_id, only_waits, self._clock.now())
        return {"producer_id": producer_id}

    async def reset_consumer(self, arguments: Mapping[str, object]) -> View:
        """Set the counters of the consumer ``consumer_id`` to 0.

        Raises:
            ConfigurationError: the argument is invalid
            JmsError: there is no such consumer
        """
        consumer_id = _name(arguments, "consumer_id")
        self._broker.reset_consumer(consumer_id, self._clock.now())
        return {"consumer_id": consumer_id}


def _name(arguments: Mapping[str, object], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{name} is missing")
    return value


def _flag(arguments: Mapping[str, object], name: str) -> bool | None:
    value = arguments.get(name)
    if value is not None and not isinstance(value, bool):
        raise ConfigurationError(f"{name} is true or false")
    return value


def _number(arguments: Mapping[str, object], name: str, least: int, most: int) -> int | None:
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigurationError(f"{name} is a whole number from {least} to {most}")
    return value
