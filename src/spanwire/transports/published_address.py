"""The published address of a connector, by rules for changes of the listening address.

ActiveMQ's ``publishedAddressPolicy``: behind NAT or in a container, other machines cannot reach the listening address
of a connector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT, IP_ADDRESS, HOST_NAME, QUALIFIED_NAME = "default", "ipaddress", "hostname", "fqdn"
STRATEGIES: Final = (DEFAULT, IP_ADDRESS, HOST_NAME, QUALIFIED_NAME)
MAX_MAPPED: Final = 100  # hosts or ports of one policy; far more than a machine has names


@dataclass(frozen=True, slots=True)
class PublishedAddress:
    """Rules for the published address of a connector.

    ``strategy`` chooses the form of the host. ``hosts`` and ``ports`` are pairs of a host or port and its replacement.
    ``query`` are options behind the address.
    """

    strategy: str = DEFAULT
    hosts: tuple[tuple[str, str], ...] = ()
    ports: tuple[tuple[int, int], ...] = ()
    query: str = ""

    def uri(self, scheme: str, host: str, port: int) -> str:
        """Return the published address of a connector with a ``host`` in the form of the strategy."""
        host = dict(self.hosts).get(host, host)
        port = dict(self.ports).get(port, port)
        shown = f"[{host}]" if ":" in host else host
        return f"{scheme}://{shown}:{port}" + (f"?{self.query}" if self.query else "")
