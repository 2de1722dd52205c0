"""What one network connector is told. The names and defaults are those of ActiveMQ's ``networkConnector``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.model.destination import Destination
from spanwire.model.routing import DEFAULT_PRIORITY_BASE, demand_passes, lets_through, network_priority
from spanwire.model.secret import Secret

DEFAULT_NAME: Final = "NC"  # ActiveMQ's own
DEFAULT_PREFETCH: Final = 1_000
DEFAULT_TTL: Final = 1


@dataclass(frozen=True)
class BridgeSettings:
    """How the bridges of one network connector behave; the same for each broker that they lead to.

    ``user_name`` and ``password`` log in at both ends, ``remote_user_name`` and ``remote_password`` replace them at the
    other one. ``excluded`` destinations are never forwarded; of ``included`` ones, if there are any, no others are.
    """

    name: str = DEFAULT_NAME
    message_ttl: int = DEFAULT_TTL
    consumer_ttl: int = DEFAULT_TTL
    conduit: bool = True
    decrease_priority: bool = True
    priority_base: int = DEFAULT_PRIORITY_BASE
    prefetch_size: int = DEFAULT_PREFETCH
    always_sync_send: bool = True
    bridge_temporary: bool = True
    user_name: str | None = None
    password: Secret | None = None
    remote_user_name: str | None = None
    remote_password: Secret | None = None
    excluded: tuple[Destination, ...] = ()
    included: tuple[Destination, ...] = ()

    def wanted(self, destination: Destination, path: tuple[str, ...], own_broker_id: str) -> Destination | None:
        """What of ``destination`` is demand: of a composite the parts that `wants` lets through; None for nothing."""
        parts = destination.parts()
        wanted = [part for part in parts if self.wants(part, path, own_broker_id)]
        if len(wanted) == len(parts):
            return destination
        if len(wanted) < 2:
            return wanted[0] if wanted else None
        return Destination(destination.kind, ",".join([part.qualified_name for part in wanted]))

    def wants(self, destination: Destination, path: tuple[str, ...], own_broker_id: str) -> bool:
        """Whether a consumer of ``destination`` beyond the brokers of ``path`` is demand for this bridge."""
        if destination.is_advisory or not demand_passes(path, own_broker_id, self.consumer_ttl):
            return False
        if destination.is_temporary:
            return self.bridge_temporary
        return lets_through(destination, self.excluded, self.included)

    def priority(self, asked: int, path: tuple[str, ...]) -> int:
        """The priority here of a consumer that asked for ``asked`` beyond the brokers of ``path``."""
        return network_priority(path, self.priority_base) if self.decrease_priority else asked
