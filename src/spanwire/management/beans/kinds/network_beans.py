"""Beans of network connectors, links, the links' destinations, and bridges of `<jmsBridgeConnectors>`."""

from __future__ import annotations

from spanwire.management.beans import executions
from spanwire.management.beans.bean import TYPES, Bean, Detail, bean_word, network_name, number, short, values_of
from spanwire.management.beans.executions import Node
from spanwire.management.beans.names import quoted
from spanwire.management.beans.source import BeanSource
from spanwire.management.tables.network_tables import BRIDGES, LINKS, NETWORK_CONNECTORS
from spanwire.management.tables.operation_table import BRIDGE_PARAMETERS
from spanwire.management.tables.view_table import rows_of, type_of
from spanwire.management.tables.work_tables import LINK_DESTINATIONS


async def network_connector_beans(source: BeanSource, broker: str) -> list[Bean]:
    """Return the broker's network connectors; connectors of other brokers have beans of links alone."""
    status = await source.status()
    return [
        Bean(
            network_name(broker, row),
            {**values_of(NETWORK_CONNECTORS, row), "LocalUri": f"vm://{status['name']}"},
            executions.NETWORK_CONNECTOR,
            {"connectors": [row["name"]]},
        )
        for row in rows_of(NETWORK_CONNECTORS, status)
        if row.get("autoStart") is not None
    ]


async def network_bridge_beans(source: BeanSource, broker: str) -> list[Bean]:
    status = await source.status()
    return [
        Bean(
            f"{network_name(broker, row)},networkBridge={quoted(str(row['uri']))}",
            {
                **values_of(LINKS, row),
                "LocalBrokerName": status["name"],
                "LocalAddress": f"vm://{status['name']}",
                "RemoteExceptionCount": number(row.get("breaks")) + number(row.get("failed")),
            },
            executions.LINK,
            {"name": row["name"], "uri": row["uri"]},
        )
        for row in rows_of(LINKS, status)
    ]


async def link_destination_beans(source: BeanSource, broker: str) -> list[Bean]:
    rows = rows_of(LINK_DESTINATIONS, await source.view(LINK_DESTINATIONS.command))
    beans: list[Bean] = []
    for row in rows:
        if row["destination"] is not None:
            link = f"{network_name(broker, row)},networkBridge={quoted(str(row['uri']))},direction={row['direction']}"
            kind = f"destinationType={TYPES[type_of(row)]},destinationName={quoted(short(row))}"
            subject: Node = {name: row[name] for name in ("name", "uri", "direction", "destination")}
            attributes: Node = {"Name": short(row), **values_of(LINK_DESTINATIONS, row)}
            beans.append(Bean(f"{link},{kind}", attributes, executions.LINK, subject))
    return beans


async def jms_bridge_beans(source: BeanSource, broker: str) -> list[Bean]:
    return [
        Bean(
            f"{broker},connector=jmsConnectors,jmsConnectors={quoted(str(row['name']))}",
            {**values_of(BRIDGES, row), "Paused": row["state"] == "paused"},
            executions.JMS_BRIDGE,
            {"bridges": [row["name"]]},
            _of_bridge(row["name"]),
        )
        for row in rows_of(BRIDGES, await source.status())
    ]


def _of_bridge(name: object) -> Detail:
    async def detail(source: BeanSource, broker: str) -> Node:
        answer = await source.ask(BRIDGE_PARAMETERS.command, name=name)
        parameters = answer.get("parameters") if isinstance(answer, dict) else None
        return {bean_word(word): value for word, value in parameters.items()} if isinstance(parameters, dict) else {}

    return detail
