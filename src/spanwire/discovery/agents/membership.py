"""The socket of one member of a multicast group."""

from __future__ import annotations

import socket
import struct

from spanwire.discovery.groups.group import MulticastSettings


def join_group(settings: MulticastSettings) -> socket.socket:
    """Return a non-blocking socket in the group. Raises `OSError`.

    Several processes of one machine may join a group.
    """
    member = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        member.setblocking(False)
        member.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        member.bind((settings.host, settings.port))  # bound to the group's address, to receive no other group
        interface = socket.inet_aton(settings.interface or "0.0.0.0")
        group = struct.pack("4s4s", socket.inet_aton(settings.host), interface)
        member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        member.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        member.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, settings.time_to_live)
        member.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, settings.loopback)
    except BaseException:
        member.close()
        raise
    return member
