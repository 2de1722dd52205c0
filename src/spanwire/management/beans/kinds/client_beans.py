"""Beans of connectors, connections, consumers, producers and durable subscriptions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spanwire.management.beans import executions
from spanwire.management.beans.bean import (
    Bean,
    Detail,
    Row,
    connection_names,
    connector_name,
    consumer_name,
    kind_of,
    number,
    producer_name,
    reference,
    references,
    subscription_name,
    values_of,
)
from spanwire.management.beans.executions import Node
from spanwire.management.beans.source import BeanSource
from spanwire.management.tables.view_table import (
    CONNECTIONS,
    CONNECTORS,
    CONSUMERS,
    PRODUCERS,
    SUBSCRIPTIONS,
    rows_of,
)

TOPIC_ATTRIBUTES: Final = ("DiscardedCount", "MaximumPendingQueueSize")


async def connector_beans(source: BeanSource, broker: str) -> list[Bean]:
    status = await source.status()
    return [
        Bean(
            connector_name(broker, str(row["name"])),
            {
                **values_of(CONNECTORS, row),
                "ConnectURI": row["uri"],
                "PublishableConnectURI": row["uri"],
                "BrokerName": status["name"],
            },
            executions.CONNECTOR,
            {"connectors": [row["name"]]},
        )
        for row in rows_of(CONNECTORS, status)
    ]


async def connection_beans(source: BeanSource, broker: str) -> list[Bean]:
    beans: list[Bean] = []
    for row in rows_of(CONNECTIONS, await source.view(CONNECTIONS.command)):
        attributes = {**values_of(CONNECTIONS, row), "Active": True, "Connected": True}
        for lists in ("Consumers", "Producers"):  # a detail, because ActiveMQ's are lists of beans
            del attributes[lists]
        subject: Node = {"client": row["connection_id"]}
        beans += [
            Bean(name, attributes, executions.CONNECTION, subject, _of_connection(row["connection_id"]))
            for name in connection_names(broker, row)
        ]
    return beans


def _of_connection(connection_id: object) -> Detail:
    async def detail(source: BeanSource, broker: str) -> Node:
        consumers = rows_of(CONSUMERS, await source.view(CONSUMERS.command))
        producers = rows_of(PRODUCERS, await source.view(PRODUCERS.command))
        return {
            "Consumers": references(consumer_name(broker, row) for row in _own(consumers, connection_id)),
            "Producers": references(producer_name(broker, row) for row in _own(producers, connection_id)),
        }

    return detail


def _own(rows: Iterable[Row], connection_id: object) -> list[Row]:
    return [row for row in rows if row.get("connection_id") == connection_id]


async def consumer_beans(source: BeanSource, broker: str) -> list[Bean]:
    """Return consumers and durable subscriptions; a durable subscription with a subscriber is one bean."""
    connections = {row["connection_id"]: row for row in rows_of(CONNECTIONS, await source.view(CONNECTIONS.command))}
    consumers = rows_of(CONSUMERS, await source.view(CONSUMERS.command))
    beans: list[Bean] = []
    subscribers: dict[tuple[object, object], Node] = {}
    ids: dict[tuple[object, object], object] = {}
    for row in consumers:
        attributes = _consumer(broker, row, connections.get(row["connection_id"]))
        if row["durable"] is None:
            own: Node = {"consumer_id": row["consumer_id"]}
            beans.append(Bean(consumer_name(broker, row), attributes, executions.CONSUMER, own))
        else:
            subscribers[row["client_id"], row["durable"]] = attributes
            ids[row["client_id"], row["durable"]] = row["consumer_id"]
    for row in rows_of(SUBSCRIPTIONS, await source.view(SUBSCRIPTIONS.command)):
        attributes = {
            **subscribers.get((row["client_id"], row["name"]), {}),
            **values_of(SUBSCRIPTIONS, row),
            **kind_of(str(row["topic"])),
            "Durable": True,
            "MessageCountAwaitingAcknowledge": row["in_flight"],
        }
        subject: Node = {
            "client_id": row["client_id"],
            "name": row["name"],
            "consumer_id": ids.get((row["client_id"], row["name"])),
        }
        beans.append(Bean(subscription_name(broker, row), attributes, executions.SUBSCRIPTION, subject))
    return beans


def _consumer(broker: str, row: Row, connection: Row | None) -> Node:
    names = [] if connection is None else connection_names(broker, connection)
    attributes = values_of(CONSUMERS, row)
    if not str(row["destination"]).partition("://")[0].endswith("topic"):
        for own in TOPIC_ATTRIBUTES:
            attributes.pop(own, None)
    return {
        **attributes,
        **kind_of(str(row["destination"])),
        "Active": True,
        "Durable": row["durable"] is not None,
        "EnqueueCounter": number(row["dispatched"]) + number(row["pending"]),
        "ConsumedCount": row["dequeued"],
        "MessageCountAwaitingAcknowledge": row["in_flight"],
        **({"Connection": reference(names[0])} if names else {}),
    }


async def producer_beans(source: BeanSource, broker: str) -> list[Bean]:
    return [bean for bean, row in await _all_producers(source, broker) if row["destination"] is not None]


async def dynamic_producer_beans(source: BeanSource, broker: str) -> list[Bean]:
    return [bean for bean, row in await _all_producers(source, broker) if row["destination"] is None]


async def _all_producers(source: BeanSource, broker: str) -> list[tuple[Bean, Row]]:
    rows = rows_of(PRODUCERS, await source.view(PRODUCERS.command))
    return [
        (
            Bean(producer_name(broker, row), _producer(row), executions.PRODUCER, {"producer_id": row["producer_id"]}),
            row,
        )
        for row in rows
    ]


def _producer(row: Row) -> Node:
    destination = row["destination"]
    return {
        **values_of(PRODUCERS, row),
        "ProducerId": row["producer_id"],
        **({} if destination is None else kind_of(str(destination))),
    }
