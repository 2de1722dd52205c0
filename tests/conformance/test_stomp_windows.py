"""Sources of STOMP keep so many bytes in memory, whatever the broker sends while a receipt is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from spanwire.bridges.model.definition import ConnectionFactory, Source
from spanwire.bridges.providers import window as window_module
from spanwire.bridges.providers.stomp import connection as connection_module
from spanwire.bridges.providers.stomp.provider import StompProvider
from spanwire.testing import Broker
from tests.conformance.source_windows import COUNT, CREDIT, ROOM, WAIT_S, Q, SourceWindows, T, send


class TestStompWindows(SourceWindows):
    provider = StompProvider()
    most = ROOM

    @pytest.fixture
    def broker(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
        monkeypatch.setattr(connection_module, "MAX_OCTETS", ROOM)
        monkeypatch.setattr(window_module, "AIM", ROOM // 2)
        with Broker() as running:
            yield running

    def factory(self, broker: Broker) -> ConnectionFactory:
        return ConnectionFactory(broker.stomp_url, provider="stomp")

    def held(self, source: Any) -> int:
        return int(source._receiver.connection.inbox.octets)

    def window(self, source: Any) -> int:
        return int(source._receiver._window.size)

    @contextmanager
    def awaiting_answer(self, source: Any) -> Iterator[None]:
        connection = source._receiver.connection
        receipt = connection.receipt()
        yield
        connection.forget([receipt])

    def number(self, message: Any) -> int:
        return int(message.content.frame.body[:5])

    def test_a_late_message_of_the_subscription_before_is_not_kept(self, broker: Broker) -> None:
        """ActiveMQ sends some after the receipt of UNSUBSCRIBE, and again to the next subscription."""

        async def scenario() -> None:
            send(broker, Q)
            source = await self.opened(broker)
            await self.all_sent(broker, source)
            connection = source._receiver.connection
            late = connection.inbox._items[-1][0]
            await self.crossed(source)
            connection._take(late)
            assert await source.receive(1, ROOM, 0.0) == []
            await source.close()

        asyncio.run(scenario())

    def test_a_connection_is_left_after_all_messages_sent_ahead(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The next connection would receive later messages first, while the broker takes these back."""
        monkeypatch.setattr(connection_module, "CLOSE_S", 0.0)

        async def scenario() -> None:
            send(broker, Q)
            source = await self.opened(broker)
            connection, answered = source._receiver.connection, []
            request = connection.request

            async def answer(command: str, headers: connection_module.Headers) -> None:
                await request(command, headers)
                answered.append(command)

            connection.request = answer
            await connection.leave()
            assert answered == ["DISCONNECT"]

        asyncio.run(scenario())

    @pytest.mark.parametrize("is_rabbit", [False, True])
    def test_a_durable_subscription_of_stomp_keeps_few_bytes_and_loses_none(
        self, broker: Broker, is_rabbit: bool
    ) -> None:
        """RabbitMQ takes messages back at the end of a connection, and so does this broker."""

        async def scenario() -> None:
            own = Source(self.factory(broker), T, subscription="name", client_id="client")
            source: Any = await self.provider.open_source(own, CREDIT)
            send(broker, T)
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
                numbers += [self.number(message) for message in messages]
                await source.acknowledge()
                receiver.connection.is_rabbit = is_rabbit
            assert numbers == list(range(COUNT))
            assert (receiver.connection is not first) is is_rabbit
            await source.close()

        asyncio.run(scenario())
