"""What tests of the data pipeline put into queues and find there, through the blocking client."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from spanwire.client import Body, Properties, blocking
from spanwire.client.messages.message import Message

TIMEOUT_S = 60.0  # for a message that comes; nobody waits that long for one that does not
LAST = "nothing follows"


@dataclass(frozen=True)
class Sent:
    """A message to be sent."""

    body: Body = None
    properties: Properties = field(default_factory=dict)


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
    """Take ``count`` messages off a queue; fewer when no more come for a long time."""
    found: list[Message] = []
    with blocking.connect(url) as connection, connection.session(acknowledge="auto") as session:
        consumer = session.create_consumer(f"queue://{queue}")
        while len(found) < count and (message := consumer.receive(timeout=TIMEOUT_S)) is not None:
            found.append(message)
    return found


def take_all(url: str, queue: str) -> list[Message]:
    """Empty a queue."""
    with blocking.connect(url) as connection, connection.session(acknowledge="auto") as session:
        return rest(session, session.create_consumer(f"queue://{queue}"), queue)


def rest(session: blocking.Session, consumer: blocking.Consumer, queue: str) -> list[Message]:
    """All that is left in the queue of a consumer; a last message, sent behind all others, tells where it ends."""
    session.create_producer(f"queue://{queue}").send(LAST)
    found: list[Message] = []
    while True:
        message = consumer.receive(timeout=TIMEOUT_S)
        assert message is not None, f"the end of {queue} did not come"
        if message.body == LAST:
            return found
        found.append(message)
