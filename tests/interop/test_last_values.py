"""One scenario of a last-value queue, at Spanwire over two protocols and a kill, and at Artemis, whose rules it has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spanwire.client import blocking
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.distributions import ARTEMIS, ArtemisProcess, find_destination
from tests.support.stomp_socket import StompSocket

Q: Final = "queue://LAST.VALUES"
POLICY: Final = (
    '<destinationPolicy><policyMap><policyEntries><policyEntry queue="LAST.>" lastValueKey="code"/></policyEntries>'
    "</policyMap></destinationPolicy>"
)
SETTING: Final = (
    '<address-setting match="LAST.#"><default-last-value-key>code</default-last-value-key>'
    "<auto-create-queues>true</auto-create-queues><auto-create-addresses>true</auto-create-addresses>"
    "<default-address-routing-type>ANYCAST</default-address-routing-type>"
    "<default-queue-routing-type>ANYCAST</default-queue-routing-type></address-setting></address-settings>"
)
PATIENCE_S: Final = 20.0
SOON_S: Final = 0.5  # for a message that should not come


class LastValueArtemis(ArtemisProcess):
    """An Artemis whose queues below LAST keep the last message of each code."""

    def start(self) -> None:
        super().start()
        self.kill()
        path = self.directory / "instance" / "etc" / "broker.xml"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("</address-settings>", SETTING, 1), encoding="utf-8")
        BrokerProcess.start(self)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(spanwire_command(), tmp_path, inside=POLICY) as broker:
        yield broker


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[BrokerProcess]:
    home = find_destination(ARTEMIS)
    if isinstance(home, str):
        pytest.skip(home)
    with LastValueArtemis(home, tmp_path) as broker:
        yield broker


def send(session: blocking.Session, *texts: str) -> None:
    """Send texts; all but the last character is the code."""
    with session.create_producer(Q) as producer:
        for text in texts:
            producer.send(text, properties={"code": text[:-1]} if text[0] != "-" else {})


def texts_of(session: blocking.Session) -> list[object]:
    found: list[object] = []
    with session.create_consumer(Q) as consumer:
        wait = PATIENCE_S
        while (message := consumer.receive(wait)) is not None:
            found.append(message.body)
            wait = SOON_S
    return found


def check(broker: BrokerProcess) -> None:
    """What both brokers do: order, messages without a code, a rollback, a transaction, a restart after a kill."""
    with blocking.connect(broker.openwire_uri()) as connection:
        with connection.session() as session:
            send(session, "a1", "b1", "-1", "a2", "-2", "a3")
            assert texts_of(session) == ["b1", "-1", "-2", "a3"]
        with connection.session("transacted") as session, connection.session() as other:
            send(session, "a1", "b1", "b2")
            session.commit()
            assert texts_of(session) == ["a1", "b2"]
            send(other, "b3")
            session.rollback()
        with connection.session() as session:
            assert texts_of(session) == ["a1", "b3"]
            send(session, "c1", "d1", "c2")
    broker.kill()
    broker.start()
    with blocking.connect(broker.openwire_uri()) as connection, connection.session() as session:
        assert texts_of(session) == ["d1", "c2"]


def test_the_last_message_of_each_code_is_kept_over_openwire_stomp_and_a_kill(ours: BrokerProcess) -> None:
    check(ours)
    with StompSocket(ours.stomp_port) as stomp, blocking.connect(ours.openwire_uri()) as connection:
        stomp.connect("1.2")
        with connection.session() as session:
            send(session, "a1", "b1")
            stomp.type("SEND\ndestination:/queue/LAST.VALUES\ncode:a\nreceipt:1\n\na2\0")
            answer = stomp.receive()
            assert answer is not None and answer.command == "RECEIPT"
            assert texts_of(session) == ["b1", "a2"]


@pytest.mark.long
def test_artemis_does_the_same(theirs: BrokerProcess) -> None:
    check(theirs)
