"""A client that sorts messages by priority acknowledges what it has delivered alone, and Spark sorts nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Final, Literal

import pytest

from spanwire import client
from spanwire.client.io.tracing_switch import API
from spanwire.model.destination import QUEUE, Destination
from spanwire.pipeline.link.connections import connect, connect_for_redelivery
from spanwire.pipeline.options import Login
from spanwire.testing import Broker

COUNT: Final = 60  # messages
PRIORITIES: Final = [7 * number % 10 for number in range(COUNT)]
STEP: Final = 10  # messages of one acknowledgement
WAIT_S: Final = 30.0
Q: Final = Destination(QUEUE, "Q")


def send(broker: Broker, priorities: Sequence[int] = PRIORITIES) -> None:
    with client.connect(broker.url) as connection, connection.session() as session:
        producer = session.create_producer(Q)
        for number, priority in enumerate(priorities):
            producer.send(str(number), priority=priority)


@pytest.mark.parametrize("mode", ["client", "dups_ok", "transacted"])
def test_messages_sorted_by_priority_are_acknowledged_once_delivered(
    mode: Literal["client", "dups_ok", "transacted"],
) -> None:
    with Broker() as broker:
        send(broker)
        url = f"{broker.url}?jms.messagePrioritySupported=true"
        taken: list[int] = []
        with client.connect(url) as connection, connection.session(mode) as session:
            consumer = session.create_consumer(Q)
            for _ in range(COUNT // 2 // STEP):
                messages = [consumer.receive(WAIT_S) for _ in range(STEP)]
                taken += [int(str(message.body)) for message in messages if message is not None]
                if mode == "transacted":
                    session.commit()
                elif mode == "client" and messages[-1] is not None:
                    messages[-1].acknowledge()
        left = [int(str(message.body)) for message in broker.browse(Q, COUNT)]
        assert sorted(taken + left) == list(range(COUNT))


@pytest.mark.parametrize("is_redelivering", [False, True])
def test_a_reader_of_spark_receives_in_the_order_of_the_broker(is_redelivering: bool) -> None:
    with Broker() as broker:
        send(broker)
        login = Login(f"{broker.url}?jms.messagePrioritySupported=true", None, None, None)
        opened = connect_for_redelivery(login, None) if is_redelivering else connect(login)
        with opened as connection, connection.session("client") as session:
            consumer = session.create_consumer(Q)
            taken = [consumer.receive(WAIT_S) for _ in range(COUNT)]
        assert [str(message.body) for message in taken if message is not None] == [str(one) for one in range(COUNT)]


@pytest.mark.parametrize("mode", ["client", "individual", "transacted"])
def test_a_consumer_of_sorted_messages_collects_more_than_its_prefetch(
    mode: Literal["client", "individual", "transacted"],
) -> None:
    with Broker() as broker:
        dice = Random(0)  # with these priorities the client reports early messages last
        send(broker, [dice.randrange(10) for _ in range(COUNT)])
        url = f"{broker.url}?jms.messagePrioritySupported=true&jms.prefetchPolicy.all=10"
        with client.connect(url) as connection, connection.session(mode) as session:
            consumer = session.create_consumer(Q)
            for number in range(COUNT):
                assert consumer.receive(WAIT_S) is not None, f"none after {number}"


def test_a_traced_program_reads_over_a_traced_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(API)
    traced = pytest.importorskip("spanwire.client.blocking.traced")
    monkeypatch.setitem(sys.modules, API, SimpleNamespace(get_tracer_provider=object))
    with Broker() as broker, connect(Login(broker.url, None, None, None)) as connection:
        assert type(connection) is traced.TracedConnection
