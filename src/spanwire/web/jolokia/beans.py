"""The families of beans, with ActiveMQ's names and attributes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from spanwire.logs.levels import ROOT
from spanwire.management.browsing import MAX_SHOWN
from spanwire.management.health import Level, broker_checks
from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.operation_table import COMMAND_ROLES
from spanwire.management.tables.view_table import (
    BRIDGES,
    CONNECTIONS,
    CONNECTORS,
    CONSUMERS,
    LINKS,
    NETWORK_CONNECTORS,
    PRODUCERS,
    QUEUES,
    SUBSCRIPTIONS,
    TOPICS,
    rows_of,
    type_of,
)
from spanwire.management.tables.work_tables import BRANCHES, JOBS, LINK_DESTINATIONS, STORES
from spanwire.web.calls import Call
from spanwire.web.jolokia import executions
from spanwire.web.jolokia.executions import DATE, Node
from spanwire.web.jolokia.names import DOMAIN, quoted

TYPES: Final = {"queue": "Queue", "topic": "Topic", "temp-queue": "TempQueue", "temp-topic": "TempTopic"}
BROKER_KEYS: Final = ("type", "brokerName")

Row = Mapping[str, object]
Detail = Callable[[Call, str], Awaitable[Node]]


@dataclass(frozen=True, slots=True)
class Bean:
    """One object under its name, with its attributes.

    ``kind`` chooses its operations, and ``subject`` are their arguments. ``detail`` returns attributes that only the
    reading of a single bean shows.
    """

    name: str
    attributes: Node
    kind: str = ""
    subject: Node | None = None
    detail: Detail | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """All beans whose names have the properties ``keys`` beside those of the broker.

    ``load`` gets the call and the name of the broker's bean. A pattern finds a family of very many beans only if it has
    the property ``named``.
    """

    keys: frozenset[str]
    load: Callable[[Call, str], Awaitable[list[Bean]]]
    named: str = ""


async def _connectors(call: Call, broker: str) -> list[Bean]:
    return [
        Bean(
            connector_name(broker, str(row["name"])),
            {**values_of(CONNECTORS, row), "ConnectURI": row["uri"], "PublishableConnectURI": row["uri"]},
            executions.CONNECTOR,
            {"connectors": [row["name"]]},
        )
        for row in rows_of(CONNECTORS, await call.status())
    ]


async def _connections(call: Call, broker: str) -> list[Bean]:
    beans: list[Bean] = []
    for row in rows_of(CONNECTIONS, await call.view(CONNECTIONS.command)):
        attributes = {**values_of(CONNECTIONS, row), "Active": True, "Connected": True}
        for lists in ("Consumers", "Producers"):  # a detail, because ActiveMQ's are lists of beans
            del attributes[lists]
        subject: Node = {"client": row["connection_id"]}
        beans += [
            Bean(name, attributes, executions.CONNECTION, subject, _of_connection(row["connection_id"]))
            for name in connection_names(broker, row)
        ]
    return beans


def connection_names(broker: str, row: Row) -> list[str]:
    """Return both names of a connection; one without a client id has the second alone."""
    connector = connector_name(broker, str(row["connector"]))
    views = [("clientId", row["client_id"]), ("remoteAddress", row["remote_address"])]
    return [
        f"{connector},connectionViewType={view},connectionName={quoted(str(value))}" for view, value in views if value
    ]


def _of_connection(connection_id: object) -> Detail:
    async def detail(call: Call, broker: str) -> Node:
        consumers = rows_of(CONSUMERS, await call.view(CONSUMERS.command))
        producers = rows_of(PRODUCERS, await call.view(PRODUCERS.command))
        return {
            "Consumers": references(consumer_name(broker, row) for row in _own(consumers, connection_id)),
            "Producers": references(producer_name(broker, row) for row in _own(producers, connection_id)),
        }

    return detail


def _own(rows: Iterable[Row], connection_id: object) -> list[Row]:
    return [row for row in rows if row.get("connection_id") == connection_id]


async def _destinations(call: Call, broker: str) -> list[Bean]:
    beans: list[Bean] = []
    answer = await call.view(QUEUES.command)
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
    async def detail(call: Call, broker: str) -> Node:
        (row,) = rows_of(view, [await call.ask("destination", destination=destination)])
        consumers = rows_of(CONSUMERS, await call.view(CONSUMERS.command))
        own = [one for one in consumers if one["destination"] == destination]
        return {
            **values_of(view, row),
            executions.MEASURED: row.get("statistics_enabled"),
            "AdvancedNetworkStatisticsEnabled": False,
            "MaxBrowsePageSize": MAX_SHOWN,
            "CacheEnabled": not row.get("cursor_full"),
            "CursorMemoryUsage": row.get("memory_bytes"),
            "CursorPercentUsage": row.get("memory_percent"),
            "Subscriptions": references(consumer_name(broker, one) for one in own),
        }

    return detail


async def _consumers(call: Call, broker: str) -> list[Bean]:
    """Return consumers and durable subscriptions; a durable subscription with a subscriber is one bean."""
    connections = {row["connection_id"]: row for row in rows_of(CONNECTIONS, await call.view(CONNECTIONS.command))}
    consumers = rows_of(CONSUMERS, await call.view(CONSUMERS.command))
    beans: list[Bean] = []
    subscribers: dict[tuple[object, object], Node] = {}
    for row in consumers:
        attributes = _consumer(broker, row, connections.get(row["connection_id"]))
        if row["durable"] is None:
            beans.append(Bean(consumer_name(broker, row), attributes))
        else:
            subscribers[row["client_id"], row["durable"]] = attributes
    for row in rows_of(SUBSCRIPTIONS, await call.view(SUBSCRIPTIONS.command)):
        attributes = {
            **subscribers.get((row["client_id"], row["name"]), {}),
            **values_of(SUBSCRIPTIONS, row),
            **_kind(str(row["topic"])),
            "Durable": True,
            "MessageCountAwaitingAcknowledge": row["in_flight"],
        }
        subject: Node = {"client_id": row["client_id"], "name": row["name"]}
        beans.append(Bean(subscription_name(broker, row), attributes, executions.SUBSCRIPTION, subject))
    return beans


def _consumer(broker: str, row: Row, connection: Row | None) -> Node:
    names = [] if connection is None else connection_names(broker, connection)
    return {
        **values_of(CONSUMERS, row),
        **_kind(str(row["destination"])),
        "Active": True,
        "Durable": row["durable"] is not None,
        "EnqueueCounter": number(row["dispatched"]) + number(row["pending"]),
        "ConsumedCount": row["dequeued"],
        "DispatchAsync": True,
        "MessageCountAwaitingAcknowledge": row["in_flight"],
        **({"Connection": reference(names[0])} if names else {}),
    }


async def _producers(call: Call, broker: str) -> list[Bean]:
    return [bean for bean, row in await _all_producers(call, broker) if row["destination"] is not None]


async def _dynamic_producers(call: Call, broker: str) -> list[Bean]:
    return [bean for bean, row in await _all_producers(call, broker) if row["destination"] is None]


async def _all_producers(call: Call, broker: str) -> list[tuple[Bean, Row]]:
    rows = rows_of(PRODUCERS, await call.view(PRODUCERS.command))
    return [(Bean(producer_name(broker, row), _producer(row)), row) for row in rows]


def _producer(row: Row) -> Node:
    destination = row["destination"]
    return {
        **values_of(PRODUCERS, row),
        "ProducerId": row["producer_id"],
        **({} if destination is None else _kind(str(destination))),
    }


async def _network_connectors(call: Call, broker: str) -> list[Bean]:
    """Return the network connectors of this broker; those of others have beans of their links alone."""
    return [
        Bean(
            network_name(broker, row),
            values_of(NETWORK_CONNECTORS, row),
            executions.NETWORK_CONNECTOR,
            {"connectors": [row["name"]]},
        )
        for row in rows_of(NETWORK_CONNECTORS, await call.status())
        if row.get("autoStart") is not None
    ]


async def _network_bridges(call: Call, broker: str) -> list[Bean]:
    status = await call.status()
    return [
        Bean(
            f"{network_name(broker, row)},networkBridge={quoted(str(row['uri']))}",
            {**values_of(LINKS, row), "LocalBrokerName": status["name"], "LocalAddress": f"vm://{status['name']}"},
        )
        for row in rows_of(LINKS, status)
    ]


async def _link_destinations(call: Call, broker: str) -> list[Bean]:
    rows = rows_of(LINK_DESTINATIONS, await call.view(LINK_DESTINATIONS.command))
    beans: list[Bean] = []
    for row in rows:
        if row["destination"] is not None:
            link = f"{network_name(broker, row)},networkBridge={quoted(str(row['uri']))},direction={row['direction']}"
            kind = f"destinationType={TYPES[type_of(row)]},destinationName={quoted(short(row))}"
            beans.append(Bean(f"{link},{kind}", {"Name": short(row), **values_of(LINK_DESTINATIONS, row)}))
    return beans


async def _jms_bridges(call: Call, broker: str) -> list[Bean]:
    return [
        Bean(
            f"{broker},connector=jmsConnectors,jmsConnectors={quoted(str(row['name']))}",
            values_of(BRIDGES, row),
            executions.JMS_BRIDGE,
            {"bridges": [row["name"]]},
        )
        for row in rows_of(BRIDGES, await call.status())
    ]


async def _branches(call: Call, broker: str) -> list[Bean]:
    return [
        Bean(
            f"{broker},transactionType=RecoveredXaTransaction,xid={quoted(str(row['xid']))}",
            {
                "FormatId": row["format_id"],
                "GlobalTransactionId": _octets(row["global_id"]),
                "BranchQualifier": _octets(row["branch_qualifier"]),
            },
            executions.BRANCH,
            {"xid": row["xid"]},
        )
        for row in rows_of(BRANCHES, await call.view(BRANCHES.command))
    ]


async def _scheduler(call: Call, broker: str) -> list[Bean]:
    jobs = {str(row["job_id"]): values_of(JOBS, row) for row in rows_of(JOBS, await call.view(JOBS.command))}
    first = min((number(job["next"]) for job in jobs.values()), default=None)
    shown = {key: {**job, "next": _date(number(job["next"]))} for key, job in jobs.items()}
    attributes: Node = {
        "AllJobs": shown,
        "NextScheduleTime": None if first is None else _date(first),
        "NextScheduleJobs": {key: job for key, job in shown.items() if number(jobs[key]["next"]) == first},
        "ScheduledMessageCount": len(jobs),
        "DelayedMessageCount": sum(not job["cronEntry"] and number(job["repeat"]) == 0 for job in jobs.values()),
    }
    return [Bean(f"{broker},service=JobScheduler,name=JMS", attributes, executions.SCHEDULER, {})]


async def _health(call: Call, broker: str) -> list[Bean]:
    faults = [check for check in broker_checks(await call.status()) if check.level > Level.OK]
    text = "; ".join(f"{check.name}: {check.text}" for check in faults)
    status = f"Getting Worried {{{text}}}" if faults else "Good"
    rows = [
        {
            "healthId": check.name,
            "level": check.level.name,
            "message": check.text,
            "resource": broker,
        }
        for check in faults
    ]
    attributes: Node = {"CurrentStatus": status, "Checks": rows}
    return [Bean(f"{broker},service=Health", attributes, executions.HEALTH, {})]


async def _logging(call: Call, broker: str) -> list[Bean]:
    """Return the bean of loggers to a caller who may set their levels."""
    if call.caller.role < COMMAND_ROLES["log-level"]:
        return []
    return [Bean(f"{broker},service=Log4JConfiguration", {}, executions.LOGGING, {}, _levels)]


async def _levels(call: Call, broker: str) -> Node:
    answer = await call.ask("log-level")
    rows = [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
    loggers = [{"name": row["logger"], "level": str(row["level"]).upper()} for row in rows]
    root = next((one["level"] for one in loggers if one["name"] == ROOT), None)
    return {"RootLogLevel": root, "Loggers": loggers}


async def _stores(call: Call, broker: str) -> list[Bean]:
    return [
        Bean(
            f"{broker},service=PersistenceAdapter,instanceName={quoted(str(row['name']))}",
            values_of(STORES, row),
        )
        for row in rows_of(STORES, await call.status())
    ]


def _family(load: Callable[[Call, str], Awaitable[list[Bean]]], *keys: str, named: str = "") -> Family:
    return Family(frozenset({*BROKER_KEYS, *keys}), load, named)


ENDPOINT: Final = ("destinationType", "destinationName", "endpoint", "clientId")
CONSUMER_FAMILY: Final = _family(_consumers, *ENDPOINT, "consumerId")
PRODUCER_FAMILY: Final = _family(_producers, *ENDPOINT, "producerId")
DYNAMIC_FAMILY: Final = _family(_dynamic_producers, "endpoint", "clientId", "producerId")
FAMILIES: Final = (
    _family(_connectors, "connector", "connectorName"),
    _family(_connections, "connector", "connectorName", "connectionViewType", "connectionName"),
    _family(_destinations, "destinationType", "destinationName"),
    CONSUMER_FAMILY,
    PRODUCER_FAMILY,
    DYNAMIC_FAMILY,
    _family(_network_connectors, "connector", "networkConnectorName"),
    _family(_network_bridges, "connector", "networkConnectorName", "networkBridge"),
    _family(
        _link_destinations,
        "connector",
        "networkConnectorName",
        "networkBridge",
        "direction",
        "destinationType",
        "destinationName",
        named="direction",
    ),
    _family(_jms_bridges, "connector", "jmsConnectors"),
    _family(_branches, "transactionType", "xid"),
    _family(_scheduler, "service", "name"),
    _family(_health, "service"),
    _family(_logging, "service"),
    _family(_stores, "service", "instanceName"),
)


def broker_name(name: str) -> str:
    """Return the name of the broker's bean, with which all others begin."""
    return f"{DOMAIN}:type=Broker,brokerName={quoted(name)}"


def connector_name(broker: str, name: str) -> str:
    """Return the name of a transport connector's bean."""
    return f"{broker},connector=clientConnectors,connectorName={quoted(name)}"


def network_name(broker: str, row: Row) -> str:
    """Return the name of a network connector's bean, for its own row or that of a link."""
    kind = "duplexNetworkConnectors" if row.get("accepted") else "networkConnectors"
    return f"{broker},connector={kind},networkConnectorName={quoted(str(row['name']))}"


def destination_name(broker: str, row: Row) -> str:
    """Return the name of a queue's or topic's bean."""
    return f"{broker},destinationType={TYPES[type_of(row)]},destinationName={quoted(short(row))}"


def consumer_name(broker: str, row: Row) -> str:
    """Return the name of a consumer's bean, for a durable one that of its subscription."""
    if row["durable"] is not None:
        return subscription_name(
            broker, {"client_id": row["client_id"], "name": row["durable"], "topic": row["destination"]}
        )
    return f"{_endpoint(broker, row, 'Consumer')},consumerId={quoted(str(row['consumer_id']))}"


def subscription_name(broker: str, row: Row) -> str:
    """Return the name of a durable subscription's bean."""
    topic = destination_name(broker, {"destination": row["topic"]})
    client = quoted(str(row["client_id"]))
    return f"{topic},endpoint=Consumer,clientId={client},consumerId=Durable({client}_{quoted(str(row['name']))})"


def producer_name(broker: str, row: Row) -> str:
    """Return the name of a producer's bean."""
    producer = f"producerId={quoted(str(row['producer_id']))}"
    if row["destination"] is None:
        return f"{broker},endpoint=dynamicProducer,clientId={_client(row)},{producer}"
    return f"{_endpoint(broker, row, 'Producer')},{producer}"


def _endpoint(broker: str, row: Row, kind: str) -> str:
    return f"{destination_name(broker, row)},endpoint={kind},clientId={_client(row)}"


def _client(row: Row) -> str:
    return quoted(str(row["client_id"] or row["connection_id"]))  # ActiveMQ's clients always have an id


def short(row: Row) -> str:
    """Return the name of a destination without its scheme."""
    return str(row["destination"]).partition("://")[2]


def reference(name: str) -> Node:
    """Return the name of another bean as an attribute's value."""
    return {"objectName": name}


def references(names: Iterable[str]) -> list[Node]:
    """Return names of other beans as an attribute's value."""
    return [reference(name) for name in names]


def values_of(view: ViewTable, row: Row) -> Node:
    """Return the attributes of a row under ActiveMQ's names."""
    return {bean: row[name] for bean, name in view.beans() if name in row}


def number(value: object) -> int:
    """Return a whole number, 0 for any other value."""
    return value if isinstance(value, int) else 0


def _kind(destination: str) -> Node:
    scheme, _, name = destination.partition("://")
    return {
        "DestinationName": name,
        "DestinationQueue": scheme.endswith("queue"),
        "DestinationTopic": scheme.endswith("topic"),
        "DestinationTemporary": scheme.startswith("temp-"),
    }


def _octets(hexadecimal: object) -> list[int]:
    """Return the bytes of a text as Java's signed numbers."""
    return [octet - 256 if octet > 127 else octet for octet in bytes.fromhex(str(hexadecimal))]


def _date(wall_ms: int) -> str:
    return time.strftime(DATE, time.localtime(wall_ms / 1000))
