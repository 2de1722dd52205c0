"""Return of a blocking connection to a preferred broker (``priorityBackup``)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from spanwire.client.addressing.address import BrokerAddress
from spanwire.client.blocking.channel import open_channel
from spanwire.model.errors import ConfigurationError, JmsError

if TYPE_CHECKING:
    from spanwire.client.blocking.core_connection import CoreConnection


def start_probe(connection: CoreConnection) -> None:
    """Probe preferred brokers in a daemon thread."""
    threading.Thread(target=probe_preferred, args=(connection,), name="spanwire-client-looker", daemon=True).start()


def probe_preferred(connection: CoreConnection) -> None:
    """Try a preferred broker at intervals, and move the connection there outside of a transaction."""
    failover = connection.core.failover
    with connection.lock:
        epoch = connection.core.correlator.epoch
        while connection.is_current(epoch) and (due := failover.probe_at()) is not None:
            remaining = due - connection.machine.now().monotonic
            if remaining > 0:
                connection.pause(remaining)
                continue
            address = failover.next_probe(connection.machine.now().monotonic)
            connection.lock.release()
            try:
                is_reachable = can_open(connection, address)
            finally:
                connection.lock.acquire()
            if is_reachable and connection.is_current(epoch) and not connection.core.is_in_transaction:
                connection.prefer(address)
                return


def can_open(connection: CoreConnection, address: BrokerAddress) -> bool:
    """Return True if ``address`` accepts a socket, with TLS if the URL asks for TLS."""
    try:
        open_channel(address, connection.tls, address.settings.connect_timeout_ms / 1000).close()
    except (JmsError, ConfigurationError):
        return False
    return True
