"""URLs of several brokers, with brokers: lost ones, preferred ones, and all of them at once, over both shells."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire.management.control_client import ControlClient, ControlError
from spanwire.testing import Broker, Network
from spanwire.testing.queue import wait_until
from tests.service.started import Started
from tests.support.client_shells import SHELLS, opened

WAIT_S: Final = 30.0
FAST: Final = "initialReconnectDelay=10&maxReconnectDelay=200"


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def until(condition: Any) -> None:
    assert await asyncio.to_thread(wait_until, condition, WAIT_S)


async def received(consumer: Any) -> str:
    message = await consumer.receive(WAIT_S)
    assert message is not None, "nothing came"
    return str(message.body)


def test_the_producer_of_the_guide_finishes_when_its_broker_is_killed(tmp_path: Path, shell: str) -> None:
    """Ten messages, the active broker killed in the middle, the other one takes the rest."""

    async def scenario(brokers: dict[int, Started]) -> None:
        ports = list(brokers)
        url = f"failover:({','.join(f'tcp://127.0.0.1:{port}' for port in ports)})?{FAST}&randomize=false"
        async with opened(shell, url) as connection, connection.session() as session:
            producer = await session.create_producer("queue://TEST.FOO")
            for number in range(10):
                if number == 4:
                    await asyncio.to_thread(brokers[ports[0]].kill)
                await producer.send(f"Message: {number}")
        bodies: list[str] = []
        async with opened(shell, f"tcp://127.0.0.1:{ports[1]}") as connection, connection.session() as session:
            consumer = await session.create_consumer("queue://TEST.FOO")
            while len(bodies) < 6:
                bodies.append(await received(consumer))
        assert bodies == [f"Message: {number}" for number in range(4, 10)]

    with Started(tmp_path / "a") as first, Started(tmp_path / "b") as second:
        asyncio.run(scenario({first.ports["tcp"]: first, second.ports["tcp"]: second}))


def test_a_client_goes_back_to_the_broker_that_it_prefers(shell: str) -> None:
    async def scenario(best: Broker, other: Broker) -> None:
        url = f"failover:({best.url},{other.url})?{FAST}&priorityBackup=true"
        async with opened(shell, url) as connection, connection.session() as session:
            producer = await session.create_producer("queue://Q")
            await producer.send("first")
            assert best.queue("Q").enqueued == 1
            await asyncio.to_thread(best.stop)
            await producer.send("second")
            assert other.queue("Q").enqueued == 1
            await asyncio.to_thread(best.start)
            await until(lambda: len(best.clients()) == 1)
            await producer.send("third")
            assert best.queue("Q").enqueued == 1, "it has started anew, and has the third"

    with Broker(name="best") as best, Broker(name="other") as other:
        asyncio.run(scenario(best, other))


SPREADING: Final = """
<broker brokerName="{name}">{links}<transportConnectors><transportConnector uri="tcp://127.0.0.1:0"
  updateClusterClients="true" rebalanceClusterClients="true" updateClusterClientsOnRemove="true"/>
</transportConnectors></broker>"""
CLIENTS: Final = 30
SILENT: Final = "wireFormat.maxInactivityDuration=0"  # no keep-alive takes the list of brokers along
SPREAD_S: Final = 20.0  # less than 30 s, the period of timers of the broker that would take it along


@pytest.mark.parametrize("comes_in", [False, True])
def test_clients_of_one_broker_spread_over_all_that_it_is_linked_to(shell: str, comes_in: bool) -> None:
    async def scenario(one: Broker, other: Broker) -> None:
        connections = [await opened(shell, f"failover:({one.url}?{SILENT})?{FAST}") for _ in range(CLIENTS)]
        spread = await asyncio.to_thread(wait_until, lambda: min(len(clients(one)), len(clients(other))) >= 3, SPREAD_S)
        assert spread, "the list of brokers waits for something else to be sent"
        await until(lambda: len(clients(one)) + len(clients(other)) == CLIENTS)
        for connection in connections:
            async with connection.session() as session:
                await (await session.create_producer("queue://Q")).send("x")
        for connection in connections:
            await connection.close()
        assert one.queue("Q").enqueued + other.queue("Q").enqueued >= CLIENTS

    def clients(broker: Broker) -> list[str]:
        return [str(view.client_id) for view in broker.clients()]

    with Broker(SPREADING.format(name="first", links="")) as first:
        uri = f'uri="static:({first.url}?{SILENT})" duplex="{"true" if comes_in else "false"}"'
        links = f"<networkConnectors><networkConnector {uri}/></networkConnectors>"
        with Broker(SPREADING.format(name="second", links=links)) as second:
            assert wait_until(lambda: bool(second.links()), WAIT_S)
            asyncio.run(scenario(first, second) if comes_in else scenario(second, first))


def test_an_operator_spreads_the_clients_of_a_connector_that_does_not(tmp_path: Path, shell: str) -> None:
    async def scenario(one: Broker, other: Broker) -> None:
        connections = [await opened(shell, f"failover:({one.url}?{SILENT})?{FAST}") for _ in range(CLIENTS)]
        await until(lambda: len(one.clients()) == CLIENTS)
        rows = await asyncio.to_thread(rebalances, one)
        assert rows == [{"name": "main", "clients": CLIENTS, "brokers": 2}]
        await until(lambda: len(one.clients()) + len(other.clients()) == CLIENTS and len(other.clients()) >= 3)
        for connection in connections:
            await connection.close()

    def rebalances(broker: Broker) -> object:
        assert broker.directory is not None
        return ControlClient(broker.directory, WAIT_S).ask("connector-rebalance", connectors=["main"])

    plain = """<broker brokerName="{name}">{links}<transportConnectors>
      <transportConnector name="main" uri="tcp://127.0.0.1:0"/></transportConnectors></broker>"""
    with Broker(plain.format(name="first", links=""), directory=tmp_path / "first") as first:
        with pytest.raises(ControlError, match="clients of main may learn of no linked broker"):
            rebalances(first)
        links = f'<networkConnectors><networkConnector uri="static:({first.url}?{SILENT})"/></networkConnectors>'
        with Broker(plain.format(name="second", links=links), directory=tmp_path / "second") as second:
            assert wait_until(lambda: bool(second.links()), WAIT_S)
            asyncio.run(scenario(second, first))


def test_a_message_for_a_topic_reaches_the_consumers_of_all_brokers(shell: str) -> None:
    async def scenario(one: Broker, other: Broker) -> None:
        async with (
            opened(shell, one.url) as here,
            opened(shell, other.url) as there,
            opened(shell, f"fanout:({one.url},{other.url})") as connection,
            here.session() as near,
            there.session() as far,
            connection.session() as session,
        ):
            consumers = [await near.create_consumer("topic://T"), await far.create_consumer("topic://T")]
            producer = await session.create_producer("topic://T")
            await producer.send("to all", wait=True)
            assert [await received(consumer) for consumer in consumers] == ["to all", "to all"]
            await (await session.create_producer("queue://Q")).send("to one", wait=True)
            assert sorted([one.queue("Q").enqueued, other.queue("Q").enqueued]) == [0, 1]
            own = await session.create_consumer("queue://Q")
            assert await received(own) == "to one"

    with Broker(name="one") as one, Broker(name="other") as other:
        asyncio.run(scenario(one, other))


def test_sends_wait_for_enough_brokers_and_reach_those_that_come_back(shell: str) -> None:
    async def scenario(one: Broker, other: Broker) -> None:
        url = f"fanout:({one.url},{other.url})?{FAST}&fanOutQueues=true"
        async with opened(shell, url) as connection, connection.session() as session:
            producer = await session.create_producer("queue://Q")
            await producer.send("both", wait=True)
            assert (one.queue("Q").enqueued, other.queue("Q").enqueued) == (1, 1)
            await asyncio.to_thread(other.stop)
            sending = asyncio.ensure_future(producer.send("later", wait=True))
            await asyncio.to_thread(other.start)
            async with asyncio.timeout(WAIT_S):
                await sending
            await until(lambda: other.queue("Q").enqueued == 1)
            await until(lambda: one.queue("Q").enqueued == 2)

    with Broker(name="one") as one, Broker(name="other") as other:
        asyncio.run(scenario(one, other))


def test_of_a_fanout_to_linked_brokers_a_consumer_gets_its_own_copy_and_one_over_links() -> None:
    async def scenario(network: Network) -> None:
        brokers = network.brokers
        async with (
            opened("aio", brokers[0].url) as here,
            opened("aio", f"fanout:({','.join(broker.url for broker in brokers)})?minAckCount=4") as connection,
            here.session() as near,
            connection.session() as session,
        ):
            consumer = await near.create_consumer("topic://T")
            await until(lambda: all(broker.topic("T").consumers for broker in brokers))
            await (await session.create_producer("topic://T")).send("copy", wait=True)
            assert [await received(consumer) for _ in range(2)] == ["copy"] * 2
            assert await consumer.receive(0.2) is None  # the brokers know the copies of the other two links

    with Network("A<->B, A<->C, A<->D, B<->C, B<->D, C<->D") as network:
        asyncio.run(scenario(network))


def test_a_fanout_whose_login_is_refused_says_so(shell: str) -> None:
    async def scenario(url: str) -> None:
        async with opened(shell, url, user_name="u", password="wrong"):
            raise AssertionError("it was let in")

    with Broker(name="one", users={"u": "right"}) as one, Broker(name="other", users={"u": "right"}) as other:
        with pytest.raises(Exception, match=r"(?i)user name|password|login|authenticat"):
            asyncio.run(scenario(f"fanout:({one.url},{other.url})"))
