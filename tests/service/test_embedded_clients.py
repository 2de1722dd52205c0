"""The client and a broker in one process, through `vm:` URLs: the same as over a socket, without one."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from spanwire.client import aio, blocking
from spanwire.model.errors import AuthenticationError, JmsError
from spanwire.service.config.model import BrokerConfiguration, PersistenceConfiguration
from spanwire.service.embedding.embedded import start_broker
from spanwire.service.embedding.embedded_broker import IN_PROCESS
from spanwire.testing import Broker, Network
from spanwire.testing.queue import wait_until

WAIT_S = 30.0
LARGE = 5 * 1024 * 1024


async def _conversation(url: str) -> None:
    """Sends, receives, commits and rolls back."""
    async with aio.connect(url) as connection:
        async with connection.session() as session:
            producer = await session.create_producer("queue://ORDERS")
            for number in range(100):
                await producer.send(f"order {number}", properties={"number": number})
            consumer = await session.create_consumer("queue://ORDERS", selector="number >= 90")
            for number in range(90, 100):
                message = await consumer.receive(timeout=WAIT_S)
                assert message is not None
                assert (message.body, message.properties) == (f"order {number}", {"number": number})
        async with connection.session(acknowledge="transacted") as session:
            producer = await session.create_producer("queue://BILLS")
            await producer.send("rolled back")
            await session.rollback()
            await producer.send("committed")
            await session.commit()
            consumer = await session.create_consumer("queue://BILLS")
            message = await consumer.receive(timeout=WAIT_S)
            assert message is not None and message.body == "committed"
            await session.commit()


def test_the_client_and_the_broker_share_one_loop() -> None:
    configuration = BrokerConfiguration(
        broker_name="shared", persistence=PersistenceConfiguration(persistent=False), connectors=()
    )

    async def run() -> None:
        async with await start_broker(configuration) as broker:
            await _conversation(broker.vm_url)
            views = {view.destination: view for view in broker.service.broker.destination_views()}
            assert views["queue://ORDERS"].pending == 90
            assert views["queue://BILLS"].pending == 0

    asyncio.run(run())


def test_the_client_has_a_loop_and_the_broker_a_thread() -> None:
    with Broker(sockets=False) as broker:
        asyncio.run(_conversation(broker.url))
        assert (broker.queue("ORDERS").pending, broker.queue("BILLS").dequeued) == (90, 1)
        assert broker.left_open() == []


def test_blocking_clients_of_several_threads_lose_nothing_and_keep_their_order() -> None:
    received: list[list[tuple[int, int]]] = []

    def produce(broker: Broker, source: int) -> None:
        with blocking.connect(broker.url) as connection, connection.session() as session:
            producer = session.create_producer("queue://ORDERS")
            for number in range(200):
                producer.send("", properties={"source": source, "number": number}, persistent=False)

    def consume(broker: Broker) -> None:
        found: list[tuple[int, int]] = []
        with blocking.connect(broker.url) as connection, connection.session() as session:
            consumer = session.create_consumer("queue://ORDERS")
            while len(found) < 800:
                message = consumer.receive(timeout=WAIT_S)
                assert message is not None
                found.append((int(str(message.properties["source"])), int(str(message.properties["number"]))))
        received.append(found)

    with Broker(sockets=False) as broker:
        threads = [threading.Thread(target=produce, args=(broker, source)) for source in range(4)]
        threads.append(threading.Thread(target=consume, args=(broker,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert broker.queue("ORDERS").pending == 0
    (found,) = received
    for source in range(4):
        assert [number for origin, number in found if origin == source] == list(range(200))


def test_a_large_message_crosses_in_both_directions() -> None:
    body = os.urandom(LARGE)
    with Broker(sockets=False) as broker, blocking.connect(broker.url) as connection, connection.session() as session:
        session.create_producer("queue://LARGE").send(body)
        message = session.create_consumer("queue://LARGE").receive(timeout=WAIT_S)
        assert message is not None and message.body == body


def test_a_client_that_does_not_process_what_it_gets_is_slow_and_gets_no_more() -> None:
    with Broker(sockets=False) as broker, blocking.connect(broker.url) as sender, sender.session() as session:
        producer = session.create_producer("queue://ORDERS")
        with blocking.connect(broker.url) as reader, reader.session() as reading:
            consumer = reading.create_consumer("queue://ORDERS", prefetch=10_000)
            for _ in range(64):
                producer.send(bytes(100_000), persistent=False)
            producer.send("last", persistent=True)
            assert [view.slow for view in broker.connections()].count(True) == 1
            assert 0 < broker.queue("ORDERS").in_flight < 40, "an output buffer's worth, not the whole prefetch"
            for _ in range(65):
                assert consumer.receive(timeout=WAIT_S) is not None
            broker.queue("ORDERS").wait_for(pending=0)


def test_login_is_asked_for_as_over_a_socket() -> None:
    with Broker(sockets=False, users={"alice": "wonderland"}) as broker:
        for name, password in ((None, None), ("alice", "nonsense")):
            with pytest.raises(AuthenticationError):
                blocking.connect(broker.url, user_name=name, password=password)
        with blocking.connect(broker.url, user_name="alice", password="wonderland"):
            assert [view.user_name for view in broker.connections()] == ["alice"]


def test_a_client_whose_broker_stops_learns_it_in_one_line() -> None:
    broker = Broker(sockets=False)
    broker.start()
    with blocking.connect(broker.url) as connection:
        session = connection.session()
        producer = session.create_producer("queue://ORDERS")
        broker.stop()
        with pytest.raises(JmsError) as caught:
            for _ in range(100):
                producer.send("nobody hears this")
        assert "\n" not in str(caught.value)
    with pytest.raises(JmsError, match="no broker of this name runs in this process"):
        blocking.connect(broker.vm_url)


def test_a_url_makes_a_broker_for_its_clients_and_no_longer() -> None:
    url = "vm://on-demand?broker.persistent=false"
    with blocking.connect(url) as connection, connection.session() as session:
        session.create_producer("queue://ORDERS").send("hello")
        with blocking.connect("vm://on-demand?create=false") as other, other.session() as others:
            message = others.create_consumer("queue://ORDERS").receive(timeout=WAIT_S)
            assert message is not None and message.body == "hello"
    end = time.monotonic() + WAIT_S
    while IN_PROCESS.find("on-demand") is not None and time.monotonic() < end:
        threading.Event().wait(0.005)
    assert IN_PROCESS.find("on-demand") is None


def test_a_broker_that_cannot_start_for_a_url_is_told_by_connect() -> None:
    with pytest.raises(JmsError, match="unknown attribute of <broker> 'persistant'; did you mean persistent"):
        blocking.connect("vm://wrong?broker.persistant=false")


def test_a_bridge_from_a_linked_broker_reaches_a_client_of_this_process() -> None:
    with (
        Network("A->B") as network,
        blocking.connect(network["A"].vm_url) as near,
        blocking.connect(network["B"].vm_url) as far,
        near.session() as producing,
        far.session() as consuming,
    ):
        consumer = consuming.create_consumer("queue://ORDERS")
        network["A"].queue("ORDERS").wait_for(consumers=1)
        producing.create_producer("queue://ORDERS").send("hello", properties={"number": 7})
        message = consumer.receive(timeout=WAIT_S)
        assert message is not None and (message.body, message.properties["number"]) == ("hello", 7)


@pytest.mark.parametrize("form", ["vm:(broker:(tcp://127.0.0.1:0)/{name}?persistent=false)?marshal=false",
                                  "vm://{name}?brokerConfig=properties:{path}"])  # fmt: skip
def test_a_broker_that_a_url_describes_lives_as_long_as_its_clients(form: str, tmp_path: Path) -> None:
    name = f"described-{'line' if 'marshal' in form else 'file'}"
    path = tmp_path / "broker.properties"
    path.write_text(f"brokerName={name}\npersistent=false\ntransportConnectorURIs=tcp://127.0.0.1:0\n", "utf-8")
    with blocking.connect(form.format(name=name, path=path)) as connection, connection.session() as session:
        found = IN_PROCESS.find(name)
        assert found is not None
        session.create_producer("queue://ORDERS").send("one")
        with blocking.connect(found.uris()["tcp"]) as other, other.session() as far:
            message = far.create_consumer("queue://ORDERS").receive(timeout=WAIT_S)
            assert message is not None and message.body == "one"
        with blocking.connect(f"vm://{name}?create=false") as other:
            assert other.broker_name == name
    assert wait_until(lambda: IN_PROCESS.find(name) is None, WAIT_S)
