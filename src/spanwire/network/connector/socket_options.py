"""Options of one remote address for socket and wire format."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """The options of an address beyond host and port.

    A ``connect_timeout_ms`` of 0 leaves the timeout to the connector, a ``buffer_size`` of 0 leaves both buffers to the
    system. ``traffic_class`` is an octet of the IP header, 0 leaves it to the system.
    """

    connect_timeout_ms: int = 0
    tcp_no_delay: bool = True
    keep_alive: bool = False
    buffer_size: int = 0
    traffic_class: int = 0
    wire_format: WireFormatPreferences = field(default_factory=WireFormatPreferences)

    def tune(self, connected: socket.socket) -> None:
        """Set the options on a connected socket."""
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(self.tcp_no_delay))
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(self.keep_alive))
        if self.traffic_class > 0 and connected.family == socket.AF_INET6:
            connected.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, self.traffic_class)
        elif self.traffic_class > 0:
            connected.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, self.traffic_class)
        if self.buffer_size > 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.buffer_size)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.buffer_size)
