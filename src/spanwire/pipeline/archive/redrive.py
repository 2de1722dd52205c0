"""Groups dead letters by cause and sends them to their original destinations.

Each message is received and sent in one transaction, so no message is lost or duplicated. Works with every OpenWire
broker and without Spark. On the machine of a running Spanwire broker, ``spanwire dlq retry`` does the same in the
broker.
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
ORIGINAL_MODE: Final = "originalDeliveryMode"  # property of a dead letter that was not persistent originally
NON_PERSISTENT: Final = "NON_PERSISTENT"  # its value
DEAD_LETTER_PROPERTIES: Final = frozenset({CAUSE, ORIGINAL_MODE, "originalExpiration", "originalRedeliveryCount"})
MAX_CAUSE: Final = 120  # characters of a cause that distinguish groups
BATCH: Final = 100  # messages of one transaction
WAIT_S: Final = 2.0  # seconds; a queue without a message for so long is empty
MAX_GROUPS: Final = 1000  # listed groups; further groups are counted together
OTHERS: Final = "(other causes)"
NUMBERS: Final = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters with one cause and one original destination."""

    cause: str
    destination: str
    count: int


def group_dead_letters(options: ReadOptions) -> list[Group]:
    """Return the dead letters of a queue by group, the largest group first, without removing them.

    Raises:
        JmsError: the broker is lost or refuses the browser.
    """
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
    """Return the cause of a dead letter with masked numbers, so that similar causes are equal."""
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
    """Send dead letters to their original destinations or to ``target``; return the number.

    Args:
        limit: the largest number of messages, or ``None``.
        rate: messages per second, or ``None``.
        wait: waits some seconds and returns True to stop.

    Raises:
        ConfigurationError: a message has no original destination or a body of kind blob; the transaction is rolled
            back.
        JmsError: the broker is lost.
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
    """Send one dead letter to its original or another destination.

    Raises:
        ConfigurationError: the original destination is missing or impossible.
    """
    destination = target_override or message.original_destination
    if destination is None:
        raise ConfigurationError(
            f"spanwire: the dead letter {message.message_id} has no original destination; name a destination with --to"
        )
    if target_override is None and (destination.is_advisory or destination == CONTROL):
        raise ConfigurationError(
            f"spanwire: the dead letter {message.message_id} names {destination} as its original destination, which "
            "has no dead letters, so it was forged; leave it out with --selector, or name a destination with --to"
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
    """Return the message, to be sent with an unchanged body.

    Raises:
        ConfigurationError: the body is stored outside of the message.
    """
    if message.kind == "blob":
        raise ConfigurationError(
            f"spanwire: the dead letter {message.message_id} is of kind blob, which cannot be sent from here; ask its "
            "broker with spanwire dlq retry, or leave it out with --selector"
        )
    return message
