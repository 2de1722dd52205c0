"""What the consumers of a remote broker ask for, as subscriptions of a bridge here.

A `DemandSubscription` is a consumer of this broker like any other: it gets a message, has it forwarded, and the bridge
acknowledges when the remote broker has answered. A conduit one stands for all remote consumers of its destination.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from spanwire.broker.ports import MessageConsumer
from spanwire.broker.reference import MessageReference
from spanwire.broker.subscription import Subscription
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError
from spanwire.model.ids import ConsumerId, MessageId
from spanwire.model.info import ConnectionInfo, ConsumerInfo
from spanwire.model.message import Message
from spanwire.model.routing import MAX_PATH, NetworkFilter
from spanwire.network.settings import BridgeSettings

BRIDGE_SESSION: Final = 1  # at both ends
MAX_DEMAND: Final = 10_000  # remote consumers of one bridge: ten connections' worth of the most consumers one may have


class Forwarded:
    """A message that is out: forwarded, or about to be given up here. ``settled`` says that it may be acknowledged."""

    __slots__ = ("demand", "message_id", "settled")

    def __init__(self, demand: DemandSubscription, message_id: MessageId) -> None:
        self.demand: Final[DemandSubscription] = demand
        self.message_id: Final[MessageId] = message_id
        self.settled = False


class Forwarding(Protocol):
    """The bridge, as its subscriptions see it."""

    def forward(
        self, demand: DemandSubscription, message: Message, reference: MessageReference, redelivery_count: int
    ) -> None:
        """Send a message on and remember it in ``demand.out``; ``reference`` tells where it stands here."""
        ...

    def demand_ended(self, demand: DemandSubscription, reason: JmsError) -> None:
        """The broker here ended this subscription."""
        ...


class DemandSubscription(MessageConsumer):
    """One consumer here for one or more remote ones; ``out`` are its messages in the order in which they came."""

    def __init__(self, bridge: Forwarding, info: ConsumerInfo, remote_id: ConsumerId, from_network: bool) -> None:
        self.info: Final[ConsumerInfo] = info
        self.remote_ids: Final[set[str]] = {str(remote_id)}
        self.from_network: Final[bool] = from_network
        self.out: Final[deque[Forwarded]] = deque()
        self.subscription: Subscription | None = None
        self.touched = False
        self.leaving = False
        self._bridge: Final[Forwarding] = bridge

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Forward ``message``."""
        subscription = self.subscription
        assert subscription is not None
        self._bridge.forward(self, message, subscription.newest(), redelivery_count)

    def dispatch_end(self) -> None:
        """Only for pulls and browses; a bridge does neither."""

    def close(self, reason: JmsError) -> None:
        """The broker ended this consumer: its destination is gone."""
        self._bridge.demand_ended(self, reason)

    def take_settled(self) -> list[Forwarded]:
        """The messages in front that may be acknowledged now."""
        out = self.out
        taken: list[Forwarded] = []
        while out and out[0].settled:
            taken.append(out.popleft())
        return taken


class RemoteConsumer:
    """A consumer of the remote broker, as an advisory told of it; ``destination`` is what of its own is demand here."""

    __slots__ = ("destination", "info", "path")

    def __init__(self, info: ConsumerInfo, path: tuple[str, ...]) -> None:
        self.info: Final[ConsumerInfo] = info
        self.destination = info.destination
        self.path: Final[tuple[str, ...]] = path  # ends with the remote broker


class DemandTable:
    """The remote consumers of one bridge and the subscriptions that serve them.

    Which of them is demand at all is asked of the `BridgeSettings`; making the subscriptions is left to the bridge.
    """

    def __init__(self, settings: BridgeSettings, remote_broker_id: str, local_connection_id: str) -> None:
        self._settings: Final[BridgeSettings] = settings
        self._filter: Final[NetworkFilter] = NetworkFilter(
            remote_broker_id, settings.message_ttl, settings.excluded, settings.included
        )
        self._connection_id: Final[str] = local_connection_id
        self._number = 0
        self._remote: Final[dict[str, list[DemandSubscription]]] = {}
        self.subscriptions: Final[list[DemandSubscription]] = []

    @property
    def remote_count(self) -> int:
        """How many remote consumers there are."""
        return len(self._remote)

    def is_known(self, consumer_id: ConsumerId) -> bool:
        """Whether this remote consumer is served already."""
        return str(consumer_id) in self._remote

    def is_full(self) -> bool:
        """Whether one more remote consumer is too many."""
        return len(self._remote) >= MAX_DEMAND

    def joined(self, consumer: RemoteConsumer) -> bool:
        """Let subscriptions that cover the destination serve this consumer, too (conduit). False if there is none."""
        info = consumer.info
        if not self._settings.conduit or (info.network_subscription and info.destination.is_queue):
            return False
        found: list[DemandSubscription] = []
        for demand in self.subscriptions:
            if (
                not demand.leaving
                and not demand.from_network
                and _covers(demand.info.destination, consumer.destination)
            ):
                demand.remote_ids.add(str(info.consumer_id))
                found.append(demand)
        if not found:
            return False
        self._remote[str(info.consumer_id)] = found
        return True

    def local_info(self, consumer: RemoteConsumer) -> ConsumerInfo:
        """The announcement here of a new subscription for this consumer."""
        settings = self._settings
        info = consumer.info
        self._number += 1
        return ConsumerInfo(
            ConsumerId(self._connection_id, BRIDGE_SESSION, self._number),
            consumer.destination,
            prefetch_size=settings.prefetch_size,
            selector=None if settings.conduit else info.selector,
            exclusive=info.exclusive,
            priority=settings.priority(info.priority, consumer.path),
            network_subscription=True,
            broker_path=consumer.path,
            network_consumer_path=(*info.network_consumer_path[1 - MAX_PATH :], info.consumer_id),
            network_filter=self._filter,
        )

    def add(self, demand: DemandSubscription, consumer: RemoteConsumer) -> None:
        """``demand`` was made for this consumer."""
        self._remote[str(consumer.info.consumer_id)] = [demand]
        self.subscriptions.append(demand)

    def leave(self, consumer_id: ConsumerId) -> list[DemandSubscription]:
        """A remote consumer left; gives the subscriptions that serve nobody any more."""
        key = str(consumer_id)
        idle: list[DemandSubscription] = []
        for demand in self._remote.pop(key, []):
            demand.remote_ids.discard(key)
            if not demand.remote_ids:
                idle.append(demand)
        return idle

    def remove(self, demand: DemandSubscription) -> None:
        """``demand`` has ended."""
        if demand in self.subscriptions:
            self.subscriptions.remove(demand)
        for key in list(demand.remote_ids):
            served = self._remote.get(key)
            if served is not None and demand in served:
                served.remove(demand)
                if not served:
                    del self._remote[key]


def local_login(settings: BridgeSettings, connection_id: str, broker_name: str, remote_name: str) -> ConnectionInfo:
    """With which a bridge logs in at its own broker, in process."""
    password = settings.password
    return ConnectionInfo(
        connection_id=connection_id,
        client_id=f"{settings.name}_{remote_name}_inbound_{broker_name}",
        user_name=settings.user_name,
        password=None if password is None else password.reveal(),
        remote_address=f"vm://{broker_name}#{settings.name}",
        protocol="network",
        max_consumers=MAX_DEMAND,
    )


def _covers(pattern: Destination, destination: Destination) -> bool:
    return pattern == destination or (pattern.is_pattern and pattern.matches(destination))
