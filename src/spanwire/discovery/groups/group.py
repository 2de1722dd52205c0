"""Settings of a multicast group: ``multicast://host:port?group=name`` (ActiveMQ, Multicast Transport)."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from spanwire.discovery.addresses.reconnect import OPTIONS as RECONNECT_OPTIONS
from spanwire.discovery.groups.agent_names import MULTICAST, OPTIONS
from spanwire.discovery.groups.beacon import DEFAULT_GROUP, check_group
from spanwire.model.errors import ConfigurationError

DEFAULT_HOST: Final = "239.255.2.3"
DEFAULT_PORT: Final = 6_155
ANY_HOST: Final = "default"  # multicast://default stands for the default address
KEEP_ALIVE_MS: Final = 500
BY_CARD: Final = ("networkInterface", "joinNetworkInterface")  # options that name a card in place of its address
MAX_KEEP_ALIVE_MS: Final = 3_600_000
NAME: Final = re.compile(r"[A-Za-z][\w-]*", re.ASCII)  # a group in place of the host, without address and port


@dataclass(frozen=True)
class MulticastSettings:
    """The address and the options of a multicast group.

    ``interface`` is the address of the network card, "" for the system's choice. A time to live of 1 stays in the local
    network. ``loopback`` lets other processes of the same machine receive.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    group: str = DEFAULT_GROUP
    keep_alive_ms: int = KEEP_ALIVE_MS
    time_to_live: int = 1
    loopback: bool = True
    interface: str = ""

    @property
    def description(self) -> str:
        """The group as text for messages."""
        return f"group {self.group} at {self.host}:{self.port}"


def parse_multicast(text: str) -> MulticastSettings:
    """Return the settings in ``multicast://host:port?group=name``. Raises `ConfigurationError`.

    ``multicast://default`` is the default address, ``multicast://NAME`` a group at this address. Reconnect options are
    accepted and left to other readers.
    """
    parts = urlsplit(text.strip())
    try:
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"the port in {text!r} is no number from 1 to 65535") from error
    if parts.scheme != MULTICAST or not parts.hostname:
        raise ConfigurationError(f"{text!r} is no address of the multicast agent; write multicast://default?group=NAME")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in BY_CARD:
        if name in options:
            raise ConfigurationError(f"{name} names a network card; write interface=ADDRESS, its IPv4 address")
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
        loopback=options.get("loopBackMode", "false").lower() != "true",  # Java: true disables the loopback
        interface=_interface(options.get("interface") or options.get("mcInterface", "")),
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
            raise ConfigurationError(f"interface={text!r} is no IPv4 address of this machine") from error
    return text


def _number(options: dict[str, str], name: str, default: int, lowest: int, highest: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not lowest <= int(text) <= highest:
        raise ConfigurationError(f"{name}={text!r} is no number from {lowest} to {highest}")
    return int(text)
