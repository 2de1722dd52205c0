"""Messages that are given to listeners, in both shells."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

import pytest

from spanwire import client
from spanwire.client import aio, blocking
from spanwire.client.messages.message import Message
from spanwire.model.errors import IllegalStateError, JmsError
from spanwire.testing.broker import Broker
from spanwire.testing.queue import wait_until
from tests.support.client_shells import SHELLS, opened

PATIENCE: Final = 30.0
NO_DELAY: Final = "jms.redeliveryPolicy.initialRedeliveryDelay=0&jms.redeliveryPolicy.redeliveryDelay=0"


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def played(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, 2 * PATIENCE))


class Heard:
    """A listener for both shells: remembers, and fails for bodies that begin with ``bad``."""

    def __init__(self, count: int) -> None:
        self.bodies: list[object] = []
        self.at_once = 0
        self.most_at_once = 0
        self._count = count
        self._is_done = threading.Event()

    def __call__(self, message: Message) -> None:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        self.bodies.append(message.body)
        self.at_once -= 1
        if len(self.bodies) >= self._count:
            self._is_done.set()
        if str(message.body).startswith("bad"):
            raise ValueError("a body that the listener does not like")

    async def all(self) -> list[object]:
        assert await asyncio.to_thread(self._is_done.wait, PATIENCE), self.bodies
        return self.bodies


def test_a_listener_gets_every_message_and_what_it_has_done_is_acknowledged(
    spanwire_broker: Broker, shell: str
) -> None:
    async def scenario() -> None:
        async with opened(shell, spanwire_broker.url) as connection, connection.session() as session:
            producer = await session.create_producer("queue://L")
            consumer = await session.create_consumer("queue://L")
            heard = Heard(3)
            consumer.listen(heard)
            for body in "abc":
                await producer.send(body)
            assert await heard.all() == ["a", "b", "c"]
            await consumer.close()
        spanwire_broker.queue("L").wait_for(PATIENCE, pending=0, dequeued=3)

    played(scenario())


def test_what_a_listener_fails_at_comes_again_and_is_a_dead_letter_in_the_end(
    spanwire_broker: Broker, shell: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        url = f"{spanwire_broker.url}?{NO_DELAY}&jms.redeliveryPolicy.maximumRedeliveries=2"
        async with opened(shell, url) as connection, connection.session() as session:
            producer = await session.create_producer("queue://L")
            consumer = await session.create_consumer("queue://L")
            heard = Heard(4)
            await producer.send("bad")
            await producer.send("good")
            consumer.listen(heard)
            assert await heard.all() == ["bad", "bad", "bad", "good"]
        spanwire_broker.queue("ActiveMQ.DLQ").wait_for(PATIENCE, pending=1)
        told = [line for line in caplog.messages if line.startswith("the listener for queue://L failed at message ID:")]
        assert len(told) == 3

    played(scenario())


def test_the_listeners_of_a_session_take_turns_and_stop_when_they_are_told(spanwire_broker: Broker, shell: str) -> None:
    async def scenario() -> None:
        async with opened(shell, spanwire_broker.url) as connection, connection.session() as session:
            producer = await session.create_producer()
            heard = Heard(20)
            consumers = [await session.create_consumer(f"queue://L.{name}") for name in "ab"]
            for consumer in consumers:
                consumer.listen(heard)
            for number in range(20):
                await producer.send(str(number), destination=f"queue://L.{'ab'[number % 2]}", wait=False)
            await heard.all()
            assert heard.most_at_once == 1
            with pytest.raises(IllegalStateError, match="stop_listening first"):
                consumers[0].listen(heard)
            await consumers[0].stop_listening()
            await producer.send("after", destination="queue://L.a")
            message = await consumers[0].receive(PATIENCE)
            assert message.body == "after"
            assert "after" not in heard.bodies

    played(scenario())


def test_a_coroutine_function_may_listen(spanwire_broker: Broker) -> None:
    async def scenario() -> None:
        async with aio.connect(spanwire_broker.url) as connection, connection.session("client") as session:
            producer = await session.create_producer("queue://L")
            consumer = await session.create_consumer("queue://L")
            done = asyncio.Event()

            async def hears(message: Message) -> None:
                await asyncio.sleep(0)
                await message.acknowledge()
                done.set()

            consumer.listen(hears)
            await producer.send("a")
            await done.wait()
        spanwire_broker.queue("L").wait_for(PATIENCE, pending=0, dequeued=1)

    played(scenario())


def test_a_session_may_be_closed_by_its_listener(spanwire_broker: Broker) -> None:
    with blocking.connect(spanwire_broker.url) as connection:
        session = connection.session("client")
        closed = threading.Event()

        def hears(message: Message) -> None:
            session.close()
            closed.set()

        session.create_consumer("queue://L").listen(hears)
        with connection.session() as other:
            other.create_producer("queue://L").send("a")
        assert closed.wait(PATIENCE)
        spanwire_broker.queue("L").wait_for(PATIENCE, consumers=0, pending=1)


def test_a_listener_is_told_when_there_will_be_no_more(spanwire_broker: Broker, shell: str) -> None:
    async def scenario() -> None:
        connection = await opened(shell, spanwire_broker.url)
        consumer = await connection.session().create_consumer("queue://L")
        told: list[JmsError] = []
        is_told = threading.Event()

        def on_error(error: JmsError) -> None:
            told.append(error)
            is_told.set()

        consumer.listen(Heard(1), on_error)
        await asyncio.to_thread(spanwire_broker.stop)
        assert await asyncio.to_thread(is_told.wait, PATIENCE)
        assert "ended" in str(told[0])
        await connection.close()

    played(scenario())


def test_a_listener_without_anybody_to_tell_says_in_the_log_that_it_ends(
    spanwire_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with client.connect(spanwire_broker.url) as connection:
        connection.session().create_consumer("queue://L").listen(Heard(1))
        spanwire_broker.stop()
        assert wait_until(lambda: any("queue://L gets no more messages" in line for line in caplog.messages), PATIENCE)
