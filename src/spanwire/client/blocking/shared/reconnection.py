"""Connects to a broker of the URL, and returns to a preferred broker (``priorityBackup``).

The lock of the connection is held, but for waits and while sockets are opened.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from spanwire.client.addressing.address import BrokerAddress
from spanwire.client.blocking.shared.channel import open_channel
from spanwire.client.io.environment import find_brokers
from spanwire.client.protocol.transport.failover import Failover
from spanwire.model.errors import AuthenticationError, ConfigurationError, JmsError

if TYPE_CHECKING:
    from spanwire.client.blocking.shared.core_connection import CoreConnection


def establish(connection: CoreConnection, is_startup: bool) -> None:
    """Try addresses until a broker accepts the login. Raises `JmsError` or `ConfigurationError`."""
    failover = connection.core.failover
    while not connection.is_over:
        if failover.needs_discovery and not discover(connection, failover):
            continue
        address = failover.next_address()
        if address is None:
            raise failover.exhausted_error()
        connection.pause_until(failover.due_at())
        error = connection.connect(address)
        if error is None:
            if failover.probe_at() is not None:
                start_probe(connection)
            return
        if is_startup and isinstance(error, AuthenticationError):
            raise error
        failover.on_failed(error, connection.machine.now().monotonic)


def discover(connection: CoreConnection, failover: Failover) -> bool:
    """Look for announced brokers. Returns False if the search failed."""
    url, group = connection.core.url, connection.core.url.group
    connection.pause_until(failover.due_at())
    connection.lock.release()
    addresses: tuple[BrokerAddress, ...] = ()
    failure: JmsError | None = None
    try:
        addresses = () if group is None else find_brokers(url, group, connection.tls)
    except JmsError as error:
        failure = error
    finally:
        connection.lock.acquire()
    if failure is not None:
        failover.on_failed(failure, connection.machine.now().monotonic)
        return False
    failover.set_addresses(addresses)
    return True


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
