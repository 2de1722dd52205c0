"""Connects to a broker of the URL, and returns to a preferred broker (``priorityBackup``)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spanwire.client.addressing.address import BrokerAddress
from spanwire.client.aio.shared.wire import open_wire
from spanwire.client.io.environment import find_brokers
from spanwire.client.protocol.transport.failover import Failover
from spanwire.model.errors import AuthenticationError, ConfigurationError, JmsError

if TYPE_CHECKING:
    from spanwire.client.aio.shared.core_connection import CoreConnection


async def establish(connection: CoreConnection, is_startup: bool) -> None:
    """Try addresses until a broker accepts the login. Raises `JmsError` or `ConfigurationError`."""
    failover = connection.core.failover
    while True:
        if failover.needs_discovery and not await discover(connection, failover):
            continue
        address = failover.next_address()
        if address is None:
            raise failover.exhausted_error()
        delay = failover.due_at() - connection.machine.now().monotonic
        if delay > 0:
            await asyncio.sleep(delay)
        error = await connection.connect(address)
        if error is None:
            if failover.probe_at() is not None:
                connection.start_probe()
            return
        if is_startup and isinstance(error, AuthenticationError):
            raise error
        failover.on_failed(error, connection.machine.now().monotonic)


async def discover(connection: CoreConnection, failover: Failover) -> bool:
    """Look for announced brokers. Returns False if the search failed."""
    url, group = connection.core.url, connection.core.url.group
    delay = failover.due_at() - connection.machine.now().monotonic
    if delay > 0:
        await asyncio.sleep(delay)
    try:
        failover.set_addresses(
            () if group is None else await asyncio.to_thread(find_brokers, url, group, connection.tls)
        )
    except JmsError as error:
        failover.on_failed(error, connection.machine.now().monotonic)
        return False
    return True


async def probe_preferred(connection: CoreConnection) -> None:
    """Try a preferred broker at intervals, and move the connection there outside of a transaction."""
    failover, wire = connection.core.failover, connection.wire
    while connection.wire is wire and (due := failover.probe_at()) is not None:
        remaining = due - connection.machine.now().monotonic
        if remaining > 0:
            await asyncio.sleep(remaining)
            continue
        address = failover.next_probe(connection.machine.now().monotonic)
        if await can_open(connection, address) and connection.wire is wire and not connection.core.is_in_transaction:
            connection.prefer(address)
            return


async def can_open(connection: CoreConnection, address: BrokerAddress) -> bool:
    """Return True if ``address`` accepts a socket, with TLS if the URL asks for TLS."""
    try:
        async with asyncio.timeout(address.settings.connect_timeout_ms / 1000):
            wire = await open_wire(connection, address, connection.tls)
    except (OSError, UnicodeError, JmsError, ConfigurationError):
        return False
    wire.abort()
    return True
