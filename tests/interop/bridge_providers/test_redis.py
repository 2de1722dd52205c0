"""The Redis provider keeps the promises of all providers, with a server of Redis."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, Provider
from spanwire.bridges.providers.redis.provider import RedisProvider
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import JmsError
from spanwire.model.message_view import BYTES_VALUE, MAP, STRING_VALUE, TEXT
from spanwire.model.secret import Secret
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map
from tests.conformance.bridge_providers import (
    ALL_HEADERS,
    CREDIT,
    MANY,
    SOURCE,
    TARGET,
    BridgeProviderConformance,
    bodies,
    neutral_message,
    runs,
    take,
)
from tests.support.bridge_dialogue import Content
from tests.support.peers import require
from tests.support.redis_server import PASSWORD, RedisProcess

NUMBERS: Final = itertools.count()


class RedisDriver:
    headers = ALL_HEADERS
    typed_properties = False
    marks_redelivery = True

    def __init__(self, server: RedisProcess) -> None:
        self.server = server
        run = next(NUMBERS)
        self.streams = {SOURCE: f"source-{run}", TARGET: f"target-{run}"}

    def factory(self, options: str = "") -> ConnectionFactory:
        return ConnectionFactory(self.server.url + options, None, Secret(PASSWORD), provider="redis")

    def provider(self) -> Provider:
        return RedisProvider()

    def stream(self, destination: Destination) -> Destination:
        return Destination(TOPIC, self.streams[destination])

    def source(self, selector: str | None = None, options: str = "") -> Source:
        return Source(self.factory(options), self.stream(SOURCE), selector, "bridge")

    def target(self) -> Target:
        return Target(self.factory(), self.stream(TARGET))

    def beginning(self) -> Target:
        return Target(self.factory(), self.stream(SOURCE))

    def end(self) -> Source:
        return Source(self.factory(), self.stream(TARGET), None, "end")

    def send(self, destination: Destination, texts: list[str], properties: dict[str, int] | None = None) -> None:
        self.server.send(self.streams[destination], texts)

    def texts(self, destination: Destination) -> list[str]:
        return [fields["body"] for fields in self.server.entries(self.streams[destination])]

    def pending(self, destination: Destination) -> int | None:
        stream = self.streams[destination]
        with self.server.client() as client:
            if destination == TARGET:
                return int(client.xlen(stream))
            (group,) = client.xinfo_groups(stream)
            return int(group["pending"]) + int(group["lag"])

    def consumers(self) -> int:
        with self.server.client() as client:
            return len(client.xinfo_consumers(self.streams[SOURCE], "bridge"))

    def owners(self) -> set[str]:
        """The consumers of entries without an acknowledgement."""
        with self.server.client() as client:
            found = client.xpending_range(self.streams[SOURCE], "bridge", "-", "+", CREDIT)
            return {entry["consumer"] for entry in found}

    def dead_letters(self) -> list[str]:
        return [fields["body"] for fields in self.server.entries(f"{self.streams[SOURCE]}.DLQ")]

    def stop(self) -> None:
        self.server.kill()


@pytest.fixture
def driver(redis: RedisProcess) -> Iterator[RedisDriver]:
    yield RedisDriver(redis)
    if not redis.is_running:
        redis.start()


class TestRedisProvider(BridgeProviderConformance):
    def test_entries_of_a_bridge_that_is_gone_are_taken_over_and_no_others(self, driver: RedisDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["a", "b"])
            source = driver.source(options="?takeOverMs=600")
            first = await driver.provider().open_source(source, 1)
            await take(first, 1)
            second = await driver.provider().open_source(source, 10)
            assert bodies(await take(second, 1)) == ["b"]
            assert await second.receive(10, MANY, 2.0) == []  # the first says that its entry is in work
            for task in first._tasks:  # type: ignore[attr-defined]
                task.cancel()  # as a kill would end it
            assert bodies(await take(second, 1)) == ["a"]
            await second.acknowledge()
            await second.close()
            assert driver.pending(SOURCE) == 0
            await first.close()
            assert driver.consumers() == 0

        runs(scenario)

    def test_a_bridge_that_stalled_neither_takes_entries_back_nor_sends_them(self, driver: RedisDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["a", "b"])
            source = driver.source(options="?takeOverMs=300")
            first = await driver.provider().open_source(source, 10)
            await take(first, 2)
            for task in first._tasks:  # type: ignore[attr-defined]
                task.cancel()  # as a stall would hold it up
            second = await driver.provider().open_source(source, 10)
            assert bodies(await take(second, 2)) == ["a", "b"]
            await first._set_idle(0)  # type: ignore[attr-defined]
            assert driver.owners() == {second._name}  # type: ignore[attr-defined]
            await second.acknowledge()
            with pytest.raises(JmsError, match=r"another bridge has taken entries of topic://source-.* over"):
                await first.acknowledge()
            await first.close()
            await second.close()
            assert driver.pending(SOURCE) == 0

        runs(scenario)

    def test_an_entry_of_others_is_a_map(self, driver: RedisDriver) -> None:
        async def scenario() -> None:
            with driver.server.client() as client:
                client.xadd(driver.streams[SOURCE], {"user": "é", "octets": b"\xff"})
            source = await driver.provider().open_source(driver.source(), CREDIT)
            (message,) = await take(source, 1)
            body = decode_map(message.content.neutral_body() or b"", UNBOUNDED)
            assert (message.kind, body) == (MAP, {"user": (STRING_VALUE, "é"), "octets": (BYTES_VALUE, b"\xff")})
            assert message.message_id.startswith(driver.streams[SOURCE]) and message.timestamp_ms > 0
            await source.close()

        runs(scenario)

    def test_a_stream_has_a_largest_length_if_the_url_says_so(self, driver: RedisDriver) -> None:
        async def scenario() -> None:
            bounded = Target(driver.factory("?maxLength=100"), driver.stream(TARGET))
            target = await driver.provider().open_target(bounded)
            for _ in range(5):
                await target.send([neutral_message("x")] * 100)
            assert 100 <= (driver.pending(TARGET) or 0) <= 200
            await target.close()

        runs(scenario)

    def test_a_property_in_the_place_of_the_body_is_refused(self, driver: RedisDriver) -> None:
        async def scenario() -> None:
            target = await driver.provider().open_target(driver.target())
            with pytest.raises(MessageRefusedError, match="the property body has no place"):
                await target.send([BridgeMessage("1", TEXT, Content("x", {"body": (STRING_VALUE, "y")}), 1)])
            await target.close()

        runs(scenario)

    def test_mistakes_are_one_line(self, driver: RedisDriver) -> None:
        async def scenario() -> None:
            with driver.server.client() as client:
                client.set(driver.streams[SOURCE], "no stream")
            target = await driver.provider().open_target(driver.beginning())
            for opening in (target.send([neutral_message("x")]), driver.provider().open_source(driver.source(), 1)):
                with pytest.raises(JmsError, match="WRONGTYPE") as caught:
                    await opening
                assert "\n" not in str(caught.value) and driver.server.url in str(caught.value)
            await target.close()
            wrong = ConnectionFactory(driver.server.url, None, Secret("wrong-word"), provider="redis")
            with pytest.raises(JmsError) as caught:
                await driver.provider().open_target(Target(wrong, driver.stream(TARGET)))
            assert "wrong-word" not in str(caught.value) and "\n" not in str(caught.value)

        runs(scenario)

    def test_a_stream_that_is_removed_ends_the_source(self, driver: RedisDriver) -> None:
        async def scenario() -> None:
            source = await driver.provider().open_source(driver.source(), CREDIT)
            with driver.server.client() as client:
                await asyncio.to_thread(client.delete, driver.streams[SOURCE])
            with pytest.raises(JmsError, match=r"NOGROUP|no longer exists"):
                while await source.receive(1, MANY, 30.0) == []:
                    pass
            await source.close()

        runs(scenario)


def test_a_server_that_stores_snapshots_alone_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require("redis")
    with RedisProcess(tmp_path, log=False) as server:
        driver = RedisDriver(server)

        async def scenario() -> None:
            await (await driver.provider().open_target(driver.target())).close()

        runs(scenario)
        assert f"{server.url} stores messages in snapshots alone" in caplog.text
