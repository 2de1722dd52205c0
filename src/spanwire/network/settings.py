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
CONSUMER_ADVISORIES: Final = "ActiveMQ.Advisory.Consumer."
VIRTUAL_ADVISORIES: Final = "ActiveMQ.Advisory.VirtualDestination.Consumer."
TEMPORARY_ADVISORIES: Final = "ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic"


@dataclass(frozen=True)
class BridgeSettings:
    """How the bridges of one network connector behave; the same for each broker that they lead to.

    ``user_name`` and ``password`` log in at both ends, ``remote_user_name`` and ``remote_password`` replace them at the
    other one. ``excluded`` destinations are never forwarded, whatever else names them; of ``included`` ones, if there
    are any, no others are but the ``static`` ones, which go whether or not anybody consumes. ``advisory_filter`` is
    ActiveMQ's destinationFilter, ``virtual_demand`` its useVirtualDestSubs, ``check_duplicates`` its
    checkDuplicateMessagesOnDuplex: what the other end of a duplex link repeats is known by its makers, as from a broker
    of another kind. With ``tells_failures`` an advisory tells of each message that could not be forwarded, with
    ``compresses`` (useCompression) bodies cross compressed.
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
        """Of what is not excluded, only these pass; all if there are none."""
        return (*self.included, *self.static) if self.included else ()

    def advisory_topics(self) -> str:
        """What to subscribe to at the remote broker, as a composite topic; empty for a static bridge."""
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
        """Whether the subscription for a consumer of this topic is durable even when the consumer is not."""
        return any(pattern.matches(destination) for pattern in self.forced_durable)

    def is_suppressed(self, destination: Destination) -> bool:
        """Whether of several routes to one consumer of ``destination`` only the best is taken."""
        return self.suppress_queue_duplicates if destination.is_queue else self.suppress_topic_duplicates

    def demand_part(self, destination: Destination, path: tuple[str, ...], own_broker_id: str) -> Destination | None:
        """What of ``destination`` is demand: of a composite the parts that `is_demand` takes; None for nothing."""
        parts = destination.parts()
        wanted = [part for part in parts if self.is_demand(part, path, own_broker_id)]
        if len(wanted) == len(parts):
            return destination
        if len(wanted) < 2:
            return wanted[0] if wanted else None
        return Destination(destination.kind, ",".join([part.qualified_name for part in wanted]))

    def is_demand(self, destination: Destination, path: tuple[str, ...], own_broker_id: str) -> bool:
        """Whether a consumer of ``destination`` beyond the brokers of ``path`` is demand for this bridge."""
        if destination.is_advisory or not demand_passes(path, own_broker_id, self.consumer_ttl):
            return False
        return self.bridge_temporary if destination.is_temporary else self.is_permitted(destination)

    def is_permitted(self, destination: Destination) -> bool:
        """Whether the lists of the connector let ``destination`` through."""
        return lets_through(destination, self.excluded, self.let_through)

    def priority(self, asked: int, path: tuple[str, ...]) -> int:
        """The priority here of a consumer that asked for ``asked`` beyond the brokers of ``path``."""
        return network_priority(path, self.priority_base) if self.decrease_priority else asked
