"""Sources of OpenWire keep so many bytes in memory, whatever the broker sends while an answer is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from spanwire import client
from spanwire.bridges.model.definition import ConnectionFactory, Source
from spanwire.bridges.providers import window as window_module
from spanwire.bridges.providers.openwire import source_consumer
from spanwire.bridges.providers.openwire.provider import OpenWireProvider
from spanwire.bridges.xa.branches import BranchNames, Side
from spanwire.client.protocol.response_correlator import ORDINARY, Request
from spanwire.model.errors import JmsError
from spanwire.testing import Broker
from tests.conformance.source_windows import COUNT, CREDIT, LARGE, ROOM, WAIT_S, Q, SourceWindows, T, send

HEADERS: Final = 1024  # more than a message has beside its body


class TestOpenWireWindows(SourceWindows):
    provider = OpenWireProvider()
    most = ROOM + LARGE + HEADERS

    @pytest.fixture
    def broker(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
        monkeypatch.setattr(source_consumer, "MAX_OCTETS", ROOM)
        monkeypatch.setattr(window_module, "AIM", ROOM // 2)
        with Broker() as running:
            yield running

    def factory(self, broker: Broker) -> ConnectionFactory:
        return ConnectionFactory(broker.url)

    def held(self, source: Any) -> int:
        """Return the bytes of the messages of all consumers of a connection."""
        return int(source._connection.shared.core.correlator.buffered_bytes)

    def window(self, source: Any) -> int:
        return int(source._consumer.core.prefetch)

    @contextmanager
    def awaiting_answer(self, source: Any) -> Iterator[None]:
        answer = asyncio.create_task(source._connection.shared.answer(Request(0, ORDINARY, 0)))
        yield
        answer.cancel()

    def number(self, message: Any) -> int:
        return int(str(message.content.body)[:5])

    async def opened_with_branches(self, broker: Broker) -> tuple[Any, Callable[[], Awaitable[Any]]]:
        """Return a source of distributed transactions, and a function that prepares the next branch."""
        send(broker, Q)
        source: Any = await self.provider.open_xa_source(Source(self.factory(broker), Q), CREDIT)
        names = BranchNames("log", "bridge", "run")

        async def prepared() -> Any:
            branch = names.branch(names.next_transaction(), Side.SOURCE)
            assert await source.prepare(branch)
            return branch

        return source, prepared

    def test_a_batch_handed_over_is_acknowledged_before_the_next_consumer(self, broker: Broker) -> None:
        """Its messages would come twice if the consumer were closed before."""

        async def scenario() -> None:
            send(broker, Q)
            source = await self.opened(broker)
            await self.all_sent(broker, source)
            batches: list[Any] = []
            while batch := await source.receive(50, ROOM, 0.1):
                batches.append(batch)
            acknowledge = source.acknowledge_later()
            assert source.is_exhausted() and await source.receive(50, ROOM, 0.1) == []
            waiting = asyncio.create_task(source.receive(50, ROOM, WAIT_S))
            await asyncio.sleep(0)
            await acknowledge()
            first = (await waiting)[0]
            assert self.number(first) == sum(map(len, batches)) and not first.is_redelivered
            await source.close()

        asyncio.run(scenario())

    def test_a_bridge_acknowledges_what_it_has_received_whatever_the_priorities(self, broker: Broker) -> None:
        async def scenario() -> None:
            with client.connect(broker.url) as connection, connection.session() as session:
                producer = session.create_producer(Q)
                for number in range(COUNT):
                    producer.send(f"{number:05}" + "x" * LARGE, priority=number % 10)
            url = f"{broker.url}?jms.messagePrioritySupported=true"
            source: Any = await self.provider.open_source(Source(ConnectionFactory(url), Q), CREDIT)
            await self.all_sent(broker, source)
            assert await self.crossed(source) == list(range(COUNT))
            await source.close()

        asyncio.run(scenario())

    def test_a_source_of_distributed_transactions_holds_few_bytes(self, broker: Broker) -> None:
        async def scenario() -> None:
            source, prepared = await self.opened_with_branches(broker)

            async def end(batch: list[Any]) -> None:
                branch = await prepared()
                await source.commit(branch)

            assert await self.crossed(source, end=end) == list(range(COUNT))
            assert self.window(source) < CREDIT
            await source.close()
            view = broker.view(Q)
            assert view is not None and (view.pending, view.in_flight) == (0, 0)

        asyncio.run(scenario())

    def test_a_late_acknowledgement_does_not_look_like_an_empty_source(self, broker: Broker) -> None:
        """A bridge that ends with its source would stop before the messages that the broker sends again."""

        async def scenario() -> None:
            send(broker, Q)
            source = await self.opened(broker)
            await self.all_sent(broker, source)
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

    def test_a_branch_that_an_administrator_ends_keeps_no_window_closed(self, broker: Broker) -> None:
        async def scenario() -> None:
            source, prepared = await self.opened_with_branches(broker)

            async def end(batch: list[Any]) -> None:
                branch = await prepared()
                await source._session.xa.commit(branch)
                with pytest.raises(JmsError):
                    await source.commit(branch)

            assert await self.crossed(source, end=end) == list(range(COUNT))
            await source.close()

        asyncio.run(scenario())

    def test_durable_subscriptions_of_one_connection_hold_few_bytes_each(self, broker: Broker) -> None:
        """A bridge that waits reads on, and so the messages of the other one come, too."""

        async def scenario() -> None:
            factory, provider = self.factory(broker), self.provider
            sources: list[Any] = [
                await provider.open_source(Source(factory, T, subscription=name, client_id="client"), 2 * CREDIT)
                for name in ("idle", "busy")
            ]
            send(broker, T)
            idle, busy = sources
            assert idle._connection is busy._connection
            most = 0
            for number in range(COUNT):
                (message,) = await busy.receive(1, ROOM, WAIT_S)
                assert self.number(message) == number
                await busy.acknowledge()
                most = max(most, self.held(busy))
            assert most <= 2 * self.most
            assert await self.crossed(idle) == list(range(COUNT))
            for source in sources:
                await source.close()

        asyncio.run(scenario())

    def test_a_topic_whose_messages_come_once_is_left_at_the_limit(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(source_consumer, "MAX_FLOOD", 4 * ROOM)

        async def scenario() -> None:
            source: Any = await self.provider.open_source(Source(self.factory(broker), T), CREDIT)
            send(broker, T)
            answer = asyncio.create_task(source._connection.shared.answer(Request(0, ORDINARY, 0)))
            async with asyncio.timeout(WAIT_S):
                while not source._consumer.core.is_full:
                    await asyncio.sleep(0.01)
            assert self.held(source) <= 4 * ROOM
            answer.cancel()
            with pytest.raises(JmsError, match="set subscriptionName"):
                await source.receive(50, ROOM, 1.0)
            await source.close()

        asyncio.run(scenario())
