"""What the consumers of a remote broker ask for, as subscriptions of a bridge here.

A `DemandSubscription` is a consumer of this broker like any other: it gets a message, has it forwarded, and the bridge
acknowledges when the remote broker has answered. A conduit one stands for all remote consumers of its destination.
"""

from __future__ import annotations

from typing import Final, Protocol

from mypy_extensions import mypyc_attr

from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import MessageConsumer
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.model.ids import ConsumerId, MessageId
from spanwire.model.info import ConnectionInfo, ConsumerInfo
from spanwire.model.message import Message
from spanwire.model.routing import BRIDGE_DURABLE_PREFIX, MAX_PATH, NetworkFilter, Refusals
from spanwire.network.settings import BridgeSettings

BRIDGE_SESSION: Final = 1  # at both ends
NO_SUBSCRIBERS: Final[set[str]] = set()  # behind a subscription that is not durable; shared, and always empty
MAX_DEMAND: Final = 10_000  # remote consumers of one bridge: ten connections' worth of the most consumers one may have


@mypyc_attr(acyclic=True)
class InFlightMessage:
    """A message that is forwarded, or about to be given up here. ``is_confirmed``: it may be acknowledged.

    It stands in the list of its demand, from where it is taken in the end, so that no cycle is left (``acyclic``).
    """

    __slots__ = ("demand", "is_confirmed", "message_id")

    def __init__(self, demand: DemandSubscription, message_id: MessageId) -> None:
        self.demand: Final[DemandSubscription] = demand
        self.message_id: Final[MessageId] = message_id
        self.is_confirmed = False


class DemandBridge(Protocol):
    """The bridge, as its subscriptions see it."""

    def forward(
        self, demand: DemandSubscription, message: Message, reference: MessageReference, redelivery_count: int
    ) -> None:
        """Send a message on and remember it in ``demand.in_flight``; ``reference`` tells where it stands here."""
        ...

    def acknowledge_confirmed(self, subscription: Subscription, demand: DemandSubscription, now: Time) -> None:
        """Acknowledge all confirmed messages of ``demand``, also those behind others."""
        ...

    def on_demand_ended(self, demand: DemandSubscription, reason: JmsError) -> None:
        """The broker here ended this subscription."""
        ...

    def replace_demand(self, demand: DemandSubscription, now: Time) -> list[RemoteConsumer]:
        """There is a better route to what ``demand`` is for; gives those to be reconsidered when it is made."""
        ...

    def reconsider(self, consumer: RemoteConsumer, now: Time) -> None:
        """The better route to a consumer that this bridge told of is gone."""
        ...


class DemandSubscription(MessageConsumer):
    """One consumer here for one or more remote ones; ``in_flight`` are its messages in the order in which they came.

    ``consumers`` are those remote ones, by id, ``subscribers`` the durable subscriptions behind a durable one. One
    that ``is_standing`` serves whether or not anybody consumes: its destination is a static one, or it is durable and
    the store knows no subscribers behind it.
    """

    def __init__(self, bridge: DemandBridge, info: ConsumerInfo, from_network: bool, is_standing: bool = False) -> None:
        self.info: Final[ConsumerInfo] = info
        self.consumers: Final[dict[str, RemoteConsumer]] = {}
        self.subscribers: set[str] = NO_SUBSCRIBERS
        self.from_network: Final[bool] = from_network
        self.is_standing = is_standing
        self.in_flight: Final[list[InFlightMessage]] = []
        self.subscription: Subscription | None = None
        self.refused_count = 0  # of its messages that are out, so many are to be sent again
        self.touched = False
        self.is_ending = False
        self._bridge: Final[DemandBridge] = bridge

    @property
    def is_durable(self) -> bool:
        """Whether messages wait here for it while the link is down."""
        return self.info.subscription_name is not None

    @property
    def bridge(self) -> DemandBridge:
        """Whose it is."""
        return self._bridge

    def add_consumer(self, consumer: RemoteConsumer) -> None:
        """One more remote consumer gets its messages through this subscription."""
        info = consumer.info
        self.consumers[consumer.key] = consumer
        if info.subscription_name is not None and self.is_durable:
            if self.subscribers is NO_SUBSCRIBERS:
                self.subscribers = set()
            self.subscribers.add(subscriber_key(info.client_id, info.subscription_name))

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Forward ``message``."""
        subscription = self.subscription
        assert subscription is not None
        self._bridge.forward(self, message, subscription.newest(), redelivery_count)

    def dispatch_end(self) -> None:
        """Only for pulls and browses; a bridge does neither."""

    def close(self, reason: JmsError) -> None:
        """The broker ended this consumer: its destination is gone."""
        self._bridge.on_demand_ended(self, reason)

    def told_to_pull(self) -> bool:
        """A bridge never pulls."""
        return False

    def take_confirmed(self) -> list[InFlightMessage]:
        """The messages in front that may be acknowledged now."""
        entries = self.in_flight
        count = 0
        for entry in entries:
            if not entry.is_confirmed:
                break
            count += 1
        confirmed = entries[:count]
        del entries[:count]
        return confirmed


class RemoteConsumer:
    """A consumer of the remote broker, as an advisory told of it; ``destination`` is what of its own is demand here."""

    __slots__ = ("destination", "info", "key", "path")

    def __init__(self, info: ConsumerInfo, path: tuple[str, ...]) -> None:
        self.info: Final[ConsumerInfo] = info
        self.key: Final[str] = str(info.consumer_id)
        self.destination = info.destination
        self.path: Final[tuple[str, ...]] = path  # ends with the remote broker

    def aliases(self) -> list[str]:
        """The ids of all consumers that it stands for, its own last: what two routes to one consumer have in common."""
        matches = [str(one) for one in self.info.network_consumer_path]
        matches.append(self.key)
        return matches


class DemandTable:
    """The remote consumers of one bridge and the subscriptions that serve them.

    Which of them is demand at all is asked of the `BridgeSettings`; making the subscriptions is left to the bridge.
    """

    def __init__(
        self, settings: BridgeSettings, remote_broker_id: str, local_connection_id: str, broker_name: str = ""
    ) -> None:
        self._settings: Final[BridgeSettings] = settings
        self._filter: Final[NetworkFilter] = NetworkFilter(
            remote_broker_id, settings.message_ttl, settings.excluded, settings.let_through
        )
        self._path: Final[tuple[str, ...]] = (remote_broker_id,)
        self._connection_id: Final[str] = local_connection_id
        self._broker_name: Final[str] = broker_name
        self._number = 0
        self._remote: Final[dict[str, list[DemandSubscription]]] = {}
        self.subscriptions: Final[list[DemandSubscription]] = []
        self._named: Final[dict[str, list[DemandSubscription]]] = {}  # those of them without a wildcard, by destination
        self._patterns: Final[list[DemandSubscription]] = []  # the others
        self._durable: Final[dict[str, DemandSubscription]] = {}  # by the name of the durable subscription

    def passes(self, message: Message) -> bool:
        """Whether a message that a durable subscription has may go to the remote broker. What may not, must not wait
        in the subscription for ever; so that is asked only when it is about to go.
        """
        if not self._filter.passes(message.broker_path):
            return False
        if not self._filter.covers(message.destination):
            self._filter.refusals.excluded += 1
            return False
        return True

    @property
    def refusals(self) -> Refusals:
        """Which messages were held back."""
        return self._filter.refusals

    @property
    def remote_count(self) -> int:
        """How many remote consumers there are."""
        return len(self._remote)

    def destinations(self, at_most: int) -> tuple[str, ...]:
        """What is subscribed to, by name; ``at_most`` so many."""
        names = {demand.info.destination.qualified_name for demand in self.subscriptions}
        return tuple(sorted(names)[:at_most])

    def ways(self, at_most: int) -> tuple[tuple[str, ...], ...]:
        """The ids of brokers on the way to consumers that are farther than the remote broker, the nearest first;
        ``at_most`` so many ways. Of consumers that are behind one conduit the first tells its way.
        """
        matches: set[tuple[str, ...]] = set()
        for demand in self.subscriptions:
            for consumer in demand.consumers.values():
                if len(consumer.path) > 1 and len(matches) < at_most:
                    matches.add(consumer.path[::-1])
        return tuple(sorted(matches))

    def is_known(self, consumer_id: ConsumerId) -> bool:
        """Whether this remote consumer is served already."""
        return str(consumer_id) in self._remote

    def serving(self, consumer_id: ConsumerId) -> list[DemandSubscription]:
        """The subscriptions that serve this remote consumer."""
        return self._remote.get(str(consumer_id), [])

    def is_full(self) -> bool:
        """Whether one more remote consumer is too many."""
        return len(self._remote) >= MAX_DEMAND

    def needs_durable(self, consumer: RemoteConsumer) -> bool:
        """Whether messages for this consumer have to wait here while the link is down."""
        destination = consumer.destination
        if destination.is_queue or destination.is_temporary:
            return False
        return consumer.info.subscription_name is not None or self._settings.is_forced_durable(destination)

    def joinable(self, consumer: RemoteConsumer) -> list[DemandSubscription]:
        """Return the subscriptions that may serve this consumer, too: with a conduit those that cover its destination,
        without one the durable one that was made for it before.
        """
        durable = self.needs_durable(consumer)
        if durable and not self._settings.conduit:
            own = self._durable.get(self._durable_name(consumer))
            if own is None or own.is_ending or own.info.selector != self._selector(consumer):
                return []
            return [own]
        if not self._can_share(consumer.info):
            return []
        return [demand for demand in self.covering(consumer.destination) if demand.is_durable or not durable]

    def same_durable(self, name: str | None) -> DemandSubscription | None:
        """Return the subscription that is the consumer of the durable subscription of this name."""
        return None if name is None else self._durable.get(name)

    def _durable_name(self, consumer: RemoteConsumer) -> str:
        info = None if self._settings.conduit else consumer.info
        return durable_name(self._broker_name, consumer.destination, info)

    def _selector(self, consumer: RemoteConsumer) -> str | None:
        """Return the selector of a subscription for this consumer: none where other consumers may share it."""
        info = consumer.info
        if self._settings.conduit or (info.subscription_name is None and self.needs_durable(consumer)):
            return None
        selector = info.selector.strip() if info.selector is not None else ""
        return selector or None  # as the durable subscription has it

    def join(self, consumer: RemoteConsumer) -> bool:
        """Let all that are `joinable` serve this consumer. False if there is none."""
        matches = self.joinable(consumer)
        if not matches:
            return False
        for demand in matches:
            demand.add_consumer(consumer)
        self._remote[consumer.key] = matches
        return True

    def _can_share(self, info: ConsumerInfo) -> bool:
        if not self._settings.conduit:
            return False
        return not info.network_subscription or not info.destination.is_queue or self._settings.conduit_network_queues

    def farther(self, consumer: RemoteConsumer) -> list[DemandSubscription]:
        """Where one subscription would serve this consumer, too: that one, if it was made for consumers that are
        farther. Others are told how far away its first consumer was, and those that are too far from that one may be
        near enough to this one; so it has to make way for one that tells of this consumer.
        """
        if not self._can_share(consumer.info) or self.needs_durable(consumer):
            return []
        matches: list[DemandSubscription] = []
        for demand in self.covering(consumer.destination):
            if (
                demand.is_standing
                or demand.is_durable
                or demand.info.destination != consumer.destination
                or len(demand.info.broker_path) <= len(consumer.path)
            ):
                return []
            matches.append(demand)
        return matches

    def covering(self, destination: Destination) -> list[DemandSubscription]:
        """The subscriptions that serve everything in ``destination`` and may serve more than one consumer."""
        matches: list[DemandSubscription] = []
        for demand in [*self._named.get(destination.qualified_name, []), *self._patterns]:
            if demand.is_ending or (demand.from_network and not self._settings.conduit_network_queues):
                continue
            if demand.info.selector is not None:
                continue  # durable, from a time when the connector was no conduit
            if _covers(demand.info.destination, destination):
                matches.append(demand)
        return matches

    def local_info(self, consumer: RemoteConsumer) -> ConsumerInfo:
        """The announcement here of a new subscription for this consumer."""
        settings = self._settings
        info = consumer.info
        name = self._durable_name(consumer) if self.needs_durable(consumer) else None
        return ConsumerInfo(
            self._next_id(),
            consumer.destination,
            prefetch_size=settings.prefetch_size,
            selector=self._selector(consumer),
            subscription_name=name,
            exclusive=info.exclusive,
            priority=settings.priority(info.priority, consumer.path),
            network_subscription=True,
            broker_path=consumer.path,
            network_consumer_path=(*info.network_consumer_path[1 - MAX_PATH :], info.consumer_id),
            network_filter=self._filter if name is None else None,
        )

    def static_info(
        self, destination: Destination, subscription_name: str | None = None, selector: str | None = None
    ) -> ConsumerInfo:
        """The announcement here of a subscription that serves whether or not anybody consumes."""
        settings = self._settings
        consumer_id = self._next_id()
        return ConsumerInfo(
            consumer_id,
            destination,
            prefetch_size=settings.prefetch_size,
            selector=selector,
            subscription_name=subscription_name,
            priority=settings.priority(0, self._path),
            network_subscription=True,
            broker_path=self._path,
            network_consumer_path=(consumer_id,),
            network_filter=self._filter if subscription_name is None else None,
        )

    def _next_id(self) -> ConsumerId:
        self._number += 1
        return ConsumerId(self._connection_id, BRIDGE_SESSION, self._number)

    def add(self, demand: DemandSubscription, consumer: RemoteConsumer | None) -> None:
        """``demand`` was made for this consumer; a static one for none."""
        if consumer is not None:
            self._remote[consumer.key] = [demand]
            demand.add_consumer(consumer)
        self.subscriptions.append(demand)
        destination, name = demand.info.destination, demand.info.subscription_name
        if name is not None:
            self._durable[name] = demand
        if destination.is_pattern:
            self._patterns.append(demand)
        else:
            self._named.setdefault(destination.qualified_name, []).append(demand)

    def remove_consumer(self, consumer_id: ConsumerId) -> list[DemandSubscription]:
        """A remote consumer left; gives the subscriptions that served it, which have it still."""
        return self._remote.pop(str(consumer_id), [])

    def is_idle(self, demand: DemandSubscription) -> bool:
        """Whether it serves nobody; a durable one serves also durable subscribers that are away."""
        if demand.is_standing or demand.consumers:
            return False
        return not demand.subscribers or self._settings.dynamic_only

    def remove_subscriber(self, key: str) -> list[DemandSubscription]:
        """A durable subscription is gone there; gives the durable ones that nobody needs any more."""
        needless: list[DemandSubscription] = []
        for demand in self.subscriptions:
            if key in demand.subscribers:
                demand.subscribers.discard(key)
                if not demand.subscribers and self.is_idle(demand):
                    needless.append(demand)
        return needless

    def remove(self, demand: DemandSubscription) -> None:
        """``demand`` has ended."""
        if demand in self.subscriptions:
            self.subscriptions.remove(demand)
            self._unlist(demand)
        for key in list(demand.consumers):
            served = self._remote.get(key)
            if served is not None and demand in served:
                served.remove(demand)
                if not served:
                    del self._remote[key]

    def _unlist(self, demand: DemandSubscription) -> None:
        destination, name = demand.info.destination, demand.info.subscription_name
        if name is not None and self._durable.get(name) is demand:
            del self._durable[name]
        if destination.is_pattern:
            self._patterns.remove(demand)
            return
        same = self._named[destination.qualified_name]
        same.remove(demand)
        if not same:
            del self._named[destination.qualified_name]


def local_login(settings: BridgeSettings, connection_id: str, broker_name: str, remote_name: str) -> ConnectionInfo:
    """With which a bridge logs in at its own broker, in process."""
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


def durable_name(broker_name: str, topic: Destination, info: ConsumerInfo | None) -> str:
    """The name here of a durable subscription for remote ones; without a conduit each has its own. It is the same
    after every reconnect, so that the bridge finds what waits.
    """
    if info is None or info.subscription_name is None:
        return f"{BRIDGE_DURABLE_PREFIX}{broker_name}_{topic.name}"
    return f"{BRIDGE_DURABLE_PREFIX}{broker_name}_{topic.name}_{info.client_id or ''}_{info.subscription_name}"


def subscriber_key(client_id: str | None, name: str) -> str:
    """One durable subscription of the remote broker."""
    client = client_id or ""
    return f"{len(client)}:{client}:{name}"


def is_of_a_bridge(key: str) -> bool:
    """Return True if the durable subscription of this `subscriber_key` was made by a bridge of the remote broker."""
    length, _, rest = key.partition(":")
    return rest[int(length) + 1 :].startswith(BRIDGE_DURABLE_PREFIX)


def _covers(pattern: Destination, destination: Destination) -> bool:
    return pattern == destination or (pattern.is_pattern and pattern.matches(destination))
