"""What a discovered URI may say: a host and a port of a broker that speaks OpenWire, and how long it may be silent.

Whoever is in reach of the group can make one up. So nothing else in it counts: no nested URI, no user, no path, no
option but one of the wire format, within bounds. What is encrypted, and whom to believe, is said by the configuration.
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
DEFAULT_INACTIVITY_MS: Final = 30_000  # ActiveMQ's
MIN_INACTIVITY_MS: Final = 1_000  # a stranger must not make this side send keep-alives all the time …
MAX_INACTIVITY_MS: Final = 300_000  # … nor hold a dead connection for ever
MAX_DIGITS: Final = 9


@dataclass(frozen=True)
class DiscoveredAddress:
    """Where a discovered broker says that it listens."""

    scheme: str
    host: str
    port: int
    max_inactivity_ms: int = DEFAULT_INACTIVITY_MS

    @property
    def is_encrypted(self) -> bool:
        """Whether it is to be reached by TLS."""
        return self.scheme in ENCRYPTED

    @property
    def uri(self) -> str:
        """``scheme://host:port``, whatever else was said."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def read_address(text: str) -> DiscoveredAddress | None:
    """The address in a discovered URI; None for what is none, or of a transport that brokers do not use together."""
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
