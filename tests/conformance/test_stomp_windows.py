"""Sources of STOMP keep so many bytes in memory, whatever the broker sends while a receipt is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from spanwire import client
from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.ports import WindowedSource
from spanwire.bridges.providers import window as window_module
from spanwire.bridges.providers.stomp import connection as connection_module
from spanwire.bridges.providers.stomp.provider import StompProvider
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.testing import Broker

WAIT_S: Final = 30.0
ROOM: Final = 64 * 1024  # for `MAX_OCTETS` here: a thousandth of the real one
LARGE: Final = 4 * 1024
CREDIT: Final = 200
COUNT: Final = 150  # messages, which would take more than half a megabyte
Q: Final = Destination(QUEUE, "Q")
T: Final = Destination(TOPIC, "T")
TARGET: Final = Destination(QUEUE, "TARGET")


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(connection_module, "MAX_OCTETS", ROOM)
    monkeypatch.setattr(window_module, "AIM", ROOM // 2)
    with Broker() as running:
        yield running


def factory(broker: Broker) -> ConnectionFactory:
    return ConnectionFactory(broker.stomp_url, provider="stomp")


def send(broker: Broker, destination: Destination, count: int, size: int = LARGE) -> None:
    with client.connect(broker.url) as connection, connection.session() as session:
        producer = session.create_producer(destination)
        for number in range(count):
            producer.send(f"{number:05}" + "x" * size)


async def all_sent(broker: Broker, source: Any, count: int) -> None:
    """Wait until the broker has sent all messages, while a receipt is awaited."""
    connection = source._receiver.connection
    receipt = connection.receipt()
    async with asyncio.timeout(WAIT_S):
        while (view := broker.view(Q)) is None or view.in_flight < count:
            assert connection.inbox.octets <= ROOM
            await asyncio.sleep(0.01)
    for _ in range(20):
        assert connection.inbox.octets <= ROOM
        await asyncio.sleep(0.01)
    connection.forget([receipt])


async def crossed(source: Any, count: int, end: Any) -> list[int]:
    """Receive as a bridge does whose batch waits for good until it is full; return the numbers of the messages."""
    assert isinstance(source, WindowedSource)
    numbers: list[int] = []
    async with asyncio.timeout(WAIT_S):
        while len(numbers) < count:
            batch: list[Any] = []
            while len(batch) < CREDIT // 2 and len(numbers) + len(batch) < count and not source.is_exhausted():
                batch += await source.receive(CREDIT // 2 - len(batch), ROOM, 1.0)  # type: ignore[attr-defined]
                assert source._receiver.connection.inbox.octets <= ROOM  # type: ignore[attr-defined]
            await end(batch)
            numbers += [int(message.content.frame.body[:5]) for message in batch]
    return numbers


def test_a_stomp_source_keeps_few_bytes_while_a_receipt_is_awaited(broker: Broker) -> None:
    async def scenario() -> None:
        send(broker, Q, COUNT)
        source: Any = await StompProvider().open_source(Source(factory(broker), Q), CREDIT)
        await all_sent(broker, source, COUNT)
        assert await crossed(source, COUNT, lambda _: source.acknowledge()) == list(range(COUNT))
        assert source._receiver._window.size <= ROOM // LARGE
        await source.close()
        view = broker.view(Q)
        assert view is not None and (view.pending, view.in_flight) == (0, 0)

    asyncio.run(scenario())


def test_a_larger_window_of_stomp_opens_when_messages_become_small(broker: Broker) -> None:
    async def scenario() -> None:
        send(broker, Q, COUNT)
        source: Any = await StompProvider().open_source(Source(factory(broker), Q), CREDIT)
        await crossed(source, COUNT, lambda _: source.acknowledge())
        for _ in range(4):
            send(broker, Q, COUNT, size=1)
            assert await crossed(source, COUNT, lambda _: source.acknowledge()) == list(range(COUNT))
        assert source._receiver._window.size > CREDIT // 2
        await source.close()

    asyncio.run(scenario())


def test_a_late_message_of_the_subscription_before_is_not_kept(broker: Broker) -> None:
    """ActiveMQ sends some after the receipt of UNSUBSCRIBE, and again to the next subscription."""

    async def scenario() -> None:
        send(broker, Q, COUNT)
        source: Any = await StompProvider().open_source(Source(factory(broker), Q), CREDIT)
        await all_sent(broker, source, COUNT)
        connection = source._receiver.connection
        late = connection.inbox._items[-1][0]
        await crossed(source, COUNT, lambda _: source.acknowledge())
        connection._take(late)
        assert await source.receive(1, ROOM, 0.0) == []
        await source.close()

    asyncio.run(scenario())


def test_a_connection_is_left_after_all_messages_sent_ahead(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next connection would receive later messages first, while the broker takes these back."""
    monkeypatch.setattr(connection_module, "CLOSE_S", 0.0)

    async def scenario() -> None:
        send(broker, Q, COUNT)
        source: Any = await StompProvider().open_source(Source(factory(broker), Q), CREDIT)
        connection, answered = source._receiver.connection, []
        request = connection.request

        async def answer(command: str, headers: connection_module.Headers) -> None:
            await request(command, headers)
            answered.append(command)

        connection.request = answer
        await connection.leave()
        assert answered == ["DISCONNECT"]

    asyncio.run(scenario())


def test_a_transaction_of_stomp_keeps_few_bytes(broker: Broker) -> None:
    async def scenario() -> None:
        send(broker, Q, COUNT)
        ends = Source(factory(broker), Q), Target(factory(broker), TARGET)
        transaction: Any = await StompProvider().open_transaction(*ends, CREDIT)

        async def end(batch: list[Any]) -> None:
            await transaction.send(batch)
            await transaction.commit()

        await all_sent(broker, transaction, COUNT)
        assert await crossed(transaction, COUNT, end) == list(range(COUNT))
        await transaction.close()
        assert [int(str(message.body)[:5]) for message in broker.browse(TARGET, COUNT + 1)] == list(range(COUNT))

    asyncio.run(scenario())


@pytest.mark.parametrize("is_rabbit", [False, True])
def test_a_durable_subscription_of_stomp_keeps_few_bytes_and_loses_none(broker: Broker, is_rabbit: bool) -> None:
    """RabbitMQ takes messages back at the end of a connection, and so does this broker."""

    async def scenario() -> None:
        own = Source(factory(broker), T, subscription="name", client_id="client")
        source: Any = await StompProvider().open_source(own, CREDIT)
        send(broker, T, COUNT)
        receiver = source._receiver
        numbers: list[int] = []
        subscribe = receiver.subscribe

        async def as_activemq(asks_for_maps: bool) -> None:
            receiver.connection.is_rabbit = False
            await subscribe(asks_for_maps)

        receiver.subscribe = as_activemq
        first = receiver.connection
        pending = first.receipt()
        async with asyncio.timeout(WAIT_S):
            while not first.is_full:
                await asyncio.sleep(0.01)
        first.forget([pending])
        while len(numbers) < COUNT:
            messages = await source.receive(CREDIT, ROOM, WAIT_S)
            numbers += [int(message.content.frame.body[:5]) for message in messages]
            await source.acknowledge()
            receiver.connection.is_rabbit = is_rabbit
        assert numbers == list(range(COUNT))
        assert (receiver.connection is not first) is is_rabbit
        await source.close()

    asyncio.run(scenario())
