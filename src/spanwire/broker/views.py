"""What an operator sees of a running broker: frozen views, made when asked for."""

from __future__ import annotations

from dataclasses import dataclass

from spanwire.broker.connection_state import ConnectionState
from spanwire.broker.queue import Queue
from spanwire.broker.reference import BrokerDestination
from spanwire.broker.usage import MemoryUsage


@dataclass(frozen=True)
class DestinationView:
    """One queue or topic. ``pending`` counts waiting and unacknowledged messages (ActiveMQ's queue size); a queue
    that is ``paused`` dispatches nothing."""

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
    """Totals since the broker started."""

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


def destination_view(home: BrokerDestination, consumers: int) -> DestinationView:
    """One queue or topic as it is now."""
    in_flight = home.in_flight if isinstance(home, Queue) else 0
    return DestinationView(
        destination=home.destination.qualified_name,
        pending=home.waiting() + in_flight,
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


def broker_statistics(
    views: list[DestinationView], connections: int, usage: MemoryUsage, parked_sends: int
) -> BrokerStatistics:
    """The totals over ``views``."""
    return BrokerStatistics(
        connections=connections,
        destinations=len(views),
        enqueued=sum(view.enqueued for view in views),
        dequeued=sum(view.dequeued for view in views),
        dispatched=sum(view.dispatched for view in views),
        expired=sum(view.expired for view in views),
        pending=sum(view.pending for view in views),
        memory_bytes=usage.used_bytes,
        memory_limit_bytes=usage.limit_bytes,
        parked_sends=parked_sends,
    )
