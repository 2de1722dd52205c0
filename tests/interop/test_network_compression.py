"""``useCompression`` beside Classic: one duplex link of each kind, bodies that cross it both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spanwire.client import Body, blocking
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.peers import require
from tests.support.stomp_socket import StompSocket

PATIENCE_S: Final = 60.0
BODIES: Final[list[Body]] = ["grüße " * 500, b"\x00\x01" * 2_000, {"a": "x" * 900, "n": 7}, ["x" * 900, True], ""]
CONNECTOR: Final = """\
    <networkConnectors>
      <networkConnector name="packed" uri="static:(tcp://127.0.0.1:{port})?initialReconnectDelay=200"
        duplex="true" useCompression="true"/>
    </networkConnectors>
"""


@pytest.fixture(scope="module", params=[("spanwire", "classic"), ("classic", "spanwire")], ids="-".join)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """The broker that has the connector, and the other one."""
    require("activemq-broker")
    near, far = request.param
    directory = tmp_path_factory.mktemp("packed")
    with (
        made(far, directory / "far", "") as b,
        made(near, directory / "near", CONNECTOR.format(port=b.openwire_port)) as a,
    ):
        yield a, b


def made(kind: str, directory: Path, inside: str) -> BrokerProcess:
    if kind == "classic":
        return classic_broker(directory, name=directory.name, inside=inside)
    return BrokerProcess(spanwire_command(), directory, name=directory.name, inside=inside)


@pytest.mark.parametrize("there", [True, False], ids=["there", "back"])
def test_bodies_cross_compressed_and_are_read_as_they_were(
    pair: tuple[BrokerProcess, BrokerProcess], there: bool
) -> None:
    start, goal = pair if there else (pair[1], pair[0])
    name = f"queue://PACKED.{start.name}"
    with (
        blocking.connect(f"tcp://127.0.0.1:{goal.openwire_port}") as far,
        blocking.connect(f"tcp://127.0.0.1:{start.openwire_port}") as near,
    ):
        consumer = far.session().create_consumer(name)
        producer = near.session().create_producer(name)
        for body in BODIES:
            producer.send(body)
            message = consumer.receive(PATIENCE_S)
            assert message is not None
            assert message.body == body
            assert message.is_compressed()


def test_a_consumer_of_another_protocol_sees_no_compression(pair: tuple[BrokerProcess, BrokerProcess]) -> None:
    start, goal = pair
    with StompSocket(goal.stomp_port) as socket, blocking.connect(f"tcp://127.0.0.1:{start.openwire_port}") as near:
        socket.connect("1.1")
        socket.type("SUBSCRIBE\nid:1\nack:auto\ndestination:/queue/PACKED.STOMP\nreceipt:s\n\n\0")
        answer = socket.receive(PATIENCE_S)
        assert answer is not None and answer.command == "RECEIPT"
        producer = near.session().create_producer("queue://PACKED.STOMP")
        for body, octets in (("grüße " * 500, ("grüße " * 500).encode()), (b"\x00\x01" * 2_000, b"\x00\x01" * 2_000)):
            producer.send(body)
            frame = socket.receive(PATIENCE_S)
            assert frame is not None and frame.command == "MESSAGE"
            assert frame.body == octets
