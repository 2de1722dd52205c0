"""The entries of statistics answers: ActiveMQ's names and types, from the broker's counters."""

from __future__ import annotations

from typing import Final

from spanwire.broker.admin.destination_details import statistics_of
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.history.message_statistics import Distribution
from spanwire.broker.dispatch.memory_usage import MemoryUsage, UsageLimits
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    DOUBLE_VALUE,
    INT_VALUE,
    LONG_VALUE,
    NULL_VALUE,
    STRING_VALUE,
    PropertyValue,
)

Entries = dict[str, PropertyValue]

COUNTERS: Final = ("enqueueCount", "dequeueCount", "dispatchCount", "expiredCount")  # what a reset sets to 0
ADDRESSES: Final = ("openwire", "stomp", "ssl", "stomp+ssl", "vm", "dataDirectory")


class DestinationEntries:
    """Makes answers about destinations."""

    def __init__(self, broker_name: str, broker_id: str) -> None:
        self.broker_name: Final[str] = broker_name
        self.broker_id: Final[str] = broker_id

    def begin(self) -> Entries:
        """Return the first entries of every answer."""
        return {"brokerName": (STRING_VALUE, self.broker_name), "brokerId": (STRING_VALUE, self.broker_id)}

    def entries(self, destination: BrokerDestination) -> Entries:
        """Return all entries for one destination, without the time of the first message."""
        entries = self.begin()
        entries["destinationName"] = (STRING_VALUE, destination.name.qualified_name)
        in_flight = destination.in_flight
        entries["size"] = (LONG_VALUE, destination.waiting() + in_flight)
        entries["enqueueCount"] = (LONG_VALUE, destination.enqueued)
        entries["dequeueCount"] = (LONG_VALUE, destination.dequeued)
        entries["dispatchCount"] = (LONG_VALUE, destination.dispatched)
        entries["expiredCount"] = (LONG_VALUE, destination.expired)
        entries["inflightCount"] = (LONG_VALUE, in_flight)
        cached = destination.paged_in()
        entries["messagesCached"] = (LONG_VALUE, cached)
        entries["averageMessageSize"] = (LONG_VALUE, _average(destination.usage.used_bytes, cached + in_flight))
        _add_memory(entries, destination.usage)
        _add_times(entries, [destination])
        entries["consumerCount"] = (LONG_VALUE, destination.consumer_count)
        entries["producerCount"] = (LONG_VALUE, destination.producers)
        return entries


class BrokerEntries:
    """Makes answers about the broker. ``addresses`` holds texts for the names of `ADDRESSES`."""

    def __init__(
        self,
        start: DestinationEntries,
        context: BrokerContext,
        usage: MemoryUsage,
        limits: UsageLimits,
        addresses: dict[str, str],
    ) -> None:
        self._start: Final[DestinationEntries] = start
        self._context: Final[BrokerContext] = context
        self._usage: Final[MemoryUsage] = usage
        self._limits: Final[UsageLimits] = limits
        self._addresses: Final[dict[str, str]] = addresses
        self._resets = False
        self._baseline: Final[dict[str, int]] = {}

    def reset(self) -> None:
        """Count from now on."""
        self._resets = True

    def entries(self, destinations: list[BrokerDestination], connections: list[ConnectionState]) -> Entries:
        """Return all entries for the broker, as totals over ``destinations``."""
        entries = self._start.begin()
        in_flight = sum([destination.in_flight for destination in destinations])
        counted = {
            "enqueueCount": sum([destination.enqueued for destination in destinations]),
            "dequeueCount": sum([destination.dequeued for destination in destinations]),
            "dispatchCount": sum([destination.dispatched for destination in destinations]),
            "expiredCount": sum([destination.expired for destination in destinations]),
        }
        if self._resets:
            self._resets = False
            self._baseline.update(counted)
        entries["size"] = (LONG_VALUE, sum([destination.waiting() for destination in destinations]) + in_flight)
        for name in COUNTERS:
            entries[name] = (LONG_VALUE, max(0, counted[name] - self._baseline.get(name, 0)))
        entries["inflightCount"] = (LONG_VALUE, in_flight)
        cached = sum([destination.paged_in() for destination in destinations])
        entries["averageMessageSize"] = (LONG_VALUE, _average(self._usage.used_bytes, cached + in_flight))
        entries["messagesCached"] = (LONG_VALUE, cached)
        _add_memory(entries, self._usage)
        _add_disk(entries, "store", self._context.store_usage.used_bytes(), self._limits.store_bytes)
        _add_disk(entries, "temp", 0, self._limits.temporary_bytes)
        _add_times(entries, destinations)
        entries["consumerCount"] = (LONG_VALUE, sum([len(state.receivers()) for state in connections]))
        entries["producerCount"] = (LONG_VALUE, sum([len(state.producers) for state in connections]))
        for name in ADDRESSES:
            entries[name] = (STRING_VALUE, self._addresses.get(name, ""))
        return entries


def subscription_entries(start: DestinationEntries, subscription: Subscription, client_id: str | None) -> Entries:
    """Return the entries for a consumer of a connection with ``client_id``."""
    info = subscription.info
    consumer_id = info.consumer_id
    entries = start.begin()
    entries["destinationName"] = (STRING_VALUE, info.destination.name)
    entries["clientId"] = _text(client_id)
    entries["connectionId"] = (STRING_VALUE, consumer_id.connection_id)
    entries["sessionId"] = (LONG_VALUE, consumer_id.session_id)
    entries["selector"] = _text(info.selector)
    out = subscription.dispatched_count
    entries["enqueueCounter"] = (LONG_VALUE, subscription.dispatched_total + len(subscription.pending))
    entries["dequeueCounter"] = (LONG_VALUE, subscription.in_flight.acknowledged_total)
    entries["dispatchedCounter"] = (LONG_VALUE, subscription.dispatched_total)
    entries["dispatchedQueueSize"] = (LONG_VALUE, out)
    entries["prefetchSize"] = (INT_VALUE, subscription.prefetch_size)
    entries["maximumPendingMessageLimit"] = (INT_VALUE, info.maximum_pending_messages)
    entries["exclusive"] = (BOOLEAN_VALUE, info.exclusive)
    entries["retroactive"] = (BOOLEAN_VALUE, info.retroactive)
    entries["slowConsumer"] = (BOOLEAN_VALUE, not subscription.output.writable)
    return entries


def _average(total_bytes: int, count: int) -> int:
    """Return the average bytes of a message in memory."""
    return total_bytes // count if count > 0 else 0


def _limit_of(usage: MemoryUsage) -> int:
    """Return the effective limit: the usage's own or an ancestor's."""
    parent = usage.parent
    return usage.limit_bytes if usage.limit_bytes > 0 or parent is None else _limit_of(parent)


def _add_memory(entries: Entries, usage: MemoryUsage) -> None:
    limit = _limit_of(usage)
    entries["memoryPercentUsage"] = (INT_VALUE, _percent(usage.used_bytes, limit))
    entries["memoryUsage"] = (LONG_VALUE, usage.used_bytes)
    entries["memoryLimit"] = (LONG_VALUE, limit)


def _add_disk(entries: Entries, kind: str, used_bytes: int, limit_bytes: int) -> None:
    entries[kind + "PercentUsage"] = (INT_VALUE, _percent(used_bytes, limit_bytes))
    entries[kind + "Usage"] = (LONG_VALUE, used_bytes)
    entries[kind + "Limit"] = (LONG_VALUE, limit_bytes)


def _add_times(entries: Entries, destinations: list[BrokerDestination]) -> None:
    """Add how long messages stayed in destinations that measure this, and the sizes of messages.

    Times are 0 where nothing is measured (`spanwire.broker.dispatch.history.message_statistics`).
    """
    held, sizes = Distribution(), Distribution()
    for destination in destinations:
        statistics = statistics_of(destination)
        if statistics is not None:
            held.join(statistics.held_ms)
            sizes.join(statistics.sizes)
    entries["averageEnqueueTime"] = (DOUBLE_VALUE, held.average())
    entries["maxEnqueueTime"] = (DOUBLE_VALUE, float(held.greatest))
    entries["minEnqueueTime"] = (DOUBLE_VALUE, float(held.least))
    if sizes.count > 0 and len(destinations) == 1:
        entries["averageMessageSize"] = (LONG_VALUE, int(sizes.average()))


def _percent(used_bytes: int, limit_bytes: int) -> int:
    return used_bytes * 100 // limit_bytes if limit_bytes > 0 else 0


def _text(text: str | None) -> PropertyValue:
    return (NULL_VALUE, None) if text is None else (STRING_VALUE, text)
