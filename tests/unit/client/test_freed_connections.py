"""A closed connection of a client is freed at once: nothing of it waits for a garbage collection."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from spanwire.client import InvalidSelectorError, aio, blocking
from spanwire.testing import Broker
from tests.support.garbage import cycles

Q = "queue://Q"
TRIES = 5  # a timer or callback may hold a connection for a moment longer; a cycle holds each of them


def _is_freed(found: list[weakref.ref[object]]) -> bool:
    return all(one() is None for one in found)


@pytest.fixture(autouse=True)
def _no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _uses_a_connection(url: str) -> list[weakref.ref[object]]:
    with blocking.connect(url) as connection, connection.session() as session:
        session.create_producer(Q).send("hello")
        consumer = session.create_consumer(Q)
        assert consumer.receive(10) is not None
        assert session.request("queue://NOBODY", "hello", timeout=0.0) is None
        return [weakref.ref(one) for one in (connection, connection.shared, session, consumer)]


def test_a_closed_blocking_connection_is_freed() -> None:
    def is_freed(url: str) -> bool:
        found = _uses_a_connection(url)
        for thread in threading.enumerate():
            if thread.name == "spanwire-client-keeper":
                thread.join(60)
        return _is_freed(found)

    with Broker() as broker:
        assert any(is_freed(broker.url) for _ in range(TRIES))


async def _uses_an_asyncio_connection(url: str) -> list[weakref.ref[object]]:
    async with aio.connect(url) as connection, connection.session() as session:
        await (await session.create_producer(Q)).send("hello")
        consumer = await session.create_consumer(Q)
        assert await consumer.receive(10) is not None
        assert await session.request("queue://NOBODY", "hello", timeout=0.0) is None
        return [weakref.ref(one) for one in (connection, connection.shared, session, consumer)]


def test_a_closed_asyncio_connection_is_freed() -> None:
    with Broker() as broker:
        assert any(_is_freed(asyncio.run(_uses_an_asyncio_connection(broker.url))) for _ in range(TRIES))


def test_a_refused_request_leaves_no_cycle() -> None:
    with Broker() as broker, blocking.connect(broker.url) as connection, connection.session() as session:
        for _ in range(2):
            gc.collect()
            with pytest.raises(InvalidSelectorError):
                session.create_consumer(Q, "a = 'unfinished")
        assert not {"Request", "ClientConsumer"} & cycles()
