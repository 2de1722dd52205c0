"""Subscriptions of a bridge at the local broker, and the remote consumers that they serve.

A `DemandSubscription` is an ordinary consumer of the local broker. The bridge forwards the messages, and acknowledges a
message after the remote broker's answer. With a conduit one subscription serves all remote consumers of a destination.
"""

from __future__ import annotations

from typing import Final, Protocol

from mypy_extensions import mypyc_attr

from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import MessageConsumer
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.model.ids import ConsumerId, MessageId
from spanwire.model.info import ConsumerInfo
from spanwire.model.message import Message
from spanwire.model.routing import BRIDGE_DURABLE_PREFIX, MAX_PATH

NO_SUBSCRIBERS: Final[set[str]] = set()  # shared by all subscriptions without durable subscribers, always empty


@mypyc_attr(acyclic=True)
class InFlightMessage:
    """A message forwarded, or about to be given up; acknowledged only once ``is_confirmed``.

    In the end only the list of the demand subscription refers to the message, so there is no reference cycle
    (``acyclic``).
    """

    __slots__ = ("demand", "is_confirmed", "message_id")

    def __init__(self, demand: DemandSubscription, message_id: MessageId) -> None:
        self.demand: Final[DemandSubscription] = demand
        self.message_id: Final[MessageId] = message_id
        self.is_confirmed = False


class DemandBridge(Protocol):
    """The interface of a bridge to its demand subscriptions."""

    def forward(
        self, demand: DemandSubscription, message: Message, reference: MessageReference, redelivery_count: int
    ) -> None:
        """Forward a message and add ``reference``, the local reference, to ``demand.in_flight``."""
        ...

    def acknowledge_confirmed(self, subscription: Subscription, demand: DemandSubscription, now: Time) -> None:
        """Acknowledge all confirmed messages of ``demand``, also behind unconfirmed messages."""
        ...

    def on_demand_ended(self, demand: DemandSubscription, reason: JmsError) -> None:
        """Forget ``demand``, because the local broker has removed it."""
        ...

    def replace_demand(self, demand: DemandSubscription, now: Time) -> list[RemoteConsumer]:
        """End ``demand`` in favour of a better route. Returns the remote consumers to reconsider then."""
        ...

    def release(self, consumer: RemoteConsumer, now: Time) -> None:
        """Serve a consumer no longer, because another bridge has a better route to it."""
        ...

    def reconsider(self, consumer: RemoteConsumer, now: Time) -> None:
        """Serve a consumer again after the loss of the better route."""
        ...

    def announce_others(self, demand: DemandSubscription, now: Time) -> None:
        """Announce all consumers behind ``demand``, because there is another route to one of them."""
        ...


class DemandSubscription(MessageConsumer):
    """A local consumer for one or more remote consumers.

    ``consumers`` are the remote consumers by id, ``in_flight`` the messages in the order of dispatch, and
    ``subscribers`` the remote durable subscriptions behind a durable subscription. A standing subscription serves even
    without consumers, because the destination is static, or because the durable subscribers are unknown.
    """

    def __init__(self, bridge: DemandBridge, info: ConsumerInfo, from_network: bool, is_standing: bool = False) -> None:
        self.info: Final[ConsumerInfo] = info
        self.consumers: Final[dict[str, RemoteConsumer]] = {}
        self.subscribers: set[str] = NO_SUBSCRIBERS
        self.from_network: Final[bool] = from_network
        self.is_standing = is_standing
        self.in_flight: Final[list[InFlightMessage]] = []
        self.subscription: Subscription | None = None
        self.refused_count = 0  # messages in flight that were refused and are sent again
        self.touched = False
        self.is_ending = False
        self._bridge: Final[DemandBridge] = bridge

    @property
    def is_durable(self) -> bool:
        """True if messages wait for the subscription while the link is down."""
        return self.info.subscription_name is not None

    @property
    def bridge(self) -> DemandBridge:
        """The bridge of the subscription."""
        return self._bridge

    def add_consumer(self, consumer: RemoteConsumer) -> None:
        """Serve another remote consumer."""
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
        self._bridge.forward(self, message, subscription.in_flight.newest(), redelivery_count)

    def dispatch_end(self) -> None:
        """Do nothing: a bridge neither pulls nor browses."""

    def close(self, reason: JmsError) -> None:
        """End the subscription, because the broker has removed the destination."""
        self._bridge.on_demand_ended(self, reason)

    def switch_to_pull(self) -> bool:
        """Return False: a bridge never pulls."""
        return False

    def take_confirmed(self) -> list[InFlightMessage]:
        """Remove and return the confirmed messages at the front."""
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
    """A consumer announced by the remote broker; ``destination`` is the part with demand here.

    ``priority`` is that of a local subscription for this consumer alone.
    """

    __slots__ = ("destination", "info", "key", "path", "priority")

    def __init__(self, info: ConsumerInfo, path: tuple[str, ...]) -> None:
        self.info: Final[ConsumerInfo] = info
        self.key: Final[str] = str(info.consumer_id)
        self.destination = info.destination
        self.priority = info.priority
        self.path: Final[tuple[str, ...]] = path  # ends with the remote broker

    def behind(self) -> tuple[ConsumerId, ...]:
        """Return the network consumer path of a local subscription for this consumer."""
        return (*self.info.network_consumer_path[1 - MAX_PATH :], self.info.consumer_id)

    def aliases(self) -> list[str]:
        """Return the ids of all consumers behind this consumer, and the consumer's own id last.

        Two routes to a consumer have an id in common.
        """
        matches = [str(one) for one in self.info.network_consumer_path]
        matches.append(self.key)
        return matches


def subscriber_key(client_id: str | None, name: str) -> str:
    """Return the key of a durable subscription of the remote broker."""
    client = client_id or ""
    return f"{len(client)}:{client}:{name}"


def is_of_a_bridge(key: str) -> bool:
    """Return True if a bridge of the remote broker made the durable subscription with this key."""
    length, _, rest = key.partition(":")
    return rest[int(length) + 1 :].startswith(BRIDGE_DURABLE_PREFIX)
