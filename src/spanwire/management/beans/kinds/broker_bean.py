"""The bean of the broker, with totals and the names of other beans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spanwire.management.beans import executions
from spanwire.management.beans.bean import (
    Bean,
    Row,
    broker_name,
    consumer_name,
    destination_name,
    number,
    producer_name,
    reference,
    references,
    subscription_name,
    values_of,
)
from spanwire.management.beans.executions import Node
from spanwire.management.beans.source import BeanSource
from spanwire.management.beans.totals import broker_with_totals
from spanwire.management.tables.view_table import (
    BROKER,
    CONNECTORS,
    CONSUMERS,
    PRODUCERS,
    SUBSCRIPTIONS,
    rows_of,
    type_of,
)

COUNTS: Final = {
    "TotalQueuesCount": "queue",
    "TotalTopicsCount": "topic",
    "TotalTemporaryQueuesCount": "temp-queue",
    "TotalTemporaryTopicsCount": "temp-topic",
}
MANAGED: Final = {"TotalManagedQueuesCount": "queue", "TotalManagedTopicsCount": "topic"}
UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"))
LISTS: Final = {"queue": "Queue", "topic": "Topic", "temp-queue": "TemporaryQueue", "temp-topic": "TemporaryTopic"}


async def broker_bean(source: BeanSource) -> Bean:
    """Return the bean of the broker; the lists of other beans are its details."""
    row = await broker_with_totals(source.view)
    status = await source.status()
    destinations = await _rows(source, "destinations")
    uptime = row.get("uptime_s")
    attributes: Node = {
        **values_of(BROKER, row),
        "UptimeMillis": int(uptime * 1000) if isinstance(uptime, (int, float)) else 0,
        "TransportConnectors": {str(one["name"]): one["uri"] for one in rows_of(CONNECTORS, status)},
        "TotalConsumerCount": sum(number(one.get("consumers")) for one in destinations),
        "TotalProducerCount": sum(number(one.get("producers")) for one in destinations),
        "Uptime": _words(uptime),
        **{name: sum(type_of(one) == scheme for one in destinations) for name, scheme in COUNTS.items()},
        **{managed: sum(type_of(one) == scheme for one in destinations) for managed, scheme in MANAGED.items()},
        "VMURL": f"vm://{row['name']}",
        "Slave": False,
    }
    return Bean(broker_name(str(row["name"])), attributes, executions.BROKER, {}, _lists)


def _words(uptime: object) -> str:
    """Return the time since the start in words, such as ``1 hour 5 minutes``."""
    rest = int(uptime) if isinstance(uptime, (int, float)) else 0
    if rest < UNITS[-1][0]:
        return f"{rest} seconds"
    parts: list[str] = []
    for length, unit in UNITS:
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(parts[:2])


async def _lists(source: BeanSource, broker: str) -> Node:
    destinations = await _rows(source, "destinations")
    consumers = [row for row in rows_of(CONSUMERS, await source.view(CONSUMERS.command)) if row["durable"] is None]
    producers = rows_of(PRODUCERS, await source.view(PRODUCERS.command))
    subscriptions = rows_of(SUBSCRIPTIONS, await source.view(SUBSCRIPTIONS.command))
    lists: Node = {}
    for scheme, word in LISTS.items():
        lists[f"{word}s"] = references(destination_name(broker, row) for row in _of(destinations, scheme))
        lists[f"{word}Subscribers"] = references(consumer_name(broker, row) for row in _of(consumers, scheme))
        lists[f"{word}Producers"] = references(producer_name(broker, row) for row in _of(producers, scheme))
    for name, is_active in (("DurableTopicSubscribers", True), ("InactiveDurableTopicSubscribers", False)):
        lists[name] = references(subscription_name(broker, row) for row in subscriptions if row["active"] is is_active)
    lists["DynamicDestinationProducers"] = references(
        producer_name(broker, row) for row in producers if row["destination"] is None
    )
    lists["JMSJobScheduler"] = reference(f"{broker},service=JobScheduler,name=JMS")
    return lists


async def _rows(source: BeanSource, command: str) -> list[Row]:
    answer = await source.view(command)
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []


def _of(rows: Iterable[Row], scheme: str) -> list[Row]:
    return [row for row in rows if row.get("destination") is not None and type_of(row) == scheme]
