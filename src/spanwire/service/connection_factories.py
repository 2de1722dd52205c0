"""Factories of the broker's connections, one for each protocol of a connector."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.model.environment import Time
from spanwire.network.bridge.duplex_bridge import DuplexAcceptor
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.transports.base import ConnectionFactory

ConnectionClass = Callable[[Broker, ConnectionSettings, Time], ProtocolConnection]
LinkedConnectionClass = Callable[[Broker, ConnectionSettings, Time, DuplexAcceptor], ProtocolConnection]


def connection_factories(
    protocols: Iterable[str], broker: Broker, acceptor: DuplexAcceptor
) -> dict[str, ConnectionFactory]:
    """Return the connection factory of each protocol."""
    return {protocol: connection_factory(protocol, broker, acceptor) for protocol in protocols}


def connection_factory(protocol: str, broker: Broker, acceptor: DuplexAcceptor) -> ConnectionFactory:
    """Return the connection factory of a protocol; ``acceptor`` takes duplex links of other brokers."""
    if protocol == registry.NETWORK_PROTOCOL:
        linked_class = cast(LinkedConnectionClass, registry.load(registry.PROTOCOLS[protocol]))
        return lambda settings, now: linked_class(broker, settings, now, acceptor)
    connection_class = cast(ConnectionClass, registry.load(registry.PROTOCOLS[protocol]))
    return lambda settings, now: connection_class(broker, settings, now)
