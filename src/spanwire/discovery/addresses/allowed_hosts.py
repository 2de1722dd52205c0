"""The hosts for gossip: networks such as ``10.1.0.0/16``, and name patterns such as ``*.example.org``.

Brokers tell each other addresses. Without a bound, one broker could make the others connect to any reachable host and
port. Pure; no name is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from spanwire.model.errors import ConfigurationError

MAX_ENTRIES: Final = 64  # entries of one list; each address is compared with all of them
PATTERN: Final = re.compile(r"[A-Za-z0-9_*](?:[A-Za-z0-9_.*\-]{0,252})", re.ASCII)
# Resolvers read 127.1, 2130706433 and 0x7f.1 as addresses, and so does nothing here: the last label of a name has to
# begin with a letter.
NAME: Final = re.compile(r"(?:[A-Za-z0-9_\-]+\.)*[A-Za-z_][A-Za-z0-9_\-]*\.?", re.ASCII)
LOCALHOST: Final = "localhost"
LOOPBACK: Final = ("localhost", "127.0.0.0/8", "::1/128")
NEAR_V4: Final = 24  # bits of the network of a seed that is given by its address
NEAR_V6: Final = 64


class AllowedHosts:
    """Decides whether a host may be linked. Raises `ConfigurationError` for an invalid entry."""

    def __init__(self, entries: Sequence[str]) -> None:
        if len(entries) > MAX_ENTRIES:
            raise ConfigurationError(f"networks of gossip: has {len(entries)} entries; at most {MAX_ENTRIES}")
        self._networks: Final[list[IPv4Network | IPv6Network]] = []
        self._names: Final[list[re.Pattern[str]]] = []
        for entry in entries:
            network = _network(entry)
            if network is not None:
                self._networks.append(network)
            elif PATTERN.fullmatch(entry) is not None and not entry.replace(".", "").isdecimal():
                labels = re.escape(entry.lower()).replace(r"\*", r"[a-z0-9_\-]*")
                self._names.append(re.compile(labels))
            else:
                raise ConfigurationError(
                    f"networks of gossip: {entry[:60]!r} is no network and no pattern of host names; "
                    "write 10.1.0.0/16 or *.example.org"
                )

    def allows(self, host: str) -> bool:
        """Return True for a host in an allowed network or with an allowed name; ``*`` is a part of a label."""
        address = _address(host)
        if address is not None:
            return any(address in network for network in self._networks)
        if NAME.fullmatch(host) is None:
            return False
        name = host.lower().removesuffix(".")
        return any(pattern.fullmatch(name) is not None for pattern in self._names)


def networks_of(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the networks around seeds.

    The network is the /24 or /64 of an address, the domain of a name, the local machine for loopback.

    Raises:
        ConfigurationError: a name has no domain, so the other hosts would have no bound
    """
    found: dict[str, None] = {}
    for host in hosts:
        address = _address(host)
        if host.lower() == LOCALHOST or (address is not None and address.is_loopback):
            found.update(dict.fromkeys(LOOPBACK))
        elif address is not None:
            bits = NEAR_V4 if isinstance(address, IPv4Address) else NEAR_V6
            found[str(ip_network((address, bits), strict=False))] = None
        else:
            _, dot, domain = host.removesuffix(".").partition(".")
            if not dot:
                raise ConfigurationError(
                    f"gossip: needs networks=…, the hosts that may be linked, because {host[:60]} is in no domain; "
                    "write networks=broker* or networks=10.1.0.0/16"
                )
            found[f"*.{domain.lower()}"] = None
    return tuple(found)


def _network(entry: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(entry)
    except ValueError:
        return None


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
