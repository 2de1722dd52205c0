"""The schemes of discovery agents and the options of a group, without the agents' settings."""

from __future__ import annotations

from typing import Final

MULTICAST: Final = "multicast"
ZEROCONF: Final = "zeroconf"
RENDEZVOUS: Final = "rendezvous"  # the former name of zeroconf
FABRIC: Final = "fabric"
HTTP: Final = ("http", "https")  # schemes of a registry's URL
AGENTS: Final = (MULTICAST, ZEROCONF, RENDEZVOUS, FABRIC, *HTTP)
OPTIONS: Final = (
    "group",
    "keepAliveInterval",
    "timeToLive",
    "loopBackMode",
    "mcInterface",
    "interface",
)  # of multicast
