"""Reads a discovered URI: host and port of an OpenWire broker, and its inactivity timeout.

Anybody in reach of the group can forge a URI. So nested URIs, users, paths and all other options are refused or
ignored, and numbers are bounded. The configuration decides about encryption and trust.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

PLAIN: Final = ("tcp", "nio", "auto", "auto+nio")
ENCRYPTED: Final = ("ssl", "nio+ssl", "auto+ssl", "auto+nio+ssl")
SCHEMES: Final = (*PLAIN, *ENCRYPTED)
ADDRESS: Final = re.compile(
    r"([a-z+]{1,12})://(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,252})?)):([0-9]{1,5})/?"
    r"(?:\?([^()]*))?",
    re.ASCII,
)
INACTIVITY: Final = "wireFormat.maxInactivityDuration"
DEFAULT_INACTIVITY_MS: Final = 30_000  # ActiveMQ has the same default
MIN_INACTIVITY_MS: Final = 1_000  # limits the keep-alives demanded by a forged address
MAX_INACTIVITY_MS: Final = 300_000  # limits the life of a dead connection to a forged address
MAX_DIGITS: Final = 9


@dataclass(frozen=True)
class DiscoveredAddress:
    """The address announced by a discovered broker."""

    scheme: str
    host: str
    port: int
    max_inactivity_ms: int = DEFAULT_INACTIVITY_MS

    @property
    def is_encrypted(self) -> bool:
        """True if the address is reached by TLS."""
        return self.scheme in ENCRYPTED

    @property
    def uri(self) -> str:
        """The address as ``scheme://host:port``, without options."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def read_address(text: str) -> DiscoveredAddress | None:
    """Return the address in a discovered URI; None for other texts and for unsuitable transports."""
    match = ADDRESS.fullmatch(text)
    if match is None or match.group(1) not in SCHEMES:
        return None
    port = int(match.group(4))
    if not 0 < port <= 65_535:
        return None
    host = match.group(2) or match.group(3)
    return DiscoveredAddress(match.group(1), host, port, _inactivity(match.group(5) or ""))


def _inactivity(query: str) -> int:
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if name == INACTIVITY and value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS:
            return min(max(int(value), MIN_INACTIVITY_MS), MAX_INACTIVITY_MS)
    return DEFAULT_INACTIVITY_MS
