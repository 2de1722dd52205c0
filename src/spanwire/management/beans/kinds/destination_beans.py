"""Beans of queues and topics."""

from __future__ import annotations

from spanwire.management.beans import executions
from spanwire.management.beans.bean import (
    Bean,
    Detail,
    consumer_name,
    destination_name,
    reference,
    references,
    short,
    strategy_name,
    values_of,
)
from spanwire.management.beans.executions import Node
from spanwire.management.beans.source import BeanSource
from spanwire.management.browsing import MAX_SHOWN
from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.view_table import CONNECTIONS, CONSUMERS, QUEUES, TOPICS, rows_of


async def destination_beans(source: BeanSource, broker: str) -> list[Bean]:
    beans: list[Bean] = []
    answer = await source.view(QUEUES.command)
    for view, kind in ((QUEUES, executions.QUEUE), (TOPICS, executions.TOPIC)):
        for row in rows_of(view, answer):
            attributes = {"Name": short(row), **values_of(view, row)}
            subject: Node = {"destination": row["destination"]}
            beans.append(
                Bean(
                    destination_name(broker, row), attributes, kind, subject, _of_destination(view, row["destination"])
                )
            )
    return beans


def _of_destination(view: ViewTable, destination: object) -> Detail:
    async def detail(source: BeanSource, broker: str) -> Node:
        (row,) = rows_of(view, [await source.ask("destination", destination=destination)])
        consumers = rows_of(CONSUMERS, await source.view(CONSUMERS.command))
        own = [one for one in consumers if one["destination"] == destination]
        strategy = row.get("slow_consumer_strategy")
        return {
            **values_of(view, row),
            executions.MEASURED: row.get("statistics_enabled"),
            "ForwardCount": row.get("to_brokers"),
            "EnqueuedMessageClientId": await _client_id(source, row.get("last_in_connection")),
            "SlowConsumerStrategy": None if strategy is None else reference(strategy_name(broker, strategy)),
            "MaxBrowsePageSize": MAX_SHOWN,
            "CacheEnabled": not row.get("cursor_full"),
            "CursorMemoryUsage": row.get("memory_bytes"),
            "CursorPercentUsage": row.get("memory_percent"),
            "Subscriptions": references(consumer_name(broker, one) for one in own),
        }

    return detail


async def _client_id(source: BeanSource, connection_id: object) -> object:
    """Return the client id of a connection; None for a closed connection."""
    if connection_id is None:
        return None
    rows = rows_of(CONNECTIONS, await source.view(CONNECTIONS.command))
    return next((row["client_id"] for row in rows if row["connection_id"] == connection_id), None)
