"""``spanwire pipeline redrive``: dead letters by cause, and back to where they were sent first.

Taking a message out of the dead-letter queue and sending it are one transaction, so nothing is lost or doubled. Works
with every broker that speaks OpenWire and starts no Spark; of a running Spanwire broker on the same machine
``spanwire dlq retry`` asks the broker itself to do it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spanwire.client import blocking
from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.columns.destinations import target_destination
from spanwire.pipeline.link.connections import connect
from spanwire.pipeline.link.control_client import CONTROL
from spanwire.pipeline.options import ReadOptions
from spanwire.protocols.primitive_map import encode_map

CAUSE: Final = "dlqDeliveryFailureCause"
ORIGINAL_MODE: Final = "originalDeliveryMode"  # of a message that was not persistent before it was a dead letter
NON_PERSISTENT: Final = "NON_PERSISTENT"  # the value of that property
DEAD_LETTER_PROPERTIES: Final = frozenset({CAUSE, ORIGINAL_MODE, "originalExpiration", "originalRedeliveryCount"})
MAX_CAUSE: Final = 120  # characters of a cause that tell groups apart
BATCH: Final = 100  # messages of one transaction
WAIT_S: Final = 2.0  # for a message; a queue that gives none for so long has none
MAX_GROUPS: Final = 1000  # that are listed; further ones are counted together
OTHERS: Final = "(other causes)"
NUMBERS: Final = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters of one cause and one first destination."""

    cause: str
    destination: str
    count: int


def group_dead_letters(options: ReadOptions) -> list[Group]:
    """The dead letters of a queue, the largest group first. Nothing is taken. Raises `JmsError`."""
    counts: dict[tuple[str, str], int] = {}
    with connect(options.login) as connection, connection.session() as session:
        for message in session.create_browser(options.destination, selector=options.selector):
            first = message.original_destination
            key = (cause_of(message), "unknown" if first is None else str(first))
            if key not in counts and len(counts) >= MAX_GROUPS:
                key = (OTHERS, "")
            counts[key] = counts.get(key, 0) + 1
    group_dead_letters = [Group(cause, destination, count) for (cause, destination), count in counts.items()]
    return sorted(group_dead_letters, key=lambda group: (-group.count, group.cause, group.destination))


def cause_of(message: Message) -> str:
    """The cause of a dead letter without the numbers that differ from one to the next."""
    text = message.properties.get(CAUSE)
    return NUMBERS.sub("#", str(text)[:MAX_CAUSE]) if text is not None else "no cause is told"


def redrive(
    options: ReadOptions,
    target: str | None,
    limit: int | None,
    rate: int | None,
    now: Callable[[], float],
    wait: Callable[[float], object],
) -> int:
    """Send dead letters back, or to ``target``; how many. ``wait`` is given seconds and says whether to stop.

    Raises `ConfigurationError` for a message that does not tell its destination, or whose body cannot be sent: it and
    those of its transaction stay. Raises `JmsError`.
    """
    target_override = None if target is None else target_destination(target)
    count = 0
    started = now()
    with connect(options.login) as connection, connection.session(acknowledge="transacted") as session:
        consumer = session.create_consumer(options.destination, selector=options.selector)
        producer = session.create_producer(None)
        while limit is None or count < limit:
            wanted = BATCH if limit is None else min(BATCH, limit - count)
            sent = 0
            while sent < wanted and (message := consumer.receive(timeout=WAIT_S)) is not None:
                send_back(producer, message, target_override)
                sent += 1
            session.commit()
            count += sent
            pause_s = 0.0 if rate is None else max(0.0, started + count / rate - now())
            if sent < wanted or wait(pause_s):
                break
    return count


def send_back(producer: blocking.Producer, message: Message, target_override: Destination | None) -> None:
    """Send one dead letter to where it was sent first, or to another destination. Raises `ConfigurationError`."""
    destination = target_override or message.original_destination
    if destination is None:
        raise ConfigurationError(
            f"spanwire: the dead letter {message.message_id} does not tell where it was sent; "
            "name a destination with --to"
        )
    if target_override is None and (destination.is_advisory or destination == CONTROL):
        raise ConfigurationError(
            f"spanwire: the dead letter {message.message_id} says that it was sent to {destination}, where none dies: "
            "somebody has made it up; leave it out with --selector, or name a destination with --to"
        )
    headers = message.headers
    properties = {
        name: entry for name, entry in message.property_values().items() if name not in DEAD_LETTER_PROPERTIES
    }
    outgoing = Outgoing(
        body_of(message),
        properties=encode_map(properties) if properties else b"",
        destination=destination,
        message_type=message.message_type,
        correlation_id=message.correlation_id,
        reply_to=message.reply_to,
        persistent=headers.persistent and message.properties.get(ORIGINAL_MODE) != NON_PERSISTENT,
        priority=headers.priority,
        time_to_live_ms=0,
        group_id=headers.group_id,
        group_sequence=headers.group_sequence,
    )
    producer.send_all([outgoing])


def body_of(message: Message) -> Message:
    """The message, whose body goes as it came. Raises `ConfigurationError` for one whose body is elsewhere."""
    if message.kind == "blob":
        raise ConfigurationError(
            f"spanwire: the dead letter {message.message_id} is of kind blob, which cannot be sent from here; ask its "
            "broker with spanwire dlq retry, or leave it out with --selector"
        )
    return message
