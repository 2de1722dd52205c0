"""The multicast agent: brokers announce their connectors to a group address, everybody there hears them
(ActiveMQ, Multicast Transport). Packets are those of ActiveMQ's own agent; each finds the other.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
import struct
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from spanwire.discovery.beacon import DEFAULT_GROUP, Beacon, check_group, decode_beacon
from spanwire.discovery.reconnect import OPTIONS as RECONNECT_OPTIONS
from spanwire.discovery.reconnect import ReconnectSettings
from spanwire.discovery.sightings import FAILED_SIGHTING, DiscoveryListener, Sightings
from spanwire.model.errors import ConfigurationError

SCHEME: Final = "multicast"
DEFAULT_HOST: Final = "239.255.2.3"
DEFAULT_PORT: Final = 6_155
ANY_HOST: Final = "default"  # multicast://default stands for the default address
KEEP_ALIVE_MS: Final = 500
MAX_ANNOUNCED: Final = 100  # connectors of one broker
MAX_KEEP_ALIVE_MS: Final = 3_600_000
OPTIONS: Final = ("group", "keepAliveInterval", "timeToLive", "loopBackMode", "mcInterface")

NAME: Final = re.compile(r"[A-Za-z][\w-]*", re.ASCII)  # a group in place of the host: neither address nor port

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class MulticastSettings:
    """Where a group meets. ``interface`` is the address of the network card, "" for the system's choice; a time to live
    of 1 stays in the local network. ``loopback`` lets other processes of the same machine hear.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    group: str = DEFAULT_GROUP
    keep_alive_ms: int = KEEP_ALIVE_MS
    time_to_live: int = 1
    loopback: bool = True
    interface: str = ""


def parse_multicast(text: str) -> MulticastSettings:
    """Takes ``multicast://host:port?group=name`` apart; ``multicast://default`` is the default address, and there
    ``multicast://NAME`` is the group of that name. Options that say when to try again are left to others. Raises
    `ConfigurationError`.
    """
    parts = urlsplit(text.strip())
    try:
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"the port in {text!r} is no number from 1 to 65535") from error
    if parts.scheme != SCHEME or not parts.hostname:
        raise ConfigurationError(f"{text!r} is no address of the multicast agent; write multicast://default?group=NAME")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in OPTIONS and name not in RECONNECT_OPTIONS:
            raise ConfigurationError(f"the multicast agent has no option {name!r}; it knows {', '.join(OPTIONS)}")
    host, group = DEFAULT_HOST, options.get("group", DEFAULT_GROUP)
    if parts.hostname != ANY_HOST:
        if _is_group_address(parts.hostname):
            host = parts.hostname
        elif NAME.fullmatch(parts.netloc) and "group" not in options:
            group = parts.netloc
        else:
            raise ConfigurationError(
                f"{parts.hostname!r} is no multicast address; write multicast://default?group=NAME for a group"
            )
    return MulticastSettings(
        host=host,
        port=port if port is not None else DEFAULT_PORT,
        group=check_group(group),
        keep_alive_ms=_number(options, "keepAliveInterval", KEEP_ALIVE_MS, 1, MAX_KEEP_ALIVE_MS),
        time_to_live=_number(options, "timeToLive", 1, 0, 255),
        loopback=options.get("loopBackMode", "false").lower() != "true",  # Java's name for switching it off
        interface=_interface(options.get("mcInterface", "")),
    )


def _is_group_address(host: str) -> bool:
    try:
        return ipaddress.IPv4Address(host).is_multicast
    except ValueError:
        return False


def _interface(text: str) -> str:
    if text:
        try:
            ipaddress.IPv4Address(text)
        except ValueError as error:
            raise ConfigurationError(f"mcInterface={text!r} is no IPv4 address of this machine") from error
    return text


def _number(options: dict[str, str], name: str, default: int, lowest: int, highest: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not lowest <= int(text) <= highest:
        raise ConfigurationError(f"{name}={text!r} is no number from {lowest} to {highest}")
    return int(text)


class MulticastAgent(asyncio.DatagramProtocol):
    """One member of a group: announces what it is told to and tells a listener who else is there.

    What was found is only a claim of whoever is in reach of the group's address. Without a listener it only announces.
    """

    def __init__(
        self,
        settings: MulticastSettings,
        listener: DiscoveryListener | None = None,
        retry: ReconnectSettings = FAILED_SIGHTING,
    ) -> None:
        self._settings: Final[MulticastSettings] = settings
        self._announced: Final[list[str]] = []
        self._sightings: Final[Sightings | None] = (
            None if listener is None else Sightings(listener, settings.keep_alive_ms / 1000, retry)
        )
        self._transport: asyncio.DatagramTransport | None = None
        self._beat: asyncio.Task[None] | None = None
        self._told_of_trouble = False

    async def start(self) -> None:
        """Join the group; raises `ConfigurationError` when this machine cannot."""
        settings = self._settings
        loop = asyncio.get_running_loop()
        try:
            joined = _join(settings)
        except OSError as error:
            raise ConfigurationError(
                f"cannot join {settings.host}:{settings.port} for discovery: {error.strerror or error}"
            ) from error
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=joined)
        self._beat = loop.create_task(self._beat_on())

    def announce(self, uri: str) -> None:
        """Tell the group of a connector at ``uri``, from now on; raises `ConfigurationError` for too many of them."""
        if len(self._announced) >= MAX_ANNOUNCED:
            raise ConfigurationError(f"a broker announces {MAX_ANNOUNCED} connectors at most")
        self._announced.append(uri)
        self.ignore(uri)
        self._send(Beacon(self._settings.group, uri))

    def ignore(self, uri: str) -> None:
        """This broker is there itself: it is not found."""
        if self._sightings is not None:
            self._sightings.ignore(uri)

    def failed(self, uri: str, lived: float) -> None:
        """What was found there could not be used, or only for ``lived`` seconds."""
        if self._sightings is not None:
            self._sightings.failed(uri, asyncio.get_running_loop().time(), lived)

    def stop(self) -> None:
        """Say farewell and leave the group; may be called twice."""
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
        for uri in self._announced:
            self._send(Beacon(self._settings.group, uri, alive=False))
        self._announced.clear()
        if self._transport is not None:
            self._transport.close()

    async def _beat_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            for uri in self._announced:
                self._send(Beacon(self._settings.group, uri))
            if self._sightings is not None:
                self._sightings.look(loop.time())
            await asyncio.sleep(self._settings.keep_alive_ms / 1000)

    def _send(self, beacon: Beacon) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(beacon.encode(), (self._settings.host, self._settings.port))

    # -- asyncio -------------------------------------------------------------------------------------------------------

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        """Somebody has spoken to the group."""
        if self._sightings is None:
            return
        beacon = decode_beacon(data, self._settings.group)
        if beacon is not None:
            self._sightings.heard(beacon, asyncio.get_running_loop().time())

    def error_received(self, exc: Exception) -> None:
        """A datagram could not be sent: said once, for the next beacon may get through."""
        if not self._told_of_trouble:
            self._told_of_trouble = True
            logger.warning("discovery: %s:%d cannot be reached: %s", self._settings.host, self._settings.port, exc)


def _join(settings: MulticastSettings) -> socket.socket:
    """A socket in the group; several processes of a machine may have one."""
    joined = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        joined.setblocking(False)
        joined.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        joined.bind((settings.host, settings.port))  # not to any address: other groups of this port are not ours
        interface = socket.inet_aton(settings.interface or "0.0.0.0")
        group = struct.pack("4s4s", socket.inet_aton(settings.host), interface)
        joined.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        joined.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        joined.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, settings.time_to_live)
        joined.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, settings.loopback)
    except BaseException:
        joined.close()
        raise
    return joined
