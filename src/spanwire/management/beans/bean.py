"""A bean with attributes, a family of beans, and ActiveMQ's names of both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from spanwire.management.beans.executions import Node
from spanwire.management.beans.names import DOMAIN, quoted
from spanwire.management.beans.source import BeanSource
from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.view_table import type_of

TYPES: Final = {"queue": "Queue", "topic": "Topic", "temp-queue": "TempQueue", "temp-topic": "TempTopic"}
BROKER_KEYS: Final = ("type", "brokerName")
Row = Mapping[str, object]
Detail = Callable[[BeanSource, str], Awaitable[Node]]


@dataclass(frozen=True, slots=True)
class Bean:
    """One object under a name, with attributes.

    ``kind`` chooses the operations, and ``subject`` are the arguments of the operations. ``detail`` returns attributes
    for the reading of a single bean only.
    """

    name: str
    attributes: Node
    kind: str = ""
    subject: Node | None = None
    detail: Detail | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """All beans with the properties ``keys`` in the name beside the properties of the broker.

    ``load`` gets the source of rows and the name of the broker's bean. A pattern finds a family of very many beans only
    with the property ``named``.
    """

    keys: frozenset[str]
    load: Callable[[BeanSource, str], Awaitable[list[Bean]]]
    named: str = ""


def broker_name(name: str) -> str:
    """Return the name of the broker's bean, the prefix of all other names."""
    return f"{DOMAIN}:type=Broker,brokerName={quoted(name)}"


def connector_name(broker: str, name: str) -> str:
    """Return the name of a transport connector's bean."""
    return f"{broker},connector=clientConnectors,connectorName={quoted(name)}"


def network_name(broker: str, row: Row) -> str:
    """Return the name of a network connector's bean, for the connector's row or the row of a link."""
    kind = "duplexNetworkConnectors" if row.get("accepted") else "networkConnectors"
    return f"{broker},connector={kind},networkConnectorName={quoted(str(row['name']))}"


def destination_name(broker: str, row: Row) -> str:
    """Return the name of a queue's or topic's bean."""
    return f"{broker},destinationType={TYPES[type_of(row)]},destinationName={quoted(short(row))}"


def consumer_name(broker: str, row: Row) -> str:
    """Return the name of a consumer's bean; a durable consumer has the name of the subscription."""
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
    """Return the name of a destination without the scheme."""
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


def kind_of(destination: str) -> Node:
    """Return the attributes for the destination of a consumer or producer."""
    scheme, _, name = destination.partition("://")
    return {
        "DestinationName": name,
        "DestinationQueue": scheme.endswith("queue"),
        "DestinationTopic": scheme.endswith("topic"),
        "DestinationTemporary": scheme.startswith("temp-"),
    }


def strategy_name(broker: str, name: object) -> str:
    """Return the name of the bean of a strategy for slow consumers; ``name`` is its policy entry."""
    return f"{broker},service=SlowConsumerStrategy,instanceName={quoted(str(name))}"


def bean_word(word: str) -> str:
    """Return the name of a parameter as an attribute's name."""
    return word[:1].upper() + word[1:]


def number(value: object) -> int:
    """Return a whole number, 0 for any other value."""
    return value if isinstance(value, int) else 0


def connection_names(broker: str, row: Row) -> list[str]:
    """Return both names of a connection; one without a client id has the second alone."""
    connector = connector_name(broker, str(row["connector"]))
    views = [("clientId", row["client_id"]), ("remoteAddress", row["remote_address"])]
    return [
        f"{connector},connectionViewType={view},connectionName={quoted(str(value))}" for view, value in views if value
    ]
