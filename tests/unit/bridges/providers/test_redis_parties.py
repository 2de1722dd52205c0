"""A source of Redis at a server that answers when the test says so."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.providers.redis.connection import address_of
from spanwire.bridges.providers.redis.parties import CLAIM, IDLE_MS, RedisSource, RedisTarget
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import JmsError

WAIT_S: Final = 10.0
FACTORY: Final = ConnectionFactory("redis://host", provider="redis")


class Server:
    """Both connections; a read of new entries waits for `delivered`."""

    def __init__(self) -> None:
        self.asked: Final[list[tuple[object, ...]]] = []
        self.is_reading: Final = asyncio.Event()
        self.delivered: Final = asyncio.Event()

    async def open(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """Close."""

    async def ask(self, *words: object) -> Any:
        self.asked.append(words)
        if words[0] == "XAUTOCLAIM":
            return [b"0-0", []]
        if words[0] == "XREADGROUP":
            self.is_reading.set()
            await self.delivered.wait()
            self.delivered.clear()
            return [[b"orders", [[b"7-0", [b"body", b"x"]]]]]
        return [] if words[0] == "XINFO" else 1


def test_entries_on_their_way_at_a_close_are_given_back() -> None:
    async def scenario() -> None:
        server = Server()
        party = RedisSource(Source(FACTORY, Destination(TOPIC, "orders"), None, "group"), 10)
        for name in ("_reads", "_requests"):
            setattr(party, name, server)
        await party.open()
        await server.is_reading.wait()
        closing = asyncio.create_task(party.close())
        await asyncio.sleep(0)
        server.delivered.set()
        await closing
        given_back = [words for words in server.asked if words[1:2] and words[1] == CLAIM]
        assert [words[-2:] for words in given_back] == [(IDLE_MS, "7-0")]

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def test_a_close_waits_for_a_silent_server_no_longer_than_for_one_read() -> None:
    async def scenario() -> None:
        server = Server()
        party = RedisSource(Source(FACTORY, Destination(TOPIC, "orders"), None, "group"), 10)
        for name in ("_reads", "_requests"):
            setattr(party, name, server)
        await party.open()
        await server.is_reading.wait()
        await party.close()
        assert not [words for words in server.asked if words[1:2] and words[1] == CLAIM]

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


class LoadingServer:
    """A server that was started again and reads its log: it answers INFO and refuses each XADD."""

    def __init__(self) -> None:
        self.place: Final = address_of(FACTORY)

    async def open(self) -> None:
        """Connect."""

    async def ask(self, *words: object) -> bytes:
        assert words == ("INFO", "persistence")
        return b"# Persistence\r\nloading:1\r\naof_enabled:1\r\n"


def test_a_target_that_loads_its_data_is_not_open_yet() -> None:
    """At most once would lose a batch at each attempt."""
    target = RedisTarget(Target(FACTORY, Destination(TOPIC, "orders")))
    for name in ("_connection",):
        setattr(target, name, LoadingServer())
    with pytest.raises(JmsError, match="redis://host loads its data"):
        asyncio.run(target.open())
