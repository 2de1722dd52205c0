"""Bridges between Spanwire and ActiveMQ Classic, in both directions and within each broker. With
``SPANWIRE_ALL_BROKERS=1`` (``make client-conformance``) also with newer ones.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire import client
from spanwire.bridges.engine.states import BridgeState
from spanwire.client import Byte, Double, Float, Int, Long, Message, Serialized, Short
from tests.support.announcing_process import AnnouncingProcess
from tests.support.bridge_runs import forward, forward_file, forward_once
from tests.support.broker_process import COMMAND, BrokerProcess

OTHERS: Final = ("classic",) + (("newest_classic", "artemis") if os.environ.get("SPANWIRE_ALL_BROKERS") == "1" else ())
PATIENCE: Final = 40.0
SOON: Final = 0.3
KILLED_COUNT: Final = 600
KILLS: Final = 2
KILL_DELAY_S: Final = 0.05  # seconds of work before a kill
KILLED_BRIDGE: Final = """\
[bridges.test]
sourceConnectionFactory = "{source}"
sourceDestination = "{queue}"
targetConnectionFactory = "{target}"
targetDestination = "{queue}.FAR"
qualityOfServiceMode = "ONCE_AND_ONLY_ONCE"
maxBatchSize = 5
"""
LIFE_MS: Final = 3_600_000
JAVA_STRING: Final = bytes.fromhex("aced000574000161")  # "a", serialized by Java
BODIES: Final[dict[str, Any]] = {
    "text": "text é \U0001f600",
    "empty": "",
    "bytes": bytes(range(256)),
    "map": {"n": Int(1), "b": b"\x00\xff", "inner": {"l": [1, "two"]}},
    "stream": [Byte(1), Short(2), Int(3), Long(4), Float(0.5), Double(0.25), "s", True, b"x"],
    "object": Serialized(JAVA_STRING),
    "plain": None,
}
PROPERTIES: Final[dict[str, Any]] = {
    "byte": Byte(1), "short": Short(2), "int": 3, "long": Long(4), "float": Float(0.5), "double": 0.25, "text": "é",
    "yes": True,
}  # fmt: skip


@pytest.fixture(params=OTHERS)
def other(request: pytest.FixtureRequest) -> BrokerProcess:
    found: BrokerProcess = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["from the other", "to the other"])
def sides(request: pytest.FixtureRequest, spanwire: BrokerProcess, other: BrokerProcess) -> tuple[str, str]:
    """The URLs of source and target."""
    urls = (other.openwire_uri(), spanwire.openwire_uri())
    return urls if request.param == "from the other" else (urls[1], urls[0])


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    return "queue://BRIDGES." + "".join(letter if letter.isalnum() else "." for letter in request.node.name)


def send_all_kinds(url: str, queue: str) -> None:
    with client.connect(url) as connection, connection.session() as session:
        producer = session.create_producer(queue)
        for name, body in BODIES.items():
            producer.send(
                body,
                {**PROPERTIES, "name": name},
                message_type="kind",
                correlation_id="c",
                reply_to="queue://REPLIES",
                priority=7,
                persistent=name != "plain",
                time_to_live_ms=LIFE_MS,
                group_id="g",
                group_sequence=3,
            )


def received(url: str, queue: str, count: int) -> list[Message]:
    """Take so many messages, and look for one more."""
    with client.connect(url) as connection, connection.session() as session:
        consumer = session.create_consumer(queue)
        found = [message for _ in range(count) if (message := consumer.receive(PATIENCE)) is not None]
        assert consumer.receive(SOON) is None
        return found


def content(message: Message) -> tuple[object, ...]:
    """All that must cross."""
    properties = {name: value for name, value in message.typed_properties.items() if not name.startswith("JMSX")}
    headers = (message.message_type, message.correlation_id, message.priority, message.persistent)
    group = (message.group_id, message.group_sequence)
    return (message.kind, message.body, properties, headers, group, str(message.reply_to))


def test_messages_of_all_kinds_cross_as_they_were_sent(sides: tuple[str, str], queue: str) -> None:
    source, target = sides
    send_all_kinds(source, f"{queue}.PLAIN")
    unbridged = received(source, f"{queue}.PLAIN", len(BODIES))
    send_all_kinds(source, queue)
    status = forward(source, queue, target, f"{queue}.FAR", addMessageIDInHeader="true")
    assert (status.forwarded, status.failures) == (len(BODIES), 0)
    messages = received(target, f"{queue}.FAR", len(BODIES))
    for before, after in zip(unbridged, messages, strict=True):
        ids = after.property_values().pop("ACTIVEMQ_BRIDGE_MSG_ID_LIST")
        assert str(ids[1]).startswith("ID:")
        assert content(after) == content(before)
        assert 0 < after.expiration - time.time_ns() // 1_000_000 <= LIFE_MS


def test_a_selector_chooses_and_small_batches_keep_the_order(sides: tuple[str, str], queue: str) -> None:
    source, target = sides
    with client.connect(source) as connection, connection.session() as session:
        producer = session.create_producer(queue)
        for number in range(20):
            producer.send(str(number), {"odd": number % 2 == 1})
    status = forward(source, queue, target, f"{queue}.FAR", selector='"odd"', maxBatchSize="3")
    assert status.forwarded == 10 and status.batches >= 4
    assert [message.text for message in received(target, f"{queue}.FAR", 10)] == [str(n) for n in range(1, 20, 2)]
    assert len(received(source, queue, 10)) == 10


def test_one_transaction_moves_a_batch_within_a_broker(other: BrokerProcess, queue: str) -> None:
    url = other.openwire_uri()
    send_all_kinds(url, queue)
    words = {"maxBatchSize": str(len(BODIES)), "maxBatchTime": "10000"}
    status = forward(url, queue, url, f"{queue}.NEXT", qualityOfServiceMode='"ONCE_AND_ONLY_ONCE"', **words)
    assert (status.forwarded, status.batches) == (len(BODIES), 1)
    assert [message.properties["name"] for message in received(url, f"{queue}.NEXT", len(BODIES))] == list(BODIES)
    assert received(url, queue, 0) == []


def test_a_durable_subscription_keeps_messages_for_a_bridge_that_is_away(sides: tuple[str, str], queue: str) -> None:
    source, target = sides
    topic = queue.replace("queue://", "topic://")
    words = {"subscriptionName": '"bridge"', "clientID": f'"{queue[8:]}"'}
    assert forward(source, topic, target, queue, **words).received == 0  # subscribes
    with client.connect(source) as connection, connection.session() as session:
        session.create_producer(topic).send("kept")
    assert forward(source, topic, target, queue, **words).forwarded == 1
    assert [message.text for message in received(target, queue, 1)] == ["kept"]


def test_a_distributed_transaction_moves_all_kinds_of_messages(
    sides: tuple[str, str], queue: str, tmp_path: Path
) -> None:
    source, target = sides
    send_all_kinds(source, queue)
    status = forward_once(source, queue, target, f"{queue}.FAR", tmp_path, maxBatchSize="3")
    assert (status.forwarded, status.failures, status.heuristics) == (len(BODIES), 0, 0)
    assert [message.properties["name"] for message in received(target, f"{queue}.FAR", len(BODIES))] == list(BODIES)
    assert received(source, queue, 0) == []


def test_a_killed_bridge_between_spanwire_and_classic_loses_and_doubles_nothing(
    sides: tuple[str, str], queue: str, tmp_path: Path
) -> None:
    source, target = sides
    with client.connect(source) as connection, connection.session("transacted") as session:
        producer = session.create_producer(queue)
        for number in range(KILLED_COUNT):
            producer.send(str(number))
        session.commit()
    text = KILLED_BRIDGE.format(source=source, target=target, queue=queue)
    (tmp_path / "bridge.toml").write_text(text, "utf-8")
    for _ in range(KILLS):
        process = AnnouncingProcess([*COMMAND, "bridge", "run", "bridge.toml"], tmp_path, [])
        process.wait_until(lambda line: "bridge test: running" in line, PATIENCE)
        time.sleep(KILL_DELAY_S)
        process.end(signal.SIGKILL)
    status = forward_once(source, queue, target, f"{queue}.FAR", tmp_path / "bridge.toml.transactions")
    assert status.received > 0, "nothing was left after the kills"
    texts = [message.text for message in received(target, f"{queue}.FAR", KILLED_COUNT)]
    assert sorted(texts, key=int) == [str(number) for number in range(KILLED_COUNT)]


@pytest.mark.long
def test_a_target_that_is_artemis_is_refused_with_duplicate_detection(
    spanwire: BrokerProcess, artemis: BrokerProcess, classic: BrokerProcess, queue: str
) -> None:
    words = {"duplicateDetection": "true", "maxRetries": "0"}
    with client.connect(spanwire.openwire_uri()) as connection, connection.session() as session:
        session.create_producer(queue).send("one")
    refused = forward(spanwire.openwire_uri(), queue, artemis.openwire_uri(), queue, **words)
    assert refused.state is BridgeState.FAILED
    assert "duplicateDetection does not fit a target that is ActiveMQ Artemis" in (refused.last_error or "")
    assert refused.received == 0
    far = f'[connectionFactories.far]\nurl = "stomp://127.0.0.1:{artemis.openwire_port}"\nprovider = "stomp"\n'
    ends = f'sourceConnectionFactory = "{spanwire.openwire_uri()}"\ntargetConnectionFactory = "far"\n'
    ends += f'sourceDestination = "{queue}"\ntargetDestination = "{queue}"\n'
    over_stomp = forward_file(f"{far}[bridges.b]\n{ends}duplicateDetection = true\nmaxRetries = 0\n")
    assert "duplicateDetection does not fit a target that is ActiveMQ Artemis" in (over_stomp.last_error or "")
    assert forward(spanwire.openwire_uri(), queue, classic.openwire_uri(), queue, **words).forwarded == 1
