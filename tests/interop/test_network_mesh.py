"""Meshes of Spanwire and ActiveMQ Classic, and brokers of both that nobody has named, over real sockets."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.network_rows import PATIENCE_S, Consumer, Place, send
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_command
from tests.support.peers import require
from tests.support.ports import free_port

NAMES = "ABC"
TOPIC = "/topic/T"
TEXTS = [f"m{number}" for number in range(5)]
SLOWER_ROUTE_S = 1.0  # in which a copy over another route would come
CONNECTOR = """\
      <networkConnector name="{name}" uri="static:(tcp://127.0.0.1:{port})?initialReconnectDelay=200&amp;maxReconnectDelay=1000"
        networkTTL="{ttl}" decreaseNetworkConsumerPriority="false" duplex="{duplex}"/>
"""
AUDITED = """\
    <destinationPolicy>
      <policyMap><policyEntries><policyEntry topic="&gt;"/></policyEntries></policyMap>
    </destinationPolicy>
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def connector(name: str, port: int, *, ttl: int = 1, duplex: bool = False) -> str:
    return CONNECTOR.format(name=name, port=port, ttl=ttl, duplex=str(duplex).lower())


def network(*connectors: str) -> str:
    return f"    <networkConnectors>\n{''.join(connectors)}    </networkConnectors>\n"


def place(broker: BrokerProcess) -> Place:
    return Place(broker.stomp_port, broker.openwire_port)


def started(stack: ExitStack, brokers: list[BrokerProcess]) -> list[BrokerProcess]:
    for broker in brokers:
        stack.callback(broker.kill)
    with ThreadPoolExecutor(len(brokers)) as pool:
        list(pool.map(BrokerProcess.start, brokers))
    return brokers


def mesh(stack: ExitStack, directory: Path, classics: str) -> list[BrokerProcess]:
    """Three brokers with a connector from each to each; those of ``classics`` are ActiveMQ Classic."""
    ports = {name: free_port() for name in NAMES}
    brokers = []
    for name in NAMES:
        links = [connector(f"{name}-{to}", ports[to], ttl=2) for to in NAMES if to != name]
        command = classic_command if name in classics else spanwire_command()
        inside = AUDITED + network(*links)
        brokers.append(BrokerProcess(command, directory / name, name=name, inside=inside, openwire_port=ports[name]))
    return started(stack, brokers)


def wait_for_links(sources: list[Place], consumers: list[Consumer]) -> None:
    """Until what is sent at each source comes to each consumer."""
    for number, source in enumerate(sources):
        deadline = time.monotonic() + PATIENCE_S
        tries = 0
        while not all(any(text.startswith(f"link {number} ") for text in consumer.texts) for consumer in consumers):
            assert time.monotonic() < deadline, [consumer.texts for consumer in consumers]
            tries += 1
            send(source, TOPIC, [f"link {number} {tries}"])
            time.sleep(0.2)


@pytest.mark.parametrize(
    ("classics", "durable"),
    [
        ("", True),
        pytest.param("A", True, marks=pytest.mark.long),
        pytest.param("A", False, marks=pytest.mark.long),
        pytest.param("BC", True, marks=pytest.mark.long),
        ("ABC", True),
        pytest.param("ABC", False, marks=pytest.mark.long),
    ],
)
def test_each_subscriber_in_a_mesh_of_three_gets_each_message_once(
    stack: ExitStack, tmp_path: Path, classics: str, durable: bool
) -> None:
    if classics:
        require("activemq-broker")
    brokers = mesh(stack, tmp_path, classics)
    places = [place(broker) for broker in brokers]
    consumers = [
        stack.enter_context(Consumer(one, TOPIC, name=f"sub{name}" if durable else ""))
        for name, one in zip(NAMES, places, strict=True)
    ]
    wait_for_links(places, consumers)
    send(places[0], TOPIC, TEXTS)
    for consumer in consumers:
        consumer.waits_for_text(TEXTS[-1])
    time.sleep(SLOWER_ROUTE_S)
    for consumer in consumers:
        assert Counter(consumer.texts) == Counter(set(consumer.texts)), (classics, consumer.texts)
        assert set(TEXTS) <= set(consumer.texts)


@pytest.mark.parametrize("duplex", [pytest.param(False, marks=pytest.mark.long), True], ids=["one way", "duplex"])
@pytest.mark.parametrize("leaves", ["CS", pytest.param("CC", marks=pytest.mark.long)])
def test_leaves_without_a_name_stay_linked_to_one_hub(
    stack: ExitStack, tmp_path: Path, leaves: str, duplex: bool
) -> None:
    if "C" in leaves:
        require("activemq-broker")
    (hub,) = started(stack, [BrokerProcess(spanwire_command(), tmp_path / "hub", name="hub")])
    made = []
    for number, kind in enumerate(leaves):
        command = classic_command if kind == "C" else spanwire_command()
        inside = network(connector("NC", hub.openwire_port, duplex=duplex))
        made.append(BrokerProcess(command, tmp_path / str(number), name="localhost", inside=inside))
    places = [place(broker) for broker in started(stack, made)]
    consumer = stack.enter_context(Consumer(place(hub), TOPIC))
    wait_for_links(places, [consumer])
    if duplex:
        there = [stack.enter_context(Consumer(one, TOPIC)) for one in places]
        wait_for_links([place(hub)], there)
    for one in places:
        send(one, TOPIC, [f"{one.stomp_port} {text}" for text in TEXTS], persistent=False)
    for one in places:
        consumer.waits_for_text(f"{one.stomp_port} {TEXTS[-1]}")
    for one in places:
        assert [text for text in consumer.texts if text.startswith(f"{one.stomp_port} ")] == [
            f"{one.stomp_port} {text}" for text in TEXTS
        ]
    assert not [line for line in hub.log if "taken over" in line or "replaced by" in line]


@pytest.mark.parametrize("duplex", [False, True], ids=["one way", "duplex"])
def test_leaves_without_a_name_at_a_classic_hub_stay_linked_or_say_that_a_name_is_missing(
    stack: ExitStack, tmp_path: Path, duplex: bool
) -> None:
    require("activemq-broker")
    (hub,) = started(stack, [BrokerProcess(classic_command, tmp_path / "hub", name="hub")])
    inside = network(connector("NC", hub.openwire_port, duplex=duplex))
    made = [BrokerProcess(spanwire_command(), tmp_path / str(n), name="localhost", inside=inside) for n in range(2)]
    places = [place(broker) for broker in started(stack, made)]
    consumer = stack.enter_context(Consumer(place(hub), TOPIC))
    if not duplex:
        wait_for_links(places, [consumer])
        return
    deadline = time.monotonic() + PATIENCE_S
    while not any("give each broker a brokerName of its own" in line for leaf in made for line in leaf.log):
        assert time.monotonic() < deadline, [leaf.log for leaf in made]
        time.sleep(0.2)
