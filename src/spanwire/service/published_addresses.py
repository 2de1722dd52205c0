"""Published addresses of connectors: the host in the requested form, looked up once."""

from __future__ import annotations

import logging
import socket
from typing import Final

from spanwire.transports.base import ConnectorSettings
from spanwire.transports.connector import TransportConnector
from spanwire.transports.published_address import DEFAULT, HOST_NAME, IP_ADDRESS, PublishedAddress

logger = logging.getLogger(__name__)

ANY_HOST: Final = ("0.0.0.0", "::", "")  # a connector that listens on all addresses is announced by host name
MAX_LOOKUPS: Final = 100  # hosts that are remembered; a broker has fewer connectors
LOOPBACK: Final = ("127.", "::1")
ELSEWHERE: Final = ("192.0.2.1", 9)  # an address for documentation (RFC 5737); no packet is sent to it
_found: Final[dict[tuple[str, str, str], str]] = {}
_reported: Final[set[tuple[str, str, str]]] = set()  # failures that are in the log


def announced_uri(connector: TransportConnector, host_name: str) -> str:
    """Return the address of an open connector for other machines, with port and usable host name.

    Args:
        connector: the open connector
        host_name: the name of this machine
    """
    return published_uri(connector.settings, connector.port, host_name)


def published_uri(settings: ConnectorSettings, port: int, host_name: str) -> str:
    """Return the address of a connector at ``port`` for other machines.

    The first look-up of a host may wait for the name service.
    """
    published = settings.published or PublishedAddress()
    host = host_name if settings.host in ANY_HOST else settings.host
    if published.strategy != DEFAULT:
        host = _host(settings.host, host_name, published.strategy)
    return published.uri(settings.scheme, host, port)


def _host(listening: str, host_name: str, strategy: str) -> str:
    """Return a host in the form of a strategy; the host itself, with a warning, if the name service fails.

    A failure is not remembered: a broker may start before the network does.
    """
    asked = listening, host_name, strategy
    if asked in _found:
        return _found[asked]
    is_any = listening in ANY_HOST
    host = host_name if is_any else listening
    try:
        found = _looked_up(host, is_any, strategy)
    except OSError as error:
        if asked not in _reported and len(_reported) < MAX_LOOKUPS:
            _reported.add(asked)
            logger.warning("the host %s cannot be looked up, and is announced as it is: %s", host, error)
        return host
    if len(_found) < MAX_LOOKUPS and not (strategy == IP_ADDRESS and is_any and found.startswith(LOOPBACK)):
        _found[asked] = found
    return found


def _looked_up(host: str, is_any: bool, strategy: str) -> str:
    """Return a host in the form of a strategy. Raises `OSError` if the name service fails."""
    if strategy == IP_ADDRESS:
        address = str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
        # Debian maps a machine's own name to 127.0.1.1.
        return _outgoing(address) if is_any and address.startswith(LOOPBACK) else address
    if strategy == HOST_NAME:
        return host if is_any else socket.gethostbyaddr(host)[0]
    return socket.getfqdn(host)


def _outgoing(address: str) -> str:
    """Return the address of the network card to the outside; ``address`` without such a card."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(ELSEWHERE)
        except OSError:
            return address
        return str(probe.getsockname()[0])
