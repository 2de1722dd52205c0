"""Time set forward, wires that are cut, clogged and slowed down, and brokers that are killed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Final

import pytest

from spanwire.client import blocking
from spanwire.model.errors import ConfigurationError, IllegalStateError, JmsError, ResourceAllocationError
from spanwire.testing import Broker, Network, VirtualClock, Wire
from spanwire.testing.report import describe

PATIENCE: Final = 30.0
HOUR: Final = 3600.0
COPY: Final = shutil.copytree


def sent(url: str, *bodies: str, **options: object) -> None:
    with blocking.connect(url) as connection, connection.session() as session:
        producer = session.create_producer("queue://Q")
        for body in bodies:
            producer.send(body, **options)  # type: ignore[arg-type]


def test_what_expires_in_an_hour_has_expired_when_an_hour_has_passed() -> None:
    with Broker() as broker:
        sent(broker.url, "short", time_to_live_ms=int(HOUR * 1000))
        sent(broker.url, "long")
        broker.advance(HOUR + 1)
        broker.queue("Q").wait_for(PATIENCE, pending=1)
        assert [message.body for message in broker.queue("Q").messages()] == ["long"]


def test_what_is_scheduled_for_tomorrow_comes_when_it_is_tomorrow() -> None:
    xml = '<broker brokerName="later" schedulerSupport="true"><transportConnectors>'
    xml += '<transportConnector name="openwire" uri="tcp://127.0.0.1:0"/></transportConnectors></broker>'
    with Broker(xml) as broker:
        sent(broker.url, "tomorrow", properties={"AMQ_SCHEDULED_DELAY": 86_400_000})
        assert broker.queue("Q").pending == 0
        broker.advance(86_401)
        broker.queue("Q").wait_for(PATIENCE, pending=1)


def test_clients_stay_connected_while_hours_pass() -> None:
    with Broker() as broker, blocking.connect(broker.url) as connection, connection.session() as session:
        consumer = session.create_consumer("queue://Q")
        for _ in range(3):
            broker.advance(HOUR)
        session.create_producer("queue://Q").send("a")
        message = consumer.receive(PATIENCE)
        assert message is not None
        assert len(broker.clients()) == 1


def test_the_brokers_of_a_network_see_one_time_and_stay_linked() -> None:
    with Network("A<->B") as network:
        network.advance(HOUR)
        assert network["A"].clock.added == network["B"].clock.added == HOUR
        network.wait_until_linked()


def test_time_does_not_go_back() -> None:
    clock = VirtualClock()
    clock.add(5)
    for seconds in (-1, 1e12):
        with pytest.raises(ConfigurationError, match="set forward by 0 to"):
            clock.add(seconds)
    assert clock.added == 5
    assert clock.monotonic() >= time.monotonic() + 4
    assert clock.wall() >= time.time() + 4


def test_a_cut_wire_breaks_connections_and_a_mended_one_lets_them_through() -> None:
    with Broker() as broker, broker.wire() as wire:
        sent(wire.url, "a")
        connection = blocking.connect(wire.url)
        consumer = connection.session().create_consumer("queue://NOTHING")
        wire.cut()
        with pytest.raises(JmsError, match="ended"):
            consumer.receive(PATIENCE)
        with pytest.raises(JmsError):
            blocking.connect(wire.url)
        connection.close()
        wire.mend()
        sent(wire.url, "b")
        assert [message.body for message in broker.queue("Q").messages()] == ["a", "b"]


def test_a_client_with_failover_goes_on_after_its_wire_was_dropped() -> None:
    with (
        Broker() as broker,
        broker.wire() as wire,
        blocking.connect(f"failover:({wire.url})?initialReconnectDelay=10") as connection,
        connection.session() as session,
    ):
        producer = session.create_producer("queue://Q")
        producer.send("a")
        wire.drop()
        producer.send("b")
        assert [message.body for message in broker.queue("Q").messages()] == ["a", "b"]


def test_nothing_passes_a_clogged_wire_until_it_is_mended() -> None:
    with Broker() as broker, broker.wire() as wire, blocking.connect(wire.url) as connection:
        session = connection.session("transacted")
        producer = session.create_producer("queue://Q")
        producer.send("a")
        wire.clog()
        with pytest.raises(ResourceAllocationError, match="not answered"):
            session.commit(timeout=0.1)
        assert broker.queue("Q").pending == 0
        wire.mend()
        broker.queue("Q").wait_for(PATIENCE, pending=1)


def test_a_slow_wire_takes_its_time_in_both_directions() -> None:
    with Broker() as broker, broker.wire() as wire, blocking.connect(wire.url) as connection:
        with connection.session() as session:
            producer = session.create_producer("queue://Q")
            wire.slow(0.1)
            started = time.monotonic()
            producer.send("a")
            assert time.monotonic() - started >= 0.2
        wire.slow(0)


def test_large_messages_and_many_connections_pass_a_wire_unchanged() -> None:
    body = bytes(range(256)) * 20_000
    with Broker() as broker, broker.wire() as wire:
        with blocking.connect(wire.url) as connection, connection.session() as session:
            consumer = session.create_consumer("queue://Q")
            session.create_producer("queue://Q").send(body)
            message = consumer.receive(PATIENCE)
            assert message is not None
            assert message.body == body
        connections = [blocking.connect(wire.url) for _ in range(5)]
        assert wire.connections == 5
        for connection in connections:
            connection.close()


def test_a_wire_to_nobody_lets_nobody_through() -> None:
    broker = Broker()
    with broker:
        pass
    with broker.wire() as wire, pytest.raises(JmsError):
        blocking.connect(wire.url)
    wire.stop()
    unused = Wire(lambda: 1)
    unused.stop()


def test_a_link_that_is_cut_and_mended_carries_messages_again() -> None:
    with (
        Network("A->B") as network,
        blocking.connect(network["B"].url) as connection,
        connection.session() as session,
    ):
        consumer = session.create_consumer("queue://Q")
        network["A"].queue("Q").wait_for(PATIENCE, consumers=1)
        network.cut("A", "B")
        network["A"].queue("Q").wait_for(PATIENCE, consumers=0)
        sent(network["A"].url, "late")
        assert consumer.receive_no_wait() is None
        network.mend()
        message = consumer.receive(PATIENCE)
        assert message is not None
        assert message.body == "late"
    with pytest.raises(KeyError):
        network.cut("B", "A")


def test_a_killed_broker_has_what_was_acknowledged_to_its_producers_and_nothing_of_a_farewell(tmp_path: Path) -> None:
    with Broker(directory=tmp_path / "data") as broker:
        sent(broker.url, "kept")
        connection = blocking.connect(broker.url)
        consumer = connection.session("client").create_consumer("queue://Q")
        assert consumer.receive(PATIENCE) is not None
        broker.kill()
        assert not broker.is_running
        with pytest.raises(JmsError, match="ended"):
            consumer.receive(PATIENCE)
        connection.close()
        with pytest.raises(IllegalStateError, match="does not run"):
            broker.kill()
        broker.start()
        assert [message.body for message in broker.queue("Q").messages()] == ["kept"]


def test_a_segment_that_goes_while_a_broker_is_killed_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[object] = []

    def copy_with_a_gap(source: Path, target: Path, *more: object, **options: object) -> object:
        found = COPY(source, target, *more, **options)  # type: ignore[arg-type]
        copies.append(target)
        if len(copies) == 1:
            raise shutil.Error([("0000000001.journal", "copy", "No such file or directory")])
        return found

    monkeypatch.setattr("spanwire.testing.broker.shutil.copytree", copy_with_a_gap)
    with Broker(directory=tmp_path) as broker:
        sent(broker.url, "kept")
        broker.kill()
        broker.start()
        assert [message.body for message in broker.queue("Q").messages()] == ["kept"]


def test_a_killed_broker_without_a_journal_has_nothing() -> None:
    with Broker() as broker:
        sent(broker.url, "gone")
        broker.kill()
        broker.start()
        assert broker.queue("Q").pending == 0


def test_a_report_tells_who_holds_messages_and_what_waits_behind_durable_subscriptions() -> None:
    with (
        Broker() as broker,
        blocking.connect(broker.url, client_id="shop") as connection,
        connection.session("client") as session,
    ):
        session.create_durable_subscriber("topic://NEWS", "mine").close()
        session.create_producer("topic://NEWS").send("headline")
        sent(broker.url, "held", "waiting")
        consumer = session.create_consumer("queue://Q", prefetch=0)
        assert consumer.receive(PATIENCE) is not None
        report = describe(broker, 3).splitlines()
        assert "    1 with shop, not acknowledged:" in report
        held = report.index("    1 with shop, not acknowledged:")
        assert report[held + 1].startswith("        text 'held' ID:")
        assert report[held - 1].startswith("    text 'waiting' ID:")
        durable = report.index("durable mine of shop on topic://NEWS: 1 waiting, 0 in flight, which is away")
        assert report[durable + 1].startswith("    text 'headline' ID:")
