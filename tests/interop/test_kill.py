"""kill -9 under persistent load of Java and STOMP clients: what was acknowledged is there, what comes twice says so.

The count is made by code that is not the broker's, from what the clients themselves were told.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import assert_alike
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.java import JavaProcess, Observation
from tests.support.peers import require
from tests.support.stomp_socket import StompSocket
from tests.support.total_queue import Ledger, check

QUEUE = "KILLED"
WINDOW = 20  # STOMP sends without a receipt yet
ENOUGH = 200  # receipts and deliveries of each STOMP client before the kill
PATIENCE_S = 30.0
EVERYTHING = 1_000_000


@pytest.fixture
def own_spanwire(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that may be killed."""
    with BrokerProcess(spanwire_command(), tmp_path / "spanwire") as broker:
        yield broker


@pytest.fixture
def own_classic(tmp_path: Path) -> Iterator[BrokerProcess]:
    """The same of Classic."""
    require("activemq-broker")
    with classic_broker(tmp_path / "classic") as broker:
        yield broker


class StompProducer(threading.Thread):
    """Sends persistently until the broker is gone; many sends wait for their receipts at a time."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(daemon=True)
        self.name = name
        self.attempted: list[str] = []
        self.granted: list[str] = []
        self.enough = threading.Event()
        self._socket = StompSocket(port)
        self._socket.connect("1.1")

    def run(self) -> None:
        with self._socket:
            try:
                while self._send_window():
                    pass
            except OSError:
                return

    def _send_window(self) -> bool:
        start = len(self.attempted)
        self.attempted += [f"{self.name}-0-{number}" for number in range(start, start + WINDOW)]
        head = f"SEND\ndestination:/queue/{QUEUE}\npersistent:true\nreceipt:"
        self._socket.type("".join(f"{head}{message}\n\n{message}\0" for message in self.attempted[start:]))
        for _ in range(WINDOW):
            answer = self._socket.receive()
            if answer is None:
                return False
            assert answer.command == "RECEIPT", answer
            self.granted.append(answer.headers["receipt-id"])
        if len(self.granted) >= ENOUGH:
            self.enough.set()
        return True


class StompConsumer(threading.Thread):
    """Acknowledges two of three messages, each with a receipt, until the broker is gone."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(daemon=True)
        self.name = name
        self.ledger = Ledger()
        self.enough = threading.Event()
        self._socket = StompSocket(port)
        self._socket.connect("1.1")
        self._socket.type(
            f"SUBSCRIBE\nid:s\ndestination:/queue/{QUEUE}\nack:client-individual\nactivemq.prefetchSize:500\n\n\0"
        )

    def run(self) -> None:
        count = 0
        with self._socket:
            try:
                while (frame := self._socket.receive()) is not None:
                    if frame.command == "RECEIPT":
                        self.ledger.settled(frame.headers["receipt-id"])
                        continue
                    assert frame.command == "MESSAGE", frame
                    count += 1
                    message = frame.body.decode()
                    self.ledger.delivered(message, self.name, frame.headers.get("redelivered") == "true")
                    if count % 3:
                        self.ledger.acknowledged(message)
                        self._socket.type(
                            f"ACK\nsubscription:s\nmessage-id:{frame.headers['message-id']}\nreceipt:{message}\n\n\0"
                        )
                    if count >= ENOUGH:
                        self.enough.set()
            except OSError:
                return


def _load_until_killed(broker: BrokerProcess, java: JavaProcess, ledger: Ledger, round_name: str) -> None:
    """One round of load that ends with the broker's death; everything the clients saw goes into the ledger."""
    producer = StompProducer(broker.stomp_port, f"stomp.{round_name}")
    consumer = StompConsumer(broker.stomp_port, f"consumer.{round_name}")
    producer.start()
    consumer.start()

    def kill(_: str) -> None:
        assert producer.enough.wait(PATIENCE_S)
        assert consumer.enough.wait(PATIENCE_S)
        broker.kill()

    (sent,) = java.ask("persistent-load", broker.openwire_uri(), QUEUE, f"java.{round_name}", on_event=kill)
    for client in (producer, consumer):
        client.join(PATIENCE_S)
        assert not client.is_alive()
    for message in [*sent["attempted"], *producer.attempted]:
        who, _, number = message.rpartition("-")
        ledger.attempted(QUEUE, who, int(number), message)
    for message in [*sent["acknowledged"], *producer.granted]:
        ledger.granted(message)
    ledger.events += consumer.ledger.events


def _drain(broker: BrokerProcess, java: JavaProcess, ledger: Ledger, consumer: str, limit: int) -> int:
    (got,) = java.ask("drain", broker.openwire_uri(), QUEUE, str(limit))
    redelivered = set(got["redelivered"])
    for message in got["texts"]:
        ledger.delivered(message, consumer, message in redelivered)
        ledger.settled(message)
    return len(got["texts"])


def test_kill_9_twice_under_persistent_load_loses_nothing_and_flags_what_comes_twice(
    java: JavaProcess, own_spanwire: BrokerProcess
) -> None:
    ledger = Ledger()
    for round_name in ("first", "second"):
        _load_until_killed(own_spanwire, java, ledger, round_name)
        own_spanwire.start()
    taken = _drain(own_spanwire, java, ledger, "drain.1", ENOUGH)
    assert taken == ENOUGH
    for drain in ("drain.2", "drain.3"):
        assert own_spanwire.stop() == 0
        own_spanwire.start()
        taken += _drain(own_spanwire, java, ledger, drain, ENOUGH if drain == "drain.2" else EVERYTHING)
    verdict = check(ledger)
    assert verdict.ok, verdict.report()
    assert verdict.sent > 2 * ENOUGH
    assert taken > 2 * ENOUGH
    assert verdict.redelivered > 0, "nothing was in flight at the kills"
    with StompSocket(own_spanwire.stomp_port) as later:
        later.connect("1.1")
        later.type(f"SUBSCRIBE\nid:s\ndestination:/queue/{QUEUE}\n\n\0")
        assert later.silence()


@pytest.mark.parametrize("scenario", ["failover", pytest.param("failover-transaction", marks=pytest.mark.long)])
def test_failover_goes_on_with_a_restarted_broker_as_with_classic(
    java: JavaProcess, own_spanwire: BrokerProcess, own_classic: BrokerProcess, scenario: str
) -> None:
    def observed(broker: BrokerProcess) -> list[Observation]:
        def restart(_: str) -> None:
            broker.kill()
            broker.start()

        return java.ask(scenario, broker.openwire_uri(), on_event=restart)

    ours = observed(own_spanwire)
    assert ours
    assert_alike(ours, observed(own_classic))
