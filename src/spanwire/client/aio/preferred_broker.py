"""Return of an asyncio connection to a preferred broker (``priorityBackup``)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spanwire.client.addressing.address import BrokerAddress
from spanwire.client.aio.wire import open_wire
from spanwire.model.errors import ConfigurationError, JmsError

if TYPE_CHECKING:
    from spanwire.client.aio.core_connection import CoreConnection


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
