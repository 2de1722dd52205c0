"""Networks of processes under stress: the broker in the middle is killed while messages flow; two full brokers drain.

Producers and consumers speak STOMP; the count is theirs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from spanwire.management.control_client import ControlClient
from tests.interop.network_rows import PATIENCE_S, Consumer, Place, send
from tests.interop.test_network_bridges import BEFORE_THE_KILL, CONNECTOR, Counter, Sender
from tests.interop.test_network_bridges import send as send_to
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.stomp_socket import StompSocket

FULL = "<systemUsage><systemUsage><memoryUsage><memoryUsage limit='1 mb'/></memoryUsage></systemUsage></systemUsage>"
BODY = "x" * 2_000
TO_FILL = 1_500  # three times as many as fit


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def linked(stack: ExitStack, directory: Path, name: str, to: BrokerProcess | None, more: str) -> BrokerProcess:
    inside = "" if to is None else CONNECTOR.format(name=f"to-{to.name}", port=to.openwire_port, more=more)
    return stack.enter_context(BrokerProcess(spanwire_command(), directory / name, name=name, inside=inside))


@pytest.mark.parametrize("more", [' networkTTL="2"', ' networkTTL="2" duplex="true"'], ids=["one way", "duplex"])
def test_when_the_broker_in_the_middle_is_killed_all_that_was_granted_arrives_at_the_end(
    stack: ExitStack, tmp_path: Path, more: str
) -> None:
    c = linked(stack, tmp_path, "brokerC", None, more)
    b = linked(stack, tmp_path, "brokerB", c, more)
    a = linked(stack, tmp_path, "brokerA", b, more)
    counter = Counter(c.stomp_port, "/queue/HOPS")
    assert counter.ready.wait(PATIENCE_S)
    sender = Sender(a.stomp_port, "/queue/HOPS", "one")
    counter.waits_for(BEFORE_THE_KILL)
    b.kill()
    b.start()
    sender.ended.set()
    sender.join(PATIENCE_S)
    assert not sender.is_alive()
    later = [f"later-{number}" for number in range(20)]
    send_to(a.stomp_port, "/queue/HOPS", later)
    counter.waits_for_all({*sender.granted, *later})
    assert counter.unflagged == []
    assert set(counter.texts) <= {*(f"one-{number}" for number in range(len(sender.granted) + 20)), *later}
    counter.ended.set()


class Filler(threading.Thread):
    """Sends messages that are on no disk, and waits for a receipt of the last: its broker is full before."""

    def __init__(self, port: int, destination: str) -> None:
        super().__init__(daemon=True)
        self.is_done = threading.Event()
        self._port = port
        self._destination = destination
        self.start()

    def run(self) -> None:
        with StompSocket(self._port) as socket:
            socket.connect("1.1")
            for number in range(TO_FILL):
                receipt = "receipt:done\n" if number == TO_FILL - 1 else ""
                socket.type(f"SEND\ndestination:{self._destination}\n{receipt}\n{number} {BODY}\0")
            answer = socket.receive()
            assert answer is not None and answer.command == "RECEIPT", answer
            self.is_done.set()


def awaits_full(broker: BrokerProcess) -> None:
    """Until a send waits for room."""
    client = ControlClient(broker.directory / "data")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        status = client.ask("status")
        assert isinstance(status, dict)
        if status["statistics"]["parked_sends"] > 0:
            return
        assert time.monotonic() < deadline, status
        time.sleep(0.05)


def test_two_full_brokers_with_a_duplex_link_drain_both_ways(stack: ExitStack, tmp_path: Path) -> None:
    brokers: list[BrokerProcess] = []
    for name in ("brokerB", "brokerA"):
        inside = ""
        if brokers:
            inside = CONNECTOR.format(name="twin", port=brokers[0].openwire_port, more=' duplex="true"')
        broker = BrokerProcess(spanwire_command(), tmp_path / name, name=name, inside=inside + FULL)
        brokers.append(stack.enter_context(broker))
    b, a = brokers
    fillers = [Filler(a.stomp_port, "/queue/TO.B"), Filler(b.stomp_port, "/queue/TO.A")]
    for broker in brokers:
        awaits_full(broker)
    assert not any(filler.is_done.is_set() for filler in fillers)
    consumers = []
    for broker, queue in ((b, "TO.B"), (a, "TO.A")):
        place = Place(broker.stomp_port, broker.openwire_port)
        consumers.append(stack.enter_context(Consumer(place, f"/queue/{queue}")))
    for consumer in consumers:
        consumer.waits_for(TO_FILL)
        assert len({text.split()[0] for text in consumer.texts}) == len(consumer.texts) == TO_FILL
    for filler in fillers:
        assert filler.is_done.wait(PATIENCE_S)
    send(Place(a.stomp_port, a.openwire_port), "/queue/TO.B", ["last"])
    consumers[0].waits_for_text("last")
