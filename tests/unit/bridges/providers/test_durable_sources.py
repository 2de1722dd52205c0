"""The connection that durable subscriptions of one client id share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Final

import pytest

from spanwire.bridges.model.definition import ConnectionFactory, Source
from spanwire.bridges.providers.openwire import durable_sources, provider
from spanwire.bridges.providers.openwire.durable_sources import SharedConnection, shared_connection
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import JmsError

FACTORY: Final = ConnectionFactory("tcp://host")
WAIT_S: Final = 10.0
USERS: Final = 3


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


class FakeBroker:
    """A broker that accepts a client id once, and answers when the test wants."""

    def __init__(self) -> None:
        self.attempts = 0
        self.waiting = 0
        self.answers: Final = asyncio.Event()
        self.is_silent = False
        self.closed: Final[list[Any]] = []
        self._connections = 0

    async def connect(self, *_: object) -> Any:
        self.attempts += 1
        self.waiting += 1
        try:
            await self.answers.wait()
        finally:
            self.waiting -= 1
        if self.is_silent:
            raise JmsError("no answer")
        assert self._connections == 0, "the client id is in use"
        self._connections += 1
        return SimpleNamespace(shared=SimpleNamespace(check=lambda: None), session=lambda _: None)

    async def close(self, connection: Any) -> None:
        await asyncio.sleep(0)
        self._connections -= 1
        self.closed.append(connection)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    made = FakeBroker()
    monkeypatch.setattr(durable_sources, "connect", made.connect)
    monkeypatch.setattr(durable_sources, "close", made.close)
    return made


async def users(count: int = USERS) -> tuple[SharedConnection, list[asyncio.Task[Any]]]:
    """Bridges that wait for one connection."""
    shared = shared_connection(FACTORY, "client")
    tasks = [asyncio.create_task(shared.opened()) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return shared, tasks


def test_bridges_of_a_client_id_wait_for_a_silent_broker_together(broker: FakeBroker) -> None:
    async def scenario() -> None:
        broker.is_silent = True
        shared, waiting = await users()
        broker.answers.set()
        failed = await asyncio.gather(*waiting, return_exceptions=True)
        assert ([str(error) for error in failed], broker.attempts) == (["no answer"] * USERS, 1)
        broker.is_silent = False
        found = await shared_connection(FACTORY, "client").opened()  # while the others still leave
        assert broker.attempts == 2
        for _ in waiting:
            await shared.release()
        assert broker.closed == []
        await shared.release()
        assert broker.closed == [found]
        assert shared_connection(FACTORY, "client") is not shared

    run(scenario)


def test_bridges_of_one_connection_share_the_credit_of_one_bridge(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def nothing() -> None:
        """Open without a broker."""

    def consumer(_: object, session: object, source: Source, credit: int, retains: bool) -> Any:
        asked.append(credit)
        return SimpleNamespace(open=nothing)

    async def scenario() -> None:
        monkeypatch.setattr(provider, "SourceConsumer", consumer)
        monkeypatch.setattr(durable_sources, "DurableSource", SimpleNamespace)
        topic = Destination(TOPIC, "T")
        sources = [Source(FACTORY, topic, None, name, "client") for name in ("a", "b", "c", "d")]
        broker.answers.set()
        await asyncio.gather(*(provider._open_durable_source(source, 1_000) for source in sources))
        assert sum(asked) == 1_000

    run(scenario)


def test_a_user_who_gives_up_leaves_the_attempt_to_the_others(broker: FakeBroker) -> None:
    async def scenario() -> None:
        shared, (first, second) = await users(2)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await shared.release()
        broker.answers.set()
        found = await second
        await shared.release()
        assert (broker.attempts, broker.closed) == (1, [found])

    run(scenario)


def test_the_last_user_who_gives_up_ends_the_attempt(broker: FakeBroker) -> None:
    async def scenario() -> None:
        shared, (only,) = await users(1)
        only.cancel()
        await asyncio.gather(only, return_exceptions=True)
        await shared.release()
        assert (broker.attempts, broker.waiting, broker.closed) == (1, 0, [])

    run(scenario)


def test_a_user_who_comes_while_the_last_one_leaves_connects_after_the_end(broker: FakeBroker) -> None:
    async def scenario() -> None:
        broker.answers.set()
        shared, (only,) = await users(1)
        former = await only
        leaving = asyncio.create_task(shared.release())
        await asyncio.sleep(0)
        again = await shared.opened()  # fails if the broker still has the client id
        await leaving
        await shared.release()
        assert broker.closed == [former, again]

    run(scenario)
