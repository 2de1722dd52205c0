"""Who may still connect, and how much all half-received frames together may hold."""

from __future__ import annotations

import ipaddress
from typing import Final

from spanwire.transports.base import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS

OVERRUN_PERCENT: Final = 200  # of the receive budget, above which a connection has to go: many have begun small frames


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
        host_count = self._by_host.get(host, 0)
        if host_count >= self._max_connections_per_address and not is_loopback(host):
            return f"{host_count} connections of {host} are open, the limit for one address"
        self._by_host[host] = host_count + 1
        self.count += 1
        return None

    def leave(self, host: str) -> None:
        """A counted socket is gone."""
        self.count -= 1
        host_count = self._by_host[host] - 1
        if host_count:
            self._by_host[host] = host_count
        else:
            del self._by_host[host]


class ReceiveBudget:
    """Bytes of incomplete frames over all connections, against one limit. A limit of 0 means none. What happens over
    the limit is left to `Rationing`.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes: Final = limit_bytes
        self.used_bytes = 0
        self._pending: Final[dict[object, int]] = {}

    def set_pending(self, holder: object, pending_bytes: int) -> None:
        """``holder`` has ``pending_bytes`` of an incomplete frame now."""
        before = self._pending.pop(holder, 0)
        if pending_bytes:
            self._pending[holder] = pending_bytes
        self.used_bytes += pending_bytes - before

    def pending(self, holder: object) -> int:
        """What ``holder`` has."""
        return self._pending.get(holder, 0)

    def holders(self) -> list[object]:
        """All that have something, in the order in which they got theirs."""
        return list(self._pending)

    def is_exceeded(self) -> bool:
        """Whether there is more than the limit."""
        return 0 < self.limit_bytes < self.used_bytes

    def is_overrun_without(self, holder: object) -> bool:
        """Whether the others have more than `OVERRUN_PERCENT` of the limit."""
        return 0 < self.limit_bytes * OVERRUN_PERCENT < (self.used_bytes - self.pending(holder)) * 100

    def largest(self, other_than: object) -> object:
        """Who holds most, but for one; None when nobody else holds anything."""
        holder_of_most: object = None
        most = 0
        for holder, pending in self._pending.items():
            if pending > most and holder is not other_than:
                holder_of_most = holder
                most = pending
        return holder_of_most


def is_loopback(host: str) -> bool:
    """Whether an IP address stays on this machine; False for anything that is no address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
