"""What tests of the data pipeline put into queues and find there, through the blocking client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from spanwire.client import blocking
from spanwire.client.message import Message

FIRST_TIMEOUT_S = 10.0
IDLE_TIMEOUT_S = 0.5


@dataclass(frozen=True)
class Sent:
    """A message to be sent."""

    body: object = None
    properties: Mapping[str, object] = field(default_factory=dict)


def send(url: str, queue: str, messages: Iterable[Sent]) -> int:
    """Send all of them in one transaction; their number."""
    count = 0
    with blocking.connect(url) as connection, connection.session(acknowledge="transacted") as session:
        producer = session.create_producer(f"queue://{queue}")
        for message in messages:
            producer.send(message.body, properties=dict(message.properties))
            count += 1
        session.commit()
    return count


def numbered(count: int, start: int = 0) -> Iterable[Sent]:
    """Texts with a number in the property n."""
    return (Sent(f"text {n}", {"n": n}) for n in range(start, start + count))


def take(url: str, queue: str, count: int) -> list[Message]:
    """Take up to ``count`` messages off a queue; fewer when no more come."""
    found: list[Message] = []
    with blocking.connect(url) as connection, connection.session(acknowledge="auto") as session:
        consumer = session.create_consumer(f"queue://{queue}")
        timeout = FIRST_TIMEOUT_S
        while len(found) < count:
            message = consumer.receive(timeout=timeout)
            if message is None:
                break
            found.append(message)
    return found


def take_all(url: str, queue: str) -> list[Message]:
    """Empty a queue."""
    found: list[Message] = []
    with blocking.connect(url) as connection, connection.session(acknowledge="auto") as session:
        consumer = session.create_consumer(f"queue://{queue}")
        while (message := consumer.receive(timeout=IDLE_TIMEOUT_S)) is not None:
            found.append(message)
    return found
