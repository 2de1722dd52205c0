"""Limits on the number of connections, and on the bytes of all half-received frames together."""

from __future__ import annotations

import ipaddress
from typing import Final

from spanwire.transports.base import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS

OVERRUN_PERCENT: Final = 200  # of the receive budget; above, connections are closed: many have begun small frames


class Admission:
    """Counts the open sockets of all connectors, in total and by remote host. The caller closes sockets."""

    def __init__(
        self, max_connections: int = MAX_CONNECTIONS, max_connections_per_address: int = MAX_CONNECTIONS_PER_ADDRESS
    ) -> None:
        self._max_connections: Final = max_connections
        self._max_connections_per_address: Final = max_connections_per_address
        self._by_host: Final[dict[str, int]] = {}
        self.count = 0

    def enter(self, host: str) -> str | None:
        """Count a new socket from ``host``.

        Returns:
            None, or the reason why the socket must be closed; then the socket is not counted.
        """
        if self.count >= self._max_connections:
            return f"{self.count} connections are open, the limit of this broker"
        host_count = self._by_host.get(host, 0)
        if host_count >= self._max_connections_per_address and not is_loopback(host):
            return f"{host_count} connections of {host} are open, the limit for one address"
        self._by_host[host] = host_count + 1
        self.count += 1
        return None

    def leave(self, host: str) -> None:
        """Remove a counted socket of ``host``."""
        self.count -= 1
        host_count = self._by_host[host] - 1
        if host_count:
            self._by_host[host] = host_count
        else:
            del self._by_host[host]


class ReceiveBudget:
    """Counts the bytes of incomplete frames over all connections against a limit.

    A limit of 0 means no limit. `Rationing` acts when the limit is exceeded.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes: Final = limit_bytes
        self.used_bytes = 0
        self._pending: Final[dict[object, int]] = {}

    def set_pending(self, holder: object, pending_bytes: int) -> None:
        """Set the bytes of ``holder``'s incomplete frame to ``pending_bytes``."""
        before = self._pending.pop(holder, 0)
        if pending_bytes:
            self._pending[holder] = pending_bytes
        self.used_bytes += pending_bytes - before

    def pending(self, holder: object) -> int:
        """Return the bytes of ``holder``'s incomplete frame."""
        return self._pending.get(holder, 0)

    def holders(self) -> list[object]:
        """Return all holders of bytes, in the order of their last change."""
        return list(self._pending)

    def is_exceeded(self) -> bool:
        """Return True if the bytes together exceed the limit."""
        return 0 < self.limit_bytes < self.used_bytes

    def is_overrun_without(self, holder: object) -> bool:
        """Return True if the other holders together exceed `OVERRUN_PERCENT` of the limit."""
        return 0 < self.limit_bytes * OVERRUN_PERCENT < (self.used_bytes - self.pending(holder)) * 100

    def largest(self, other_than: object) -> object:
        """Return the holder of the most bytes except ``other_than``; None if no other holder has any."""
        holder_of_most: object = None
        most = 0
        for holder, pending in self._pending.items():
            if pending > most and holder is not other_than:
                holder_of_most = holder
                most = pending
        return holder_of_most


def is_loopback(host: str) -> bool:
    """Return True if an IP address stays on the machine; False for other text."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
