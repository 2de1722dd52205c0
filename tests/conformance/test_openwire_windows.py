"""Sources of OpenWire keep so many bytes in memory, whatever the broker sends while an answer is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from spanwire import client
from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.ports import WindowedSource
from spanwire.bridges.providers import window as window_module
from spanwire.bridges.providers.openwire import source_consumer
from spanwire.bridges.providers.openwire.provider import OpenWireProvider
from spanwire.bridges.xa.branches import BranchNames, Side
from spanwire.client.protocol.response_correlator import ORDINARY, Request
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import JmsError
from spanwire.testing import Broker

WAIT_S: Final = 30.0
ROOM: Final = 64 * 1024  # for `MAX_OCTETS` here: a thousandth of the real one
LARGE: Final = 4 * 1024
HEADERS: Final = 1024  # more than a message has beside its body
CREDIT: Final = 400
COUNT: Final = 300  # messages, which would take more than a megabyte
Q: Final = Destination(QUEUE, "Q")
T: Final = Destination(TOPIC, "T")
TARGET: Final = Destination(QUEUE, "TARGET")


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(source_consumer, "MAX_OCTETS", ROOM)
    monkeypatch.setattr(window_module, "AIM", ROOM // 2)
    with Broker() as running:
        yield running


def send(broker: Broker, destination: Destination, count: int, size: int = LARGE) -> None:
    with client.connect(broker.url) as connection, connection.session() as session:
        producer = session.create_producer(destination)
        for number in range(count):
            producer.send(f"{number:05}" + "x" * size)


def held_of(source: Any) -> int:
    """The bytes of the messages of all consumers of a connection."""
    return int(source._connection.shared.core.correlator.buffered_bytes)


async def all_sent(broker: Broker, source: Any, name: Destination, count: int) -> int:
    """Wait until the broker has sent all messages, while an answer is awaited; return the most bytes held."""
    shared, most = source._connection.shared, 0
    answer = asyncio.create_task(shared.answer(Request(0, ORDINARY, 0)))
    async with asyncio.timeout(WAIT_S):
        while shared.core.correlator.requests or (view := broker.view(name)) is None or view.in_flight < count:
            most = max(most, held_of(source))
            await asyncio.sleep(0.01)
        for _ in range(20):
            most = max(most, held_of(source))
            await asyncio.sleep(0.01)
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)
    return most


async def crossed(source: Any, count: int, end: Any) -> list[int]:
    """Receive as a bridge does whose batch waits for good until it is full; return the numbers of the messages."""
    assert isinstance(source, WindowedSource)
    numbers: list[int] = []
    async with asyncio.timeout(WAIT_S):
        while len(numbers) < count:
            batch: list[Any] = []
            while len(batch) < 50 and len(numbers) + len(batch) < count and not source.is_exhausted():
                batch += await source.receive(50 - len(batch), ROOM, 1.0)  # type: ignore[attr-defined]
                assert held_of(source) <= ROOM + LARGE + HEADERS
            await end(batch)
            numbers += [int(str(one.content.body)[:5]) for one in batch]
    return numbers


def test_a_source_holds_few_bytes_while_an_answer_is_awaited(broker: Broker) -> None:
    async def scenario() -> None:
        send(broker, Q, COUNT)
        source: Any = await OpenWireProvider().open_source(Source(ConnectionFactory(broker.url), Q), CREDIT)
        assert await all_sent(broker, source, Q, COUNT) <= ROOM + LARGE + HEADERS
        assert await crossed(source, COUNT, lambda _: source.acknowledge()) == list(range(COUNT))
        assert source._consumer.core.prefetch < CREDIT
        await source.close()
        view = broker.view(Q)
        assert view is not None and (view.pending, view.in_flight) == (0, 0)

    asyncio.run(scenario())


def test_a_larger_window_opens_when_messages_become_small(broker: Broker) -> None:
    async def scenario() -> None:
        send(broker, Q, COUNT)
        source: Any = await OpenWireProvider().open_source(Source(ConnectionFactory(broker.url), Q), CREDIT)
        await crossed(source, COUNT, lambda _: source.acknowledge())
        for _ in range(4):
            send(broker, Q, COUNT, size=1)
            assert await crossed(source, COUNT, lambda _: source.acknowledge()) == list(range(COUNT))
        assert source._consumer.core.prefetch > CREDIT // 4
        await source.close()

    asyncio.run(scenario())


def test_a_batch_handed_over_is_acknowledged_before_the_next_consumer(broker: Broker) -> None:
    """Its messages would come twice if the consumer were closed before."""

    async def scenario() -> None:
        send(broker, Q, COUNT)
        source: Any = await OpenWireProvider().open_source(Source(ConnectionFactory(broker.url), Q), CREDIT)
        await all_sent(broker, source, Q, COUNT)
        batches: list[Any] = []
        while batch := await source.receive(50, ROOM, 0.1):
            batches.append(batch)
        acknowledge = source.acknowledge_later()
        assert source.is_exhausted() and await source.receive(50, ROOM, 0.1) == []
        waiting = asyncio.create_task(source.receive(50, ROOM, WAIT_S))
        await asyncio.sleep(0)
        await acknowledge()
        first = (await waiting)[0]
        assert int(str(first.content.body)[:5]) == sum(map(len, batches)) and not first.is_redelivered
        await source.close()

    asyncio.run(scenario())


def test_a_bridge_acknowledges_what_it_has_received_whatever_the_priorities(broker: Broker) -> None:
    async def scenario() -> None:
        with client.connect(broker.url) as connection, connection.session() as session:
            producer = session.create_producer(Q)
            for number in range(COUNT):
                producer.send(f"{number:05}" + "x" * LARGE, priority=number % 10)
        url = f"{broker.url}?jms.messagePrioritySupported=true"
        source: Any = await OpenWireProvider().open_source(Source(ConnectionFactory(url), Q), CREDIT)
        await all_sent(broker, source, Q, COUNT)
        assert await crossed(source, COUNT, lambda _: source.acknowledge()) == list(range(COUNT))
        await source.close()

    asyncio.run(scenario())


def test_a_local_transaction_holds_few_bytes(broker: Broker) -> None:
    async def scenario() -> None:
        send(broker, Q, COUNT)
        factory = ConnectionFactory(broker.url)
        transaction: Any = await OpenWireProvider().open_transaction(
            Source(factory, Q), Target(factory, TARGET), CREDIT
        )

        async def end(batch: list[Any]) -> None:
            await transaction.send(batch)
            await transaction.commit()

        assert await all_sent(broker, transaction, Q, COUNT) <= ROOM + LARGE + HEADERS
        assert await crossed(transaction, COUNT, end) == list(range(COUNT))
        await transaction.close()
        assert [int(str(message.body)[:5]) for message in broker.browse(TARGET, COUNT + 1)] == list(range(COUNT))

    asyncio.run(scenario())


def test_a_source_of_distributed_transactions_holds_few_bytes(broker: Broker) -> None:
    async def scenario() -> None:
        send(broker, Q, COUNT)
        source: Any = await OpenWireProvider().open_xa_source(Source(ConnectionFactory(broker.url), Q), CREDIT)
        names = BranchNames("log", "bridge", "run")

        async def end(batch: list[Any]) -> None:
            branch = names.branch(names.next_transaction(), Side.SOURCE)
            assert await source.prepare(branch)
            await source.commit(branch)

        assert await crossed(source, COUNT, end) == list(range(COUNT))
        assert source._consumer.core.prefetch < CREDIT
        await source.close()
        view = broker.view(Q)
        assert view is not None and (view.pending, view.in_flight) == (0, 0)

    asyncio.run(scenario())


def test_a_late_acknowledgement_does_not_look_like_an_empty_source(broker: Broker) -> None:
    """A bridge that ends with its source would stop before the messages that the broker sends again."""

    async def scenario() -> None:
        send(broker, Q, COUNT)
        source: Any = await OpenWireProvider().open_source(Source(ConnectionFactory(broker.url), Q), CREDIT)
        await all_sent(broker, source, Q, COUNT)
        while not source.is_exhausted():
            await source.receive(50, ROOM, 0.1)
        acknowledge = source.acknowledge_later()
        assert await source.receive(50, ROOM, 0.1) == []
        await acknowledge()
        assert source.is_exhausted()
        assert await source.receive(50, ROOM, WAIT_S)
        assert not source.is_exhausted()
        await source.close()

    asyncio.run(scenario())


def test_a_branch_that_an_administrator_ends_keeps_no_window_closed(broker: Broker) -> None:
    async def scenario() -> None:
        send(broker, Q, COUNT)
        source: Any = await OpenWireProvider().open_xa_source(Source(ConnectionFactory(broker.url), Q), CREDIT)
        names = BranchNames("log", "bridge", "run")

        async def end(batch: list[Any]) -> None:
            branch = names.branch(names.next_transaction(), Side.SOURCE)
            assert await source.prepare(branch)
            await source._session.xa.commit(branch)
            with pytest.raises(JmsError):
                await source.commit(branch)

        assert await crossed(source, COUNT, end) == list(range(COUNT))
        await source.close()

    asyncio.run(scenario())


def test_durable_subscriptions_of_one_connection_hold_few_bytes_each(broker: Broker) -> None:
    """A bridge that waits reads on, and so the messages of the other one come, too."""

    async def scenario() -> None:
        factory, provider = ConnectionFactory(broker.url), OpenWireProvider()
        sources: list[Any] = [
            await provider.open_source(Source(factory, T, subscription=name, client_id="client"), 2 * CREDIT)
            for name in ("idle", "busy")
        ]
        send(broker, T, COUNT)
        idle, busy = sources
        assert idle._connection is busy._connection
        most = 0
        for number in range(COUNT):
            (message,) = await busy.receive(1, ROOM, WAIT_S)
            assert int(str(message.content.body)[:5]) == number
            await busy.acknowledge()
            most = max(most, held_of(busy))
        assert most <= 2 * (ROOM + LARGE + HEADERS)
        assert await crossed(idle, COUNT, lambda _: idle.acknowledge()) == list(range(COUNT))
        for source in sources:
            await source.close()

    asyncio.run(scenario())


def test_a_topic_whose_messages_come_once_is_left_at_the_limit(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_consumer, "MAX_FLOOD", 4 * ROOM)

    async def scenario() -> None:
        source: Any = await OpenWireProvider().open_source(Source(ConnectionFactory(broker.url), T), CREDIT)
        send(broker, T, COUNT)
        answer = asyncio.create_task(source._connection.shared.answer(Request(0, ORDINARY, 0)))
        async with asyncio.timeout(WAIT_S):
            while not source._consumer.core.is_full:
                await asyncio.sleep(0.01)
        assert held_of(source) <= 4 * ROOM
        answer.cancel()
        with pytest.raises(JmsError, match="set subscriptionName"):
            await source.receive(50, ROOM, 1.0)
        await source.close()

    asyncio.run(scenario())
