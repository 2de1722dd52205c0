"""Connections of the OpenWire provider: without reconnects, because the bridge opens a new link."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.addresses import tls_settings
from spanwire.client.addressing.address import BrokerUrl, parse_url
from spanwire.client.addressing.reconnect_policy import NO_RECONNECT
from spanwire.client.addressing.redaction import redacted
from spanwire.client.addressing.redelivery_policy import NO_LIMIT
from spanwire.client.aio.connection import Connection
from spanwire.client.aio.shared.core_connection import CoreConnection
from spanwire.client.io.environment import Machine
from spanwire.client.protocol.connection import ClientConnection
from spanwire.model.errors import AuthenticationError, ConfigurationError, InvalidClientIdError, JmsError
from spanwire.protocols.openwire.codec.wire_format import PROVIDER_NAME

CLOSE_TIMEOUT_MS: Final = 2_000  # milliseconds; a broker that is silent must not hold up the next attempt


async def connect(factory: ConnectionFactory, client_id: str | None = None) -> Connection:
    """Connect and log in; with ``failover:`` each address is tried once.

    Raises:
        JmsError: no broker accepts the connection.
        ConfigurationError: the URL is wrong, or a store cannot be read.
    """
    machine = Machine()
    shared = CoreConnection(ClientConnection(bridge_url(factory, client_id), machine), machine, tls_settings(factory))
    try:
        await shared.open()
    except (AuthenticationError, InvalidClientIdError) as error:  # the broker's text does not name the broker
        raise type(error)(f"{redacted(factory.url)}: {error}") from None
    return Connection(shared)


def is_artemis(connection: Connection) -> bool:
    """Return True if an open connection leads to ActiveMQ Artemis: its BrokerInfo has an address without a scheme."""
    url = connection.shared.core.broker_url
    return url is not None and ":" in url and "://" not in url


def is_classic(connection: Connection) -> bool:
    """Return True if an open connection leads to ActiveMQ Classic: to neither Artemis nor Spanwire."""
    link = connection.shared.core.correlator.link
    is_spanwire = link is not None and link.wire_format.provider_name == PROVIDER_NAME
    return not is_spanwire and not is_artemis(connection)


async def close(connection: Connection) -> None:
    """Close a connection, lost or not."""
    with contextlib.suppress(JmsError):
        await connection.close()


def bridge_url(factory: ConnectionFactory, client_id: str | None) -> BrokerUrl:
    """Return the parsed URL with the settings for a bridge.

    Redeliveries have no limit, because the client would move a message to the dead letter queue without the bridge. The
    client sorts nothing by priority, because a bridge acknowledges ranges of what the broker has sent in its order.

    Raises:
        ConfigurationError: the URL is wrong, or stores are given for a URL without TLS.
    """
    password = None if factory.password is None else factory.password.reveal()
    url = parse_url(factory.url, factory.user_name, password, client_id)
    if tls_settings(factory) is not None and not url.may_use_tls:
        raise ConfigurationError(f"{redacted(factory.url)} has no TLS, so it needs no store; write ssl://host:port")
    settings = replace(
        url.settings,
        redelivery=replace(url.settings.redelivery, maximum_redeliveries=NO_LIMIT),
        message_priority=False,
        optimize_acknowledge=False,
        scheduled_acknowledge_ms=0,
        close_timeout_ms=CLOSE_TIMEOUT_MS,
    )
    return replace(url, settings=settings, reconnect=replace(NO_RECONNECT, randomize=url.reconnect.randomize))
