"""Durable bridges of one client id, between brokers of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from spanwire import client
from spanwire.bridges.engine.counters import BridgeStatus
from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.running.hosted import HostedBridges
from spanwire.routes.readers.placeholders import Placeholders
from spanwire.testing import Broker
from tests.support.bridge_runs import WAIT_S

BRIDGE = """\
[bridges.{name}]
sourceConnectionFactory = "{source}"
sourceDestination = "topic://{name}"
subscriptionName = "{name}"
clientID = "c"
targetConnectionFactory = "{target}"
targetDestination = "queue://{name}"
failureRetryInterval = 20
"""
NAMES = ("orders", "prices")


def publish(url: str, text: str) -> None:
    with client.connect(url) as connection, connection.session() as session:
        for name in NAMES:
            session.create_producer(f"topic://{name}").send(text)


def texts(broker: Broker, name: str) -> list[str]:
    return [str(message.body) for message in broker.queue(name).messages()]


class Bridges:
    """Two bridges that run, each from a topic of the source to a queue of the target."""

    def __init__(self, source: str, target: str) -> None:
        text = "".join(BRIDGE.format(name=name, source=source, target=target) for name in NAMES)
        self.hosted = HostedBridges(read_bridges(text.encode(), "b.toml", Placeholders({}, {})), lambda line: None)

    def play(self, scenario: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            ending = asyncio.Event()
            running = asyncio.create_task(self.hosted.run(ending))
            try:
                async with asyncio.timeout(WAIT_S):
                    await self.until(lambda status: status.state.value == "running")
                    await scenario()
            finally:
                ending.set()
                await running

        asyncio.run(run())

    async def until(self, holds: Callable[[BridgeStatus], bool], *names: str) -> None:
        while not all(holds(status) for status in self.hosted.statuses() if status.name in (names or NAMES)):
            await asyncio.sleep(0.01)


def test_durable_subscriptions_of_one_client_id_share_its_connection() -> None:
    with Broker() as source, Broker() as target:
        bridges = Bridges(source.url, target.url)

        async def scenario() -> None:
            publish(source.url, "1")
            await bridges.until(lambda status: status.forwarded == 1)
            bridges.hosted.command("pause", ["orders"])
            await bridges.until(lambda status: status.state.value == "paused", "orders")
            publish(source.url, "2")
            await bridges.until(lambda status: status.forwarded == 2, "prices")
            assert texts(target, "orders") == ["1"]
            bridges.hosted.command("resume", ["orders"])
            await bridges.until(lambda status: status.forwarded == 2)

        bridges.play(scenario)
        assert [texts(target, name) for name in NAMES] == [["1", "2"], ["1", "2"]]


def test_all_of_them_come_back_after_a_loss_of_the_source() -> None:
    with Broker() as source, Broker() as target:
        bridges = Bridges(source.url, target.url)

        async def scenario() -> None:
            await asyncio.to_thread(source.stop)
            await bridges.until(lambda status: status.failures > 1)
            await asyncio.to_thread(source.start)
            await bridges.until(lambda status: status.state.value == "running")
            publish(source.url, "1")
            await bridges.until(lambda status: status.forwarded == 1)

        bridges.play(scenario)
        assert [texts(target, name) for name in NAMES] == [["1"], ["1"]]


def test_what_is_not_acknowledged_returns_to_its_subscription_while_the_other_goes_on() -> None:
    with Broker() as source, Broker() as target:
        bridges = Bridges(source.url, target.url)

        async def scenario() -> None:
            target.stop()
            publish(source.url, "1")
            await bridges.until(lambda status: status.failures > 1)
            bridges.hosted.command("pause", ["orders"])
            await bridges.until(lambda status: status.state.value == "paused", "orders")
            await asyncio.to_thread(target.start)
            await bridges.until(lambda status: status.forwarded == 1, "prices")
            bridges.hosted.command("resume", ["orders"])
            await bridges.until(lambda status: status.forwarded == 1)

        bridges.play(scenario)
        assert [texts(target, name) for name in NAMES] == [["1"], ["1"]]
