"""TCP sockets: binding a listener, and the options of accepted sockets."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Final

from spanwire.transports.base import ConnectorSettings, TransportError

ANY_HOST: Final = "0.0.0.0"


async def resolve(settings: ConnectorSettings) -> list[tuple[socket.AddressFamily, str]]:
    """Return the addresses of a connector's host, IPv4 first.

    Raises:
        TransportError: the host has no address
    """
    host = settings.host or ANY_HOST
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, settings.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise TransportError(
            f"connector {settings.name}: the host of {settings.uri()} is unknown ({_reason(error)}); correct the uri"
        ) from error
    addresses = list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in infos))
    return sorted(addresses, key=lambda item: item[0] != socket.AF_INET)


def bind(settings: ConnectorSettings, family: socket.AddressFamily, host: str) -> socket.socket:
    """Return a socket that is bound to the connector's port.

    Raises:
        TransportError: the port cannot be taken; the text names the port and the remedy
    """
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if settings.socket_buffer_size > 0:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.socket_buffer_size)
        listener.bind((host, settings.port))
    except OSError as error:
        listener.close()
        raise bind_error(settings, error) from error
    return listener


def bind_error(settings: ConnectorSettings, error: OSError) -> TransportError:
    """Return the error for a socket unable to listen, with cause and remedy in one line."""
    if error.errno == errno.EADDRINUSE:
        cause = f"port {settings.port} is in use; stop what listens there or change the uri"
    elif error.errno in (errno.EACCES, errno.EPERM):
        cause = f"no permission for port {settings.port}; choose one above 1023"
    elif error.errno == errno.EADDRNOTAVAIL:
        cause = f"{settings.host} is no address of this machine; correct the uri"
    else:
        cause = _reason(error)
    return TransportError(f"connector {settings.name}: cannot listen at {settings.uri()}: {cause}")


def tune(accepted: socket.socket, settings: ConnectorSettings) -> None:
    """Set the options of an accepted socket, from the connector's URI."""
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(settings.tcp_no_delay))
    if settings.traffic_class > 0 and accepted.family == socket.AF_INET6:
        accepted.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, settings.traffic_class)
    elif settings.traffic_class > 0:
        accepted.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, settings.traffic_class)
    if settings.socket_buffer_size > 0:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.socket_buffer_size)
    if settings.keep_alive:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.args[-1] if error.args and isinstance(error.args[-1], str) else type(error).__name__
