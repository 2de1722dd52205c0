"""Who may still connect, and how much all half-received frames together may hold."""

from __future__ import annotations

import ipaddress
from typing import Final

from spanwire.transports.base import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS


class Admission:
    """Counts the open sockets of all connectors, in total and by remote host. Leaves closing to the caller."""

    def __init__(
        self, max_connections: int = MAX_CONNECTIONS, max_connections_per_address: int = MAX_CONNECTIONS_PER_ADDRESS
    ) -> None:
        self._max_connections: Final = max_connections
        self._max_connections_per_address: Final = max_connections_per_address
        self._by_host: Final[dict[str, int]] = {}
        self.count = 0

    def enter(self, host: str) -> str | None:
        """Count a new socket from ``host``; or the reason why it must be closed, and then it is not counted."""
        if self.count >= self._max_connections:
            return f"{self.count} connections are open, the limit of this broker"
        of_host = self._by_host.get(host, 0)
        if of_host >= self._max_connections_per_address and not is_loopback(host):
            return f"{of_host} connections of {host} are open, the limit for one address"
        self._by_host[host] = of_host + 1
        self.count += 1
        return None

    def leave(self, host: str) -> None:
        """A counted socket is gone."""
        self.count -= 1
        of_host = self._by_host[host] - 1
        if of_host:
            self._by_host[host] = of_host
        else:
            del self._by_host[host]


class ReceiveBudget:
    """Bytes of incomplete frames over all connections, against one limit. A limit of 0 means none.

    Over the limit the connection that holds most has to go (`largest`): a peer that only ever begins frames loses its
    own connection first.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes: Final = limit_bytes
        self.used_bytes = 0
        self._held: Final[dict[object, int]] = {}

    def hold(self, holder: object, pending_bytes: int) -> None:
        """``holder`` has ``pending_bytes`` of an incomplete frame now."""
        before = self._held.pop(holder, 0)
        if pending_bytes:
            self._held[holder] = pending_bytes
        self.used_bytes += pending_bytes - before

    def is_exceeded(self) -> bool:
        """Whether somebody has to go."""
        return 0 < self.limit_bytes < self.used_bytes

    def largest(self) -> object:
        """Who holds most."""
        return max(self._held, key=lambda holder: self._held[holder])


def is_loopback(host: str) -> bool:
    """Whether an IP address stays on this machine; False for anything that is no address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
