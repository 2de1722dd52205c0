"""The checks of the load generator in C, against a STOMP broker that plants faults into what it dispatches."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.bench.loads.generator import broken_promises, compile_load
from tests.bench.loads.workloads import Workload
from tests.support.peers import require

COUNT = 40
SIZE = 100
CONSUMERS = 2
PATIENCE_S = 60.0

Dispatch = tuple[int, bytes]  # the consumer's place, the body
Fault = Callable[[list[Dispatch]], list[Dispatch]]


class FaultyBroker:
    """Collects all messages of one queue, then dispatches them to its consumers as the fault has them."""

    def __init__(self, fault: Fault) -> None:
        self.acknowledged: list[str] = []
        self.numbers: list[str] = []
        self._fault = fault
        self._bodies: list[bytes] = []
        self._consumers: list[socket.socket] = []
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def read_all(self) -> None:
        """Wait for the end of what the clients, which are gone, have sent."""
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        # A client that has seen enough leaves without reading all.
        with suppress(ConnectionError), connection, connection.makefile("rb") as lines:
            while head := list(iter(lambda: lines.readline().strip(), b"")) or self._skip(lines.read(1)):
                headers = dict(header.decode().split(":", 1) for header in head[1:])
                body = lines.read(int(headers.get("content-length", "0")))
                _ = lines.read(1)  # NUL
                with self._lock:
                    self._handle(connection, head[0], headers, body)

    @staticmethod
    def _skip(octet: bytes) -> list[bytes]:
        assert not octet, "two frames are divided by no line"
        return []

    def _handle(self, connection: socket.socket, command: bytes, headers: dict[str, str], body: bytes) -> None:
        if command == b"CONNECT":
            connection.sendall(b"CONNECTED\nversion:1.2\n\n\0")
        elif command == b"SUBSCRIBE":
            self._consumers.append(connection)
        elif command == b"ACK":
            self.acknowledged.append(headers["id"])
        elif command == b"SEND":
            self.numbers.append(headers.get("number", ""))
            self._bodies.append(body)
            if len(self._bodies) == COUNT:
                self._dispatch()
        if "receipt" in headers:
            connection.sendall(f"RECEIPT\nreceipt-id:{headers['receipt']}\n\n\0".encode())

    def _dispatch(self) -> None:
        planned = [(number % len(self._consumers), body) for number, body in enumerate(self._bodies)]
        for number, (place, body) in enumerate(self._fault(planned)):
            head = f"MESSAGE\nsubscription:1\nmessage-id:{number}\nack:a\\c{number}\ncontent-length:{len(body)}\n\n"
            self._consumers[place].sendall(head.encode() + body + b"\0")
        for consumer in self._consumers:
            consumer.shutdown(socket.SHUT_WR)  # nobody has to wait for what is lost


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("cc")
    return compile_load(tmp_path_factory.mktemp("load"))


@pytest.fixture
def start() -> Iterator[Callable[[Fault], FaultyBroker]]:
    started: list[FaultyBroker] = []

    def start_broker(fault: Fault) -> FaultyBroker:
        started.append(FaultyBroker(fault))
        return started[-1]

    yield start_broker
    for broker in started:
        broker.close()


def report(
    generator: Path, broker: FaultyBroker, consumers: int = CONSUMERS, individual: bool = False, numbered: bool = False
) -> dict[str, float]:
    workload = Workload("", "stomp", "queue", 1, consumers, SIZE, COUNT, individual=individual, numbered=numbered)
    done = subprocess.run(
        [str(generator), *workload.arguments(broker.port, "Q")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    broker.read_all()
    found: dict[str, float] = json.loads(done.stdout)
    return found


def lose_one(planned: list[Dispatch]) -> list[Dispatch]:
    return planned[:7] + planned[8:]


def repeat_one_for_its_consumer(planned: list[Dispatch]) -> list[Dispatch]:
    return [*planned[:8], planned[6], *planned[8:]]


def repeat_one_for_the_other(planned: list[Dispatch]) -> list[Dispatch]:
    place, body = planned[6]
    return [*planned[:7], (1 - place, body), *planned[7:]]


def lose_one_and_repeat_another(planned: list[Dispatch]) -> list[Dispatch]:
    return repeat_one_for_the_other(planned)[:-1]


def swap_two(planned: list[Dispatch]) -> list[Dispatch]:
    return [*planned[:6], planned[8], planned[7], planned[6], *planned[9:]]


def change_a_number(planned: list[Dispatch]) -> list[Dispatch]:
    place, body = planned[7]
    return [*planned[:7], (place, body[:8] + (COUNT + 1).to_bytes(8, "big") + body[16:]), *planned[8:]]


def cut_one(planned: list[Dispatch]) -> list[Dispatch]:
    place, body = planned[7]
    return [*planned[:7], (place, body[:-1]), *planned[8:]]


def damage_one(planned: list[Dispatch]) -> list[Dispatch]:
    place, body = planned[7]
    return [*planned[:7], (place, body[:-1] + b"y"), *planned[8:]]


def test_a_run_without_a_fault_is_clean(generator: Path, start: Callable[[Fault], FaultyBroker]) -> None:
    found = report(generator, start(list))

    assert (found["sent"], found["received"]) == (COUNT, COUNT)
    assert broken_promises(found) == ""


@pytest.mark.parametrize(
    ("fault", "promise"),
    [
        (lose_one, "1 lost"),
        (repeat_one_for_its_consumer, "1 doubled"),
        (repeat_one_for_the_other, "1 doubled"),
        (lose_one_and_repeat_another, "1 lost, 1 doubled"),
        (swap_two, "1 reordered"),
        (change_a_number, "1 lost, 1 strange"),
        (cut_one, "1 lost, 1 strange"),
        (damage_one, "1 lost, 1 strange"),
    ],
)
def test_a_planted_fault_is_reported(
    generator: Path, start: Callable[[Fault], FaultyBroker], fault: Fault, promise: str
) -> None:
    assert broken_promises(report(generator, start(fault))) == promise


def test_a_gap_before_one_consumer_is_loss_out_of_order(
    generator: Path, start: Callable[[Fault], FaultyBroker]
) -> None:
    assert broken_promises(report(generator, start(lose_one), consumers=1)) == "1 lost, 1 reordered"


def test_a_consumer_acknowledges_each_message_by_its_header(
    generator: Path, start: Callable[[Fault], FaultyBroker]
) -> None:
    broker = start(list)

    assert broken_promises(report(generator, broker, consumers=1, individual=True)) == ""
    assert broker.acknowledged == [f"a\\c{number}" for number in range(COUNT)]


def test_a_producer_gives_each_message_a_header_of_its_own(
    generator: Path, start: Callable[[Fault], FaultyBroker]
) -> None:
    broker = start(list)

    assert broken_promises(report(generator, broker, numbered=True)) == ""
    assert broker.numbers == [f"{number:010}" for number in range(COUNT)]
