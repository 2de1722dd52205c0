"""Settings of one network connector, with the names and defaults of ActiveMQ's ``networkConnector``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.model.destination import Destination
from spanwire.model.info import ConnectionInfo
from spanwire.model.routing import DEFAULT_PRIORITY_BASE, demand_passes, lets_through, network_priority
from spanwire.model.secret import Secret

DEFAULT_NAME: Final = "NC"  # ActiveMQ has the same default
DEFAULT_PREFETCH: Final = 1_000
DEFAULT_TTL: Final = 1
MAX_DEMAND: Final = 10_000  # remote consumers of one bridge; ten times the most consumers of one connection
BRIDGE_SESSION: Final = 1  # at both ends
CONSUMER_ADVISORIES: Final = "ActiveMQ.Advisory.Consumer."
VIRTUAL_ADVISORIES: Final = "ActiveMQ.Advisory.VirtualDestination.Consumer."
TEMPORARY_ADVISORIES: Final = "ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic"


@dataclass(frozen=True)
class BridgeSettings:
    """The settings of all bridges of one network connector.

    ``user_name`` and ``password`` are the login at both ends; ``remote_user_name`` and ``remote_password`` override the
    login at the remote end. ``excluded`` destinations are never forwarded. With ``included`` destinations, only these
    and ``static`` destinations are forwarded. ``static`` destinations are forwarded even without consumers.

    ``advisory_filter`` is ActiveMQ's destinationFilter, ``virtual_demand`` is useVirtualDestSubs. ``check_duplicates``
    is checkDuplicateMessagesOnDuplex: duplicates from the other end of a duplex link are found by producer, as for a
    broker of another kind. With ``tells_failures`` an advisory reports each message not forwarded. With ``compresses``
    (useCompression) bodies are forwarded compressed.
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
    static: tuple[Destination, ...] = ()
    forced_durable: tuple[Destination, ...] = ()
    static_bridge: bool = False
    advisory_filter: str | None = None
    conduit_network_queues: bool = False
    suppress_queue_duplicates: bool = False
    suppress_topic_duplicates: bool = True
    dynamic_only: bool = False
    sync_durable: bool = False
    virtual_demand: bool = False
    duplex: bool = False
    check_duplicates: bool = False
    client_id_token: str = "_"
    tells_failures: bool = False
    compresses: bool = False

    @property
    def let_through(self) -> tuple[Destination, ...]:
        """The only destinations to be forwarded, apart from ``excluded``; empty for all destinations."""
        return (*self.included, *self.static) if self.included else ()

    @property
    def limits_hops(self) -> bool:
        """True if messages or subscriptions pass a limited number of brokers."""
        return self.message_ttl >= 0 or self.consumer_ttl >= 0

    def advisory_topics(self) -> str:
        """Return the composite topic of the remote advisories to subscribe to; "" for a static bridge."""
        if self.static_bridge:
            return ""
        topics = self._consumer_advisories()
        return f"{topics},{TEMPORARY_ADVISORIES}" if self.bridge_temporary else topics

    def _consumer_advisories(self) -> str:
        asked = self.advisory_filter
        if asked is not None:
            return asked if asked.startswith(CONSUMER_ADVISORIES) else CONSUMER_ADVISORIES + asked
        topics_: list[str] = []
        for destination in self.included:
            if not destination.is_temporary:
                family = "Queue" if destination.is_queue else "Topic"
                topics_.append(f"{CONSUMER_ADVISORIES}{family}.{destination.name}")
                if self.virtual_demand:
                    topics_.append(f"{VIRTUAL_ADVISORIES}{family}.{destination.name}")
        if not topics_:
            topics_.append(CONSUMER_ADVISORIES + ">")
            if self.virtual_demand:
                topics_.append(VIRTUAL_ADVISORIES + ">")
        return ",".join(topics_)

    def is_forced_durable(self, destination: Destination) -> bool:
        """Return True if consumers of this topic always get a durable subscription."""
        return any(pattern.matches(destination) for pattern in self.forced_durable)

    def is_suppressed(self, destination: Destination) -> bool:
        """Return True if only the best of several routes to a consumer of ``destination`` is taken."""
        return self.suppress_queue_duplicates if destination.is_queue else self.suppress_topic_duplicates

    def demand_part(self, destination: Destination, path: tuple[str, ...], own_broker_id: str) -> Destination | None:
        """Return the part of ``destination`` with demand.

        Returns:
            Of a composite destination the parts with demand; None without such a part.
        """
        parts = destination.parts()
        wanted = [part for part in parts if self.is_demand(part, path, own_broker_id)]
        if len(wanted) == len(parts):
            return destination
        if len(wanted) < 2:
            return wanted[0] if wanted else None
        return Destination(destination.kind, ",".join([part.qualified_name for part in wanted]))

    def is_demand(self, destination: Destination, path: tuple[str, ...], own_broker_id: str) -> bool:
        """Return True if a consumer of ``destination`` beyond ``path`` is demand for this bridge."""
        if destination.is_advisory or not demand_passes(path, own_broker_id, self.consumer_ttl):
            return False
        return self.bridge_temporary if destination.is_temporary else self.is_permitted(destination)

    def is_permitted(self, destination: Destination) -> bool:
        """Return True if the destination lists of the connector permit ``destination``."""
        return lets_through(destination, self.excluded, self.let_through)

    def priority(self, asked: int, path: tuple[str, ...]) -> int:
        """Return the local priority of a consumer with priority ``asked`` beyond the brokers of ``path``."""
        return network_priority(path, self.priority_base) if self.decrease_priority else asked


def local_login(settings: BridgeSettings, connection_id: str, broker_name: str, remote_name: str) -> ConnectionInfo:
    """Return the login of a bridge at its own broker, in process."""
    password = settings.password
    return ConnectionInfo(
        connection_id=connection_id,
        client_id=settings.client_id_token.join([settings.name, remote_name, "inbound", broker_name]),
        user_name=settings.user_name,
        password=None if password is None else password.reveal(),
        remote_address=f"vm://{broker_name}#{settings.name}",
        protocol="network",
        max_consumers=MAX_DEMAND,
    )
