"""Sources keep so many bytes in memory, whatever their broker sends while an answer is awaited.

A test module inherits the class and says what differs in its protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final

from spanwire import client
from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.ports import WindowedSource
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.testing import Broker

WAIT_S: Final = 30.0
ROOM: Final = 64 * 1024  # for `MAX_OCTETS` here: a thousandth of the real one
LARGE: Final = 4 * 1024
CREDIT: Final = 400
COUNT: Final = 300  # messages, which would take more than a megabyte
Q: Final = Destination(QUEUE, "Q")
T: Final = Destination(TOPIC, "T")
TARGET: Final = Destination(QUEUE, "TARGET")


def send(broker: Broker, destination: Destination, count: int = COUNT, size: int = LARGE) -> None:
    """Send numbered messages."""
    with client.connect(broker.url) as connection, connection.session() as session:
        producer = session.create_producer(destination)
        for number in range(count):
            producer.send(f"{number:05}" + "x" * size)


class SourceWindows:
    """The dialogues of all protocols."""

    provider: ClassVar[Any]
    most: ClassVar[int]  # bytes of messages that wait

    def factory(self, broker: Broker) -> ConnectionFactory:
        """Return the address of a broker."""
        raise NotImplementedError

    def held(self, source: Any) -> int:
        """Return the bytes of the messages that wait in a source or transaction."""
        raise NotImplementedError

    def window(self, source: Any) -> int:
        """Return how many messages the broker may send ahead."""
        raise NotImplementedError

    def awaiting_answer(self, source: Any) -> AbstractContextManager[object]:
        """Await an answer that the broker does not give."""
        raise NotImplementedError

    def number(self, message: Any) -> int:
        """Return the number with which the body of a message begins."""
        raise NotImplementedError

    async def opened(self, broker: Broker) -> Any:
        """Return a source of the queue."""
        return await self.provider.open_source(Source(self.factory(broker), Q), CREDIT)

    async def all_sent(self, broker: Broker, source: Any) -> None:
        """Wait until the broker has sent all messages, while an answer is awaited and few bytes are held."""
        with self.awaiting_answer(source):
            async with asyncio.timeout(WAIT_S):
                while (view := broker.view(Q)) is None or view.in_flight < COUNT:
                    assert self.held(source) <= self.most
                    await asyncio.sleep(0.01)
                for _ in range(20):
                    assert self.held(source) <= self.most
                    await asyncio.sleep(0.01)

    async def crossed(
        self, source: Any, count: int = COUNT, end: Callable[[list[Any]], Awaitable[object]] | None = None
    ) -> list[int]:
        """Receive as a bridge does whose batch waits for good until it is full; return the numbers of the messages."""
        assert isinstance(source, WindowedSource)
        numbers: list[int] = []
        async with asyncio.timeout(WAIT_S):
            while len(numbers) < count:
                batch: list[Any] = []
                while len(batch) < 50 and len(numbers) + len(batch) < count and not source.is_exhausted():
                    batch += await source.receive(50 - len(batch), ROOM, 1.0)  # type: ignore[attr-defined]
                    assert self.held(source) <= self.most
                await (source.acknowledge() if end is None else end(batch))  # type: ignore[attr-defined]
                numbers += [self.number(one) for one in batch]
        return numbers

    def test_a_source_holds_few_bytes_while_an_answer_is_awaited(self, broker: Broker) -> None:
        async def scenario() -> None:
            send(broker, Q)
            source = await self.opened(broker)
            await self.all_sent(broker, source)
            assert await self.crossed(source) == list(range(COUNT))
            assert self.window(source) < CREDIT // 4
            await source.close()
            view = broker.view(Q)
            assert view is not None and (view.pending, view.in_flight) == (0, 0)

        asyncio.run(scenario())

    def test_a_larger_window_opens_when_messages_become_small(self, broker: Broker) -> None:
        async def scenario() -> None:
            send(broker, Q)
            source = await self.opened(broker)
            await self.crossed(source)
            for _ in range(4):
                send(broker, Q, size=1)
                assert await self.crossed(source) == list(range(COUNT))
            assert self.window(source) > CREDIT // 4
            await source.close()

        asyncio.run(scenario())

    def test_a_local_transaction_holds_few_bytes(self, broker: Broker) -> None:
        async def scenario() -> None:
            send(broker, Q)
            factory = self.factory(broker)
            transaction = await self.provider.open_transaction(Source(factory, Q), Target(factory, TARGET), CREDIT)

            async def end(batch: list[Any]) -> None:
                await transaction.send(batch)
                await transaction.commit()

            await self.all_sent(broker, transaction)
            assert await self.crossed(transaction, end=end) == list(range(COUNT))
            await transaction.close()
            assert [int(str(message.body)[:5]) for message in broker.browse(TARGET, COUNT + 1)] == list(range(COUNT))

        asyncio.run(scenario())
