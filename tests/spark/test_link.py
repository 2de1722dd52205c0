"""The source's own way to a broker, without Spark: what a lost connection does to an acknowledgement."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from spanwire.client import blocking
from spanwire.model.errors import JmsError
from spanwire.pipeline.arrow.segments import read_rows
from spanwire.pipeline.link.batch_receiver import MessageSource
from spanwire.pipeline.link.broker_link import QueueSource, consume
from spanwire.pipeline.options import read_options
from spanwire.pipeline.source.staging import Staging
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.queues import numbered, send, take_all

KILLS = 3


def receive(source: MessageSource, count: int) -> None:
    """Exactly so many, in as many portions as they come."""
    while count > 0:
        found = source.receive(count, 10.0)
        assert found, f"{count} messages did not come"
        count -= len(found)


def test_what_is_not_acknowledged_goes_back(url: str) -> None:
    send(url, "BACK", numbered(10))
    options = read_options({"url": url, "destination": "BACK"})
    source = consume(options)
    receive(source, 5)
    source.acknowledge()
    receive(source, 3)
    source.close()
    assert [message.properties["n"] for message in take_all(url, "BACK")] == [5, 6, 7, 8, 9]


def has_messages(url: str, destination: str, **given: str) -> bool:
    source = consume(read_options({"url": url, "destination": destination, **given}))
    try:
        return source.has_messages()
    finally:
        source.close()


def test_a_queue_with_messages_is_told_from_an_empty_one(url: str) -> None:
    assert not has_messages(url, "SHOWN")
    send(url, "SHOWN", numbered(3))
    assert has_messages(url, "SHOWN")
    assert has_messages(url, "SHOWN", selector="n = 2") and not has_messages(url, "SHOWN", selector="n = 3")
    source = consume(read_options({"url": url, "destination": "SHOWN"}))
    receive(source, 1)
    assert has_messages(url, "SHOWN"), "messages in flight to another consumer may come back"
    receive(source, 2)
    source.acknowledge()
    source.close()
    assert not has_messages(url, "SHOWN")
    assert not has_messages(url, "topic://SHOWN", subscriptionDurable="false")


@pytest.mark.parametrize("destination", ["PATTERN.>", "PATTERN.A,PATTERN.B"])
@pytest.mark.parametrize(
    ("kind", "is_shown"), [("spanwire", False), pytest.param("classic", True, marks=pytest.mark.long)]
)
def test_several_queues_are_shown_by_some_brokers_alone(
    kind: str, is_shown: bool, destination: str, request: pytest.FixtureRequest
) -> None:
    broker: BrokerProcess = request.getfixturevalue(kind)
    send(broker.openwire_uri(), "PATTERN.B", numbered(1))
    assert has_messages(broker.openwire_uri(), destination) == is_shown
    take_all(broker.openwire_uri(), "PATTERN.B")


@pytest.mark.parametrize("kind", ["spanwire", pytest.param("classic", marks=pytest.mark.long)])
def test_what_is_acknowledged_does_not_come_again_from_a_broker_killed_behind_its_answer(
    kind: str, tmp_path: Path
) -> None:
    with BrokerProcess(spanwire_command(), tmp_path) if kind == "spanwire" else classic_broker(tmp_path) as broker:
        for _ in range(KILLS):
            send(broker.openwire_uri(), "BEHIND", numbered(50))
            source = consume(read_options({"url": broker.openwire_uri(), "destination": "BEHIND"}))
            receive(source, 50)
            source.acknowledge()
            broker.kill()
            broker.start()
            assert take_all(broker.openwire_uri(), "BEHIND") == []


@pytest.mark.parametrize("scheme", ["{}", "failover:({})?initialReconnectDelay=50"])
def test_a_broker_killed_before_the_acknowledgement_makes_no_double(scheme: str, tmp_path: Path) -> None:
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        send(broker.openwire_uri(), "KILLED", numbered(20))
        given = {"url": scheme.format(broker.openwire_uri()), "destination": "KILLED", "maxRowsPerBatch": "10"}
        options = read_options({**given, "stagingDirectory": str(tmp_path / "staging")})

        class Interrupted:
            """A source whose broker is killed and started again just before it hears of the first batch."""

            def __init__(self) -> None:
                self._source = consume(options)
                self.receive = self._source.receive
                self.is_connected = self._source.is_connected
                self.has_messages = self._source.has_messages
                self.close = self._source.close

            def acknowledge(self) -> None:
                if not restarted:
                    restarted.append(True)
                    broker.kill()
                    broker.start()
                self._source.acknowledge()

        restarted: list[bool] = []
        staging = Staging(options, Interrupted, time.monotonic)
        found: list[object] = []
        number = 0
        while len(found) < 20:
            try:
                following = staging.next_segment(number, 10)
            except JmsError:
                continue
            assert following > number, f"only {len(found)} messages came"
            number = following
            for batch in read_rows(tmp_path / "staging", number, 0, 10):
                found += [row["text"] for row in batch.to_pylist()]
        assert sorted(map(str, found)) == sorted(f"text {n}" for n in range(20))
        assert staging.next_segment(number, 10) == number
        staging.close()
        assert take_all(broker.openwire_uri(), "KILLED") == []


@pytest.mark.parametrize("mode", ["AT_MOST_ONCE", "ONCE_AND_ONLY_ONCE"])
def test_an_acknowledgement_that_its_connection_does_not_confirm_counts_as_lost(mode: str, tmp_path: Path) -> None:
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        send(broker.openwire_uri(), "LOST", numbered(20))
        url = f"failover:({broker.openwire_uri()})?initialReconnectDelay=50"
        given = {"url": url, "destination": "LOST", "maxRowsPerBatch": "10", "qualityOfServiceMode": mode}
        options = read_options({**given, "stagingDirectory": str(tmp_path / "staging")})

        class Unheard(QueueSource):
            """Its broker takes nothing any more when it is to hear of the batch, and is another process then."""

            def __init__(self, connection: blocking.Connection) -> None:
                super().__init__(connection, options)
                self._waiting = connection.shared.core.correlator.requests

            def acknowledge(self) -> None:
                os.kill(broker.pid, signal.SIGSTOP)
                restarting = threading.Thread(target=self._restart)
                restarting.start()
                try:
                    super().acknowledge()
                finally:
                    restarting.join()

            def _restart(self) -> None:
                while not self._waiting:  # for its answer
                    time.sleep(0.01)
                broker.kill()
                broker.start()

        staging = Staging(options, lambda: Unheard(blocking.connect(url)), lambda: 0.0)
        if mode == "AT_MOST_ONCE":
            with pytest.raises(JmsError, match="before the broker had confirmed"):
                staging.next_segment(0, 10)
            assert staging.numbers() == []
        else:
            assert staging.next_segment(0, 10) == 1
        staging.close()
        staging = Staging(options, lambda: consume(options), time.monotonic)
        found: list[object] = []
        number = 0
        while len(found) < 20:
            following = staging.next_segment(number, 10)
            assert following > number, f"only {len(found)} messages came"
            number = following
            for batch in read_rows(tmp_path / "staging", number, 0, 10):
                found += [row["text"] for row in batch.to_pylist()]
        assert sorted(map(str, found)) == sorted(f"text {n}" for n in range(20))
        assert staging.next_segment(number, 10) == number
        staging.close()
        assert take_all(broker.openwire_uri(), "LOST") == []
