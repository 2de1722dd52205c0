"""The families of beans, with the properties of the names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from spanwire.management.beans.bean import BROKER_KEYS, Bean, Family
from spanwire.management.beans.kinds.client_beans import (
    connection_beans,
    connector_beans,
    consumer_beans,
    dynamic_producer_beans,
    producer_beans,
)
from spanwire.management.beans.kinds.destination_beans import destination_beans
from spanwire.management.beans.kinds.network_beans import (
    jms_bridge_beans,
    link_destination_beans,
    network_bridge_beans,
    network_connector_beans,
)
from spanwire.management.beans.kinds.service_beans import (
    branch_beans,
    health_beans,
    logging_beans,
    scheduler_beans,
    store_beans,
    strategy_beans,
)
from spanwire.management.beans.source import BeanSource


def _family(load: Callable[[BeanSource, str], Awaitable[list[Bean]]], *keys: str, named: str = "") -> Family:
    return Family(frozenset({*BROKER_KEYS, *keys}), load, named)


ENDPOINT: Final = ("destinationType", "destinationName", "endpoint", "clientId")
DESTINATION_FAMILY: Final = _family(destination_beans, "destinationType", "destinationName")
CONSUMER_FAMILY: Final = _family(consumer_beans, *ENDPOINT, "consumerId")
PRODUCER_FAMILY: Final = _family(producer_beans, *ENDPOINT, "producerId")
DYNAMIC_FAMILY: Final = _family(dynamic_producer_beans, "endpoint", "clientId", "producerId")
FAMILIES: Final = (
    _family(connector_beans, "connector", "connectorName"),
    _family(connection_beans, "connector", "connectorName", "connectionViewType", "connectionName"),
    DESTINATION_FAMILY,
    CONSUMER_FAMILY,
    PRODUCER_FAMILY,
    DYNAMIC_FAMILY,
    _family(network_connector_beans, "connector", "networkConnectorName"),
    _family(network_bridge_beans, "connector", "networkConnectorName", "networkBridge"),
    _family(
        link_destination_beans,
        "connector",
        "networkConnectorName",
        "networkBridge",
        "direction",
        "destinationType",
        "destinationName",
        named="direction",
    ),
    _family(jms_bridge_beans, "connector", "jmsConnectors"),
    _family(branch_beans, "transactionType", "xid"),
    _family(scheduler_beans, "service", "name"),
    _family(health_beans, "service"),
    _family(logging_beans, "service"),
    _family(store_beans, "service", "instanceName"),
    _family(strategy_beans, "service", "instanceName"),
)
