"""Views of a running broker for an operator: frozen copies, made on request."""

from __future__ import annotations

from dataclasses import dataclass

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.broker.topic.pending_eviction import NO_LIMIT, limit_of
from spanwire.broker.topic.topic import Topic
from spanwire.model.info import ProducerInfo


@dataclass(frozen=True)
class DestinationView:
    """A queue or topic.

    ``pending`` counts waiting and unacknowledged messages (ActiveMQ's queue size), for a topic including durable
    subscriptions to the topic alone. A ``paused`` queue dispatches no messages. ``cached`` of the pending messages are
    in memory. ``blocked_sends`` waited for memory or disk, ``blocked_ms`` is the time of all that have ended. With
    ``dead_letters`` a policy sends dead letters here.
    """

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
    cached: int = 0
    blocked_sends: int = 0
    blocked_ms: int = 0
    dead_letters: bool = False


@dataclass(frozen=True)
class DurableView:
    """A durable subscription.

    ``pending`` counts waiting and unacknowledged messages. ``away_s`` are the seconds without a subscriber, since the
    start of the broker at most; None while a subscriber is connected.
    """

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
    expired: int = 0
    cached: int = 0
    memory_bytes: int = 0
    user_name: str | None = None
    memory_percent: int = 0
    full: bool = False


@dataclass(frozen=True)
class ConsumerView:
    """A consumer of a connected client.

    ``in_flight`` counts unacknowledged messages, ``durable`` names the durable subscription. ``pending`` messages of
    topics wait for the consumer; ``slow`` is True if messages wait although the consumer has as many as it may.
    ``discarded`` messages of topics were more than ``pending_limit`` allows; None without a limit.
    """

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
    connection_id: str = ""
    session: int = 0
    number: int = 0
    pending: int = 0
    slow: bool = False
    network: bool = False
    exclusive: bool = False
    retroactive: bool = False
    no_local: bool = False
    priority: int = 0
    most_pending: int = 0
    discarded: int = 0
    pending_limit: int | None = None


@dataclass(frozen=True)
class ProducerView:
    """A producer of a connected client; ``destination`` is None if each message names a destination.

    ``waiting_sends`` of the producer wait for memory or disk. ``blocked_sends`` have waited for ``blocked_ms``.
    """

    producer_id: str
    client_id: str | None
    user_name: str
    remote_address: str
    destination: str | None
    window_bytes: int
    connection_id: str = ""
    session: int = 0
    waiting_sends: int = 0
    sent: int = 0
    blocked_sends: int = 0
    blocked_ms: int = 0


@dataclass(frozen=True)
class SessionView:
    """A session of a connected client."""

    connection_id: str
    session: int
    client_id: str | None
    consumers: int
    producers: int


@dataclass(frozen=True)
class ConnectionView:
    """A client connection; ``slow`` is True while the client does not read.

    ``waiting_sends`` wait for memory or disk; ``blocked`` is True if the broker has stopped reading meanwhile.
    ``connected_ms`` is the time of the login in milliseconds since 1970. A ``network`` connection is another broker's.
    The oldest open transaction began ``oldest_transaction_ms`` ago; None without one.
    """

    connection_id: str
    client_id: str | None
    user_name: str
    remote_address: str
    protocol: str
    consumers: int
    producers: int
    slow: bool
    connector: str = ""
    connected_ms: int = 0
    sessions: int = 0
    transactions: int = 0
    in_flight: int = 0
    unsent_bytes: int = 0
    waiting_sends: int = 0
    blocked: bool = False
    network: bool = False
    fault_tolerant: bool = False
    oldest_transaction_ms: int | None = None


@dataclass(frozen=True)
class BrokerStatistics:
    """Totals since the broker started.

    ``pending`` counts messages in queues, for consumers of topics and for durable subscriptions. ``store_bytes`` is the
    size of the store's files; a limit of 0 is the size of the disk. Sizes are sizes of measured messages, None without
    measuring. ``refused_uncommitted`` messages were beyond the limit ``maximum_uncommitted`` of open transactions.
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
    connections_ever: int = 0
    scheduled_messages: int = 0
    maximum_uncommitted: int = 0
    refused_uncommitted: int = 0
    average_size_bytes: int | None = None
    least_size_bytes: int | None = None
    greatest_size_bytes: int | None = None


def destination_view(destination: BrokerDestination, consumers: int, dead_letters: bool = False) -> DestinationView:
    """Return the view of a queue or topic."""
    durables = destination.durables if isinstance(destination, Topic) else []
    waiting = sum(_pending(durable) for durable in durables if durable.terms.topic == destination.name)
    return DestinationView(
        destination=destination.name.qualified_name,
        pending=destination.waiting() + destination.in_flight + waiting,
        in_flight=destination.in_flight,
        enqueued=destination.enqueued,
        dequeued=destination.dequeued,
        dispatched=destination.dispatched,
        expired=destination.expired,
        consumers=consumers,
        producers=destination.producers,
        memory_bytes=destination.usage.used_bytes,
        memory_limit_bytes=destination.usage.limit_bytes,
        paused=destination.paused,
        durable_subscriptions=len(durables),
        cached=destination.paged_in(),
        blocked_sends=destination.blocked_sends,
        blocked_ms=int(destination.blocked_seconds * 1000),
        dead_letters=dead_letters,
    )


def durable_view(durable: DurableSubscription, monotonic: float) -> DurableView:
    """Return the view of a durable subscription."""
    queue = durable.queue
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
        in_flight=queue.in_flight,
        enqueued=queue.enqueued,
        dequeued=queue.dequeued,
        dispatched=queue.dispatched,
        expired=queue.expired,
        cached=queue.paged_in(),
        memory_bytes=queue.usage.used_bytes,
        user_name=None if durable.principal is None else durable.principal.name,
        memory_percent=queue.usage.used_bytes * 100 // queue.usage.limit_bytes if queue.usage.limit_bytes > 0 else 0,
        full=queue.pending.is_full(),
    )


def _pending(durable: DurableSubscription) -> int:
    return durable.queue.waiting() + durable.queue.in_flight


def consumer_view(state: ConnectionState, subscription: Subscription) -> ConsumerView:
    """Return the view of a consumer."""
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
        dispatched=subscription.dispatched_total - subscription.dispatched_before,
        dequeued=subscription.in_flight.acknowledged_total - subscription.acknowledged_before,
        browser=info.browser,
        connection_id=state.connection_id,
        session=info.consumer_id.session_id,
        number=info.consumer_id.value,
        pending=len(subscription.pending),
        slow=_is_slow(subscription),
        network=info.network_subscription,
        exclusive=info.exclusive,
        retroactive=info.retroactive,
        no_local=info.no_local,
        priority=info.priority,
        most_pending=info.maximum_pending_messages,
        discarded=subscription.discarded,
        pending_limit=_pending_limit(subscription),
    )


def _pending_limit(subscription: Subscription) -> int | None:
    """Return the limit of pending messages; None without one, and for a consumer of many destinations."""
    if len(subscription.destinations) != 1:
        return None
    only = next(iter(subscription.destinations))
    limit = only.policy.topic.pending_limit if isinstance(only, Topic) else None
    most = NO_LIMIT if limit is None else limit_of(limit, subscription)
    return most if most > NO_LIMIT else None


def _is_slow(subscription: Subscription) -> bool:
    """Return True if messages wait although the consumer has as many as it may.

    A consumer of many destinations counts as slow only for messages of topics.
    """
    if subscription.pulls or not subscription.started or subscription.can_take():
        return False
    if subscription.pending:
        return True
    destinations = subscription.destinations
    if len(destinations) != 1:
        return False
    only = next(iter(destinations))
    return isinstance(only, BrokerDestination) and only.waiting() > 0


def producer_view(state: ConnectionState, info: ProducerInfo) -> ProducerView:
    """Return the view of a producer."""
    return ProducerView(
        producer_id=str(info.producer_id),
        client_id=state.info.client_id,
        user_name=state.principal.name,
        remote_address=state.info.remote_address,
        destination=None if info.destination is None else info.destination.qualified_name,
        window_bytes=info.window_size,
        connection_id=state.connection_id,
        session=info.producer_id.session_id,
        waiting_sends=sum([parked.message.producer_id == info.producer_id for parked in state.parked]),
        sent=info.counts.sent,
        blocked_sends=info.counts.blocked,
        blocked_ms=int(info.counts.blocked_seconds * 1000),
    )


def session_views(state: ConnectionState) -> list[SessionView]:
    """Return the sessions of a connection by number."""
    consumers: dict[int, int] = {}
    producers: dict[int, int] = {}
    for subscription in state.receivers():
        number = subscription.info.consumer_id.session_id
        consumers[number] = consumers.get(number, 0) + 1
    for info in state.producers.values():
        number = info.producer_id.session_id
        producers[number] = producers.get(number, 0) + 1
    client_id = state.info.client_id
    return [
        SessionView(state.connection_id, number, client_id, consumers.get(number, 0), producers.get(number, 0))
        for number in sorted(state.sessions)
    ]


def connection_view(state: ConnectionState, wall_ms: int) -> ConnectionView:
    """Return the view of a connection at the time ``wall_ms``."""
    began = [one.began_ms for one in (*state.transactions.values(), *state.branches.values()) if one.began_ms > 0]
    return ConnectionView(
        connection_id=state.connection_id,
        client_id=state.info.client_id,
        user_name=state.principal.name,
        remote_address=state.info.remote_address,
        protocol=state.info.protocol,
        consumers=len(state.receivers()),
        producers=len(state.producers),
        slow=not state.output.writable,
        connector=state.info.connector,
        connected_ms=state.connected_ms,
        sessions=len(state.sessions),
        transactions=len(state.transactions) + len(state.branches),
        in_flight=sum([consumer.dispatched_count for consumer in state.consumers.values()]),
        unsent_bytes=state.output.unsent_bytes,
        waiting_sends=len(state.parked),
        blocked=state.reading_paused,
        network=state.forwards or state.info.is_bridge,
        fault_tolerant=state.info.fault_tolerant,
        oldest_transaction_ms=max(0, wall_ms - min(began)) if began else None,
    )
