"""Names of the advisory topics (ActiveMQ, "Advisory Message").

Some subjects stand for others in advisories.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.destination_events import EXPIRED_ADVISORY, NO_CONSUMER_ADVISORY
from spanwire.model.destination import ADVISORY_PREFIX, TOPIC, Destination
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConnectionInfo, ConsumerInfo

_DESTINATION_TOPICS: Final = ("Queue", "Topic", "TempQueue", "TempTopic")


def connection_advisory() -> Destination:
    """Return the topic for connections."""
    return Destination(TOPIC, ADVISORY_PREFIX + "Connection")


def destination_advisory(destination: Destination) -> Destination:
    """Return the topic for destinations of the kind of ``destination``."""
    return Destination(TOPIC, ADVISORY_PREFIX + _DESTINATION_TOPICS[destination.kind])


def consumer_advisory(destination: Destination) -> Destination:
    """Return the topic for the consumers of ``destination``."""
    return Destination(TOPIC, f"{ADVISORY_PREFIX}Consumer.{_family(destination)}.{destination.name}")


def virtual_consumer_advisory(source: Destination) -> Destination:
    """Return the topic for the consumers behind the virtual destination ``source``."""
    return Destination(TOPIC, f"{ADVISORY_PREFIX}VirtualDestination.Consumer.{_family(source)}.{source.name}")


def behind(info: ConsumerInfo, source: Destination) -> ConsumerInfo:
    """Return the consumer ``info`` as a consumer of the virtual destination ``source``.

    The id differs from the id of ``info``, and is equal at each call. A durable subscriber stays durable if ``source``
    is a topic.
    """
    own = info.consumer_id
    connection_id = f"{own.connection_id}->{source.qualified_name}"
    return ConsumerInfo(
        ConsumerId(connection_id, own.session_id, own.value),
        source,
        prefetch_size=info.prefetch_size,
        priority=info.priority,
        network_subscription=info.network_subscription,
        broker_path=info.broker_path,
        network_consumer_path=info.network_consumer_path,
        subscription_name=None if source.is_queue else info.subscription_name,
        client_id=info.client_id,
    )


def producer_advisory(destination: Destination) -> Destination:
    """Return the topic for the producers of ``destination``."""
    return Destination(TOPIC, f"{ADVISORY_PREFIX}Producer.{_family(destination)}.{destination.name}")


def anonymous_producer_advisory() -> Destination:
    """Return the topic for producers without a destination."""
    return Destination(TOPIC, ADVISORY_PREFIX + "Producer.Anonymous")


def bridge_advisory() -> Destination:
    """Return the topic for the broker's bridges."""
    return Destination(TOPIC, ADVISORY_PREFIX + "NetworkBridge")


def failed_forward_advisory() -> Destination:
    """Return the topic for messages that the broker's bridges could not forward."""
    return Destination(TOPIC, ADVISORY_PREFIX + "NetworkBridge.ForwardFailure")


def master_advisory() -> Destination:
    """Return the topic that announces the brokers beginning to serve."""
    return Destination(TOPIC, ADVISORY_PREFIX + "MasterBroker")


def standing_consumer(connection_id: str, queue: Destination) -> ConsumerInfo:
    """Return a consumer that stands for the existence of ``queue``, with an equal id at each call."""
    return ConsumerInfo(ConsumerId(f"{connection_id}:{queue.name}", 0, 0), queue)


def message_advisory(kind: str, destination: Destination) -> Destination:
    """Return the topic for events of ``kind`` about ``destination``.

    The two oldest kinds (expired, no consumer) make no difference between temporary and other destinations.
    """
    old = kind == EXPIRED_ADVISORY or kind == NO_CONSUMER_ADVISORY
    family = _family(destination) if old else _DESTINATION_TOPICS[destination.kind]
    return Destination(TOPIC, f"{ADVISORY_PREFIX}{kind}.{family}.{destination.name}")


def _family(destination: Destination) -> str:
    return "Queue" if destination.is_queue else "Topic"


def public(info: ConnectionInfo) -> ConnectionInfo:
    """Return the announcement without the password."""
    return ConnectionInfo(
        connection_id=info.connection_id,
        client_id=info.client_id,
        user_name=info.user_name,
        remote_address=info.remote_address,
        protocol=info.protocol,
        fault_tolerant=info.fault_tolerant,
    )
