"""Messages in flight at consumers, and pending for durable subscriptions."""

from __future__ import annotations

from dataclasses import dataclass

from spanwire.broker.queue.queue import Queue
from spanwire.model.destination import Destination
from spanwire.model.message import Message
from spanwire.service.embedding.embedded_broker import EmbeddedBroker
from spanwire.testing.message import WaitingMessage, waiting_message


@dataclass(frozen=True, slots=True)
class HeldMessages:
    """Number of messages in flight at one consumer, and the oldest of them."""

    client_id: str
    count: int
    oldest: list[WaitingMessage]


@dataclass(frozen=True, slots=True)
class DurableBacklog:
    """Pending messages of a durable subscription, messages in flight included.

    ``oldest`` are the oldest messages that are not in flight.
    """

    client_id: str
    name: str
    topic: str
    active: bool
    pending: int
    in_flight: int
    oldest: list[WaitingMessage]


def in_flight_by_consumer(broker: EmbeddedBroker, destination: Destination, limit: int) -> list[HeldMessages]:
    """Return the consumers of a queue with messages in flight; runs in the broker's loop."""
    queue = broker.service.broker.find_destination(destination)
    return [] if not isinstance(queue, Queue) else _in_flight(broker, queue, limit)


async def pending_by_subscription(broker: EmbeddedBroker, limit: int) -> list[DurableBacklog]:
    """Return all durable subscriptions; runs in the broker's loop."""
    backlogs: list[DurableBacklog] = []
    for durable in broker.service.broker.durable_subscriptions():
        queue, terms = durable.queue, durable.terms
        oldest = queue.oldest(limit)
        sequences = [sequence for sequence, message in oldest if message is None]
        stored = dict(zip(sequences, await broker.service.read_stored(queue.name, sequences), strict=True))
        waiting = [stored.get(sequence) if message is None else message for sequence, message in oldest]
        backlogs.append(
            DurableBacklog(
                terms.client_id,
                terms.name,
                terms.topic.qualified_name,
                durable.active,
                queue.waiting() + queue.in_flight,
                queue.in_flight,
                _decoded(broker, [message for message in waiting if message is not None]),
            )
        )
    return backlogs


def _in_flight(broker: EmbeddedBroker, queue: Queue, limit: int) -> list[HeldMessages]:
    consumers: list[HeldMessages] = []
    for subscription in queue.attached():
        references = subscription.in_flight.all_out()
        messages = [reference.message for reference in references if reference.message.destination == queue.name]
        if messages:
            consumers.append(HeldMessages(subscription.client_id, len(messages), _decoded(broker, messages[:limit])))
    return consumers


def _decoded(broker: EmbeddedBroker, messages: list[Message]) -> list[WaitingMessage]:
    formats = broker.service.broker.formats
    return [waiting_message(message, formats) for message in messages]
