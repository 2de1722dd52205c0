"""The transport of kombu against a broker of each test: acknowledgements, redelivery, exchanges, and names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.exceptions import ChannelError

from spanwire.adapters.kombu import register
from spanwire.model.errors import JmsError
from spanwire.testing import Broker

ORDERS = Queue("ORDERS", routing_key="ORDERS")


def connection_to(broker: Broker) -> Any:
    register()
    return Connection(f"spanwire://{broker.host}:{broker.port}")


@pytest.fixture
def connection(spanwire_broker: Broker) -> Iterator[Any]:
    with connection_to(spanwire_broker) as found:
        yield found


def publish(connection: Any, body: object, queue: Queue = ORDERS, **options: object) -> None:
    key = queue.routing_key
    Producer(connection.channel()).publish(body, exchange=queue.exchange, routing_key=key, declare=[queue], **options)


class Received:
    """A consumer that keeps its messages, and acknowledges none by itself."""

    def __init__(self, connection: Any, queue: Queue = ORDERS, prefetch: int = 0, **options: object) -> None:
        self.messages: list[Any] = []
        self._connection = connection
        self.channel = connection.channel()
        self.consumer = Consumer(self.channel, [queue], on_message=self.messages.append, **options)
        if prefetch:
            self.consumer.qos(prefetch_count=prefetch)
        self.consumer.consume()

    def next(self) -> Any:
        count = len(self.messages)
        while len(self.messages) == count:
            self._connection.drain_events(timeout=10)
        return self.messages[-1]

    def nothing_comes(self) -> bool:
        try:
            self._connection.drain_events(timeout=0.2)
        except TimeoutError:
            return True
        return False


def test_an_acknowledged_message_is_gone(connection: Any, spanwire_broker: Broker) -> None:
    publish(connection, {"item": "book"}, priority=7)
    (stored,) = spanwire_broker.queue("ORDERS").messages()
    assert stored.persistent
    message = Received(connection).next()
    assert message.payload == {"item": "book"}
    message.ack()
    spanwire_broker.queue("ORDERS").wait_for(pending=0, dequeued=1)


def test_a_message_without_an_acknowledgement_goes_to_another_worker(connection: Any, spanwire_broker: Broker) -> None:
    publish(connection, "book")
    with connection_to(spanwire_broker) as first:
        assert not Received(first).next().delivery_info.get("redelivered")
    message = Received(connection).next()
    assert message.payload == "book"
    message.ack()
    spanwire_broker.queue("ORDERS").wait_for(pending=0, dequeued=1)


def test_a_requeued_message_comes_again_and_a_rejected_one_does_not(connection: Any, spanwire_broker: Broker) -> None:
    publish(connection, "book")
    received = Received(connection)
    received.next().requeue()
    received.next().reject()
    assert [message.payload for message in received.messages] == ["book", "book"]
    spanwire_broker.queue("ORDERS").wait_for(pending=0, dequeued=2)


@pytest.mark.parametrize("answer", ["ack", "requeue"])
def test_a_worker_that_has_cancelled_its_consumer_still_answers_for_its_message(
    connection: Any, spanwire_broker: Broker, answer: str
) -> None:
    publish(connection, "book")
    with connection_to(spanwire_broker) as stopping:
        received = Received(stopping)
        message = received.next()
        received.consumer.cancel()
        idle = Received(connection)
        assert idle.nothing_comes()
        spanwire_broker.queue("ORDERS").wait_for(pending=1, consumers=2)
        getattr(message, answer)()
        spanwire_broker.queue("ORDERS").wait_for(consumers=1)
        assert idle.nothing_comes() == (answer == "ack")
    for found in idle.messages:
        found.ack()
    assert [found.payload for found in idle.messages] == ["book"] * (answer == "requeue")
    spanwire_broker.queue("ORDERS").wait_for(pending=0)


def test_a_cancelled_queue_can_be_consumed_again(connection: Any, spanwire_broker: Broker) -> None:
    publish(connection, "book")
    received = Received(connection)
    message = received.next()
    received.consumer.cancel()
    received.consumer.consume()
    message.ack()
    publish(connection, "pen")
    assert received.next().payload == "pen"
    spanwire_broker.queue("ORDERS").wait_for(pending=1, dequeued=1)


def test_a_worker_at_its_prefetch_limit_holds_nothing_that_others_could_do(
    connection: Any, spanwire_broker: Broker
) -> None:
    for number in range(3):
        publish(connection, number)
    busy = Received(connection, prefetch=1)
    first = busy.next()
    with connection_to(spanwire_broker) as other:
        idle = Received(other)
        assert [idle.next().payload, idle.next().payload] == [1, 2]
        first.ack()
        assert busy.nothing_comes()


def test_messages_without_acknowledgement_are_done_as_they_come(connection: Any, spanwire_broker: Broker) -> None:
    publish(connection, "book")
    assert Received(connection, no_ack=True).next().payload == "book"
    spanwire_broker.queue("ORDERS").wait_for(pending=0, dequeued=1)


def test_each_process_with_a_queue_of_a_fanout_exchange_gets_a_copy(connection: Any, spanwire_broker: Broker) -> None:
    exchange = Exchange("news", type="fanout")
    with connection_to(spanwire_broker) as other:
        here, there = Received(connection, Queue("a", exchange)), Received(other, Queue("b", exchange))
        Producer(connection.channel(), exchange).publish("hello", declare=[exchange])
        assert (here.next().payload, there.next().payload) == ("hello", "hello")


@pytest.mark.parametrize(("kind", "bound"), [("direct", "EU"), ("topic", "*.EU")])
def test_a_message_finds_a_queue_that_another_process_has_bound(
    connection: Any, spanwire_broker: Broker, kind: str, bound: str
) -> None:
    exchange = Exchange("orders", type=kind)
    with connection_to(spanwire_broker) as other:
        there = Received(other, Queue("ORDERS.EU", exchange, routing_key=bound))
        key = bound.replace("*", "books")
        Producer(connection.channel(), exchange).publish("book", routing_key=key, declare=[exchange])
        assert there.next().payload == "book"


def test_a_message_expires_and_a_purge_counts(connection: Any, spanwire_broker: Broker) -> None:
    publish(connection, "late", expiration=60)
    spanwire_broker.advance(61)
    spanwire_broker.queue("ORDERS").wait_for(pending=0)
    publish(connection, "one")
    publish(connection, "two")
    channel = connection.channel()
    assert channel.queue_declare("ORDERS").message_count == 2
    assert channel.queue_purge("ORDERS") == 2
    spanwire_broker.queue("ORDERS").wait_for(pending=0)


@pytest.mark.parametrize("name", ["A,B", "A.>", "A.*", "A?consumer.exclusive=true"])
def test_a_name_with_a_meaning_of_its_own_is_refused(connection: Any, name: str) -> None:
    with pytest.raises(ChannelError, match="a meaning of its own"):
        connection.channel().queue_declare(name)


def test_a_wrong_password_is_an_error_that_kombu_knows(spanwire_broker_factory: Any) -> None:
    broker = spanwire_broker_factory(users={"shop": "secret"})
    register()
    with Connection(f"spanwire://shop:wrong@{broker.host}:{broker.port}") as refused:
        with pytest.raises(JmsError) as caught:
            refused.channel()
        assert isinstance(caught.value, refused.connection_errors)
    with Connection(f"spanwire://shop:secret@{broker.host}:{broker.port}") as accepted:
        publish(accepted, "book")
    broker.queue("ORDERS").wait_for(pending=1)


def test_without_kombu_the_error_has_the_command_that_installs_it() -> None:
    program = "import sys; sys.modules['kombu.transport'] = None; import spanwire.adapters.kombu"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "kombu is not installed; run: " in done.stderr.splitlines()[-1]
