"""What an operator sees of a running broker: frozen views, made when asked for."""

from __future__ import annotations

from dataclasses import dataclass

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.message_reference import BrokerDestination
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.broker.topic.topic import Topic


@dataclass(frozen=True)
class DestinationView:
    """One queue or topic. ``pending`` counts waiting and unacknowledged messages (ActiveMQ's queue size), of a topic
    also those of the durable subscriptions to it alone; a queue that is ``paused`` dispatches nothing."""

    destination: str
    pending: int
    in_flight: int
    enqueued: int
    dequeued: int
    dispatched: int
    expired: int
    consumers: int
    producers: int
    memory_bytes: int
    memory_limit_bytes: int
    paused: bool = False
    durable_subscriptions: int = 0


@dataclass(frozen=True)
class DurableView:
    """One durable subscription. ``pending`` counts its waiting and unacknowledged messages, ``away_s`` the seconds
    without a subscriber, from this start of the broker at the earliest; it is None while the subscription is active."""

    client_id: str
    name: str
    topic: str
    selector: str | None
    no_local: bool
    active: bool
    away_s: int | None
    pending: int
    in_flight: int
    enqueued: int
    dequeued: int
    dispatched: int


@dataclass(frozen=True)
class ConsumerView:
    """One consumer of a connected client. ``in_flight`` messages are out and not acknowledged; ``durable`` is the name
    of its durable subscription."""

    consumer_id: str
    client_id: str | None
    user_name: str
    remote_address: str
    destination: str
    selector: str | None
    durable: str | None
    prefetch_size: int
    in_flight: int
    dispatched: int
    dequeued: int
    browser: bool


@dataclass(frozen=True)
class ConnectionView:
    """One client connection; ``slow`` says that it has not taken what was sent to it."""

    connection_id: str
    client_id: str | None
    user_name: str
    remote_address: str
    protocol: str
    consumers: int
    producers: int
    slow: bool


@dataclass(frozen=True)
class BrokerStatistics:
    """Totals since the broker started. ``pending`` counts what waits in queues, for consumers of topics and for durable
    subscriptions. ``store_bytes`` are those of the store's files; a limit of 0 is as much as the disk has.
    """

    connections: int
    destinations: int
    enqueued: int
    dequeued: int
    dispatched: int
    expired: int
    pending: int
    memory_bytes: int
    memory_limit_bytes: int
    parked_sends: int
    durable_subscriptions: int = 0
    durable_subscriptions_away: int = 0
    durable_pending: int = 0
    prepared_transactions: int = 0
    store_bytes: int = 0
    store_limit_bytes: int = 0
    temporary_limit_bytes: int = 0
    disk_full: bool = False


def destination_view(home: BrokerDestination, consumers: int) -> DestinationView:
    """One queue or topic as it is now."""
    in_flight = home.in_flight if isinstance(home, Queue) else 0
    durables = home.durables if isinstance(home, Topic) else []
    waiting = sum(_pending(durable) for durable in durables if durable.terms.topic == home.destination)
    return DestinationView(
        destination=home.destination.qualified_name,
        pending=home.waiting() + in_flight + waiting,
        in_flight=in_flight,
        enqueued=home.enqueued,
        dequeued=home.dequeued,
        dispatched=home.dispatched,
        expired=home.expired,
        consumers=consumers,
        producers=home.producers,
        memory_bytes=home.usage.used_bytes,
        memory_limit_bytes=home.usage.limit_bytes,
        paused=isinstance(home, Queue) and home.paused,
        durable_subscriptions=len(durables),
    )


def durable_view(durable: DurableSubscription, monotonic: float) -> DurableView:
    """One durable subscription as it is now."""
    line = durable.line
    terms = durable.terms
    return DurableView(
        client_id=terms.client_id,
        name=terms.name,
        topic=terms.topic.qualified_name,
        selector=terms.selector,
        no_local=terms.no_local,
        active=durable.active,
        away_s=None if durable.active else max(0, int(monotonic - durable.offline_since)),
        pending=_pending(durable),
        in_flight=line.in_flight,
        enqueued=line.enqueued,
        dequeued=line.dequeued,
        dispatched=line.dispatched,
    )


def _pending(durable: DurableSubscription) -> int:
    return durable.line.waiting() + durable.line.in_flight


def consumer_view(state: ConnectionState, subscription: Subscription) -> ConsumerView:
    """One consumer of a connection as it is now."""
    info = subscription.info
    return ConsumerView(
        consumer_id=str(info.consumer_id),
        client_id=state.info.client_id,
        user_name=state.principal.name,
        remote_address=state.info.remote_address,
        destination=info.destination.qualified_name,
        selector=info.selector,
        durable=info.subscription_name,
        prefetch_size=subscription.prefetch_size,
        in_flight=subscription.dispatched_count,
        dispatched=subscription.dispatched_total,
        dequeued=subscription.acknowledged_total,
        browser=info.browser,
    )


def connection_view(state: ConnectionState) -> ConnectionView:
    """One connection as it is now."""
    return ConnectionView(
        connection_id=state.connection_id,
        client_id=state.info.client_id,
        user_name=state.principal.name,
        remote_address=state.info.remote_address,
        protocol=state.info.protocol,
        consumers=len(state.consumers),
        producers=len(state.producers),
        slow=not state.outlet.writable,
    )
