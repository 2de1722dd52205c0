"""The pump over real sockets: both event loops, large frames, slow readers, limits, half frames, a failing disk."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.service.started import TIMEOUT_S, Started, StompClient, spanwire
from tests.support.broker_process import COMMAND

MIB = 1024 * 1024


class WithoutUvloop(Started):
    """A broker on asyncio's own loop."""

    def command(self) -> list[str]:
        hidden = (
            "import importlib.util as u; find = u.find_spec; u.find_spec = lambda n: None if n == 'uvloop' else find(n)"
        )
        return [COMMAND[0], COMMAND[1], f"{hidden}; {COMMAND[2]}"]


@pytest.mark.large
@pytest.mark.parametrize("kind", [Started, WithoutUvloop])
def test_large_frames_pass_in_both_directions(tmp_path: Path, kind: Callable[[Path], Started]) -> None:
    with kind(tmp_path) as broker, broker.stomp() as producer, broker.stomp() as consumer:
        consumer.send("SUBSCRIBE\ndestination:/queue/BIG\nid:1\nack:client-individual\nreceipt:s\n\n")
        consumer.receive()
        body = "".join(chr(ord("a") + number % 26) for number in range(1000)) * 5000
        for number in range(3):
            producer.transact(
                f"SEND\ndestination:/queue/BIG\npersistent:true\nreceipt:{number}\ncontent-length:{len(body)}\n\n{body}",
                str(number),
            )
        for _ in range(3):
            assert consumer.receive().rpartition("\n\n")[2] == body


@pytest.mark.large
@pytest.mark.parametrize("kind", [Started, WithoutUvloop])
def test_a_consumer_that_does_not_read_harms_nobody_and_gets_everything_later(
    tmp_path: Path, kind: Callable[[Path], Started]
) -> None:
    with kind(tmp_path) as broker, broker.stomp() as producer, broker.stomp() as slow, broker.stomp() as fast:
        slow.send("SUBSCRIBE\ndestination:/queue/SLOW\nid:1\nack:auto\nreceipt:s\n\n")
        slow.receive()
        fast.send("SUBSCRIBE\ndestination:/queue/FAST\nid:1\nack:auto\nreceipt:s\n\n")
        fast.receive()
        body = "x" * 100_000
        for number in range(200):
            producer.send(f"SEND\ndestination:/queue/SLOW\n\n{number} {body}")
        for number in range(10):
            producer.transact(f"SEND\ndestination:/queue/FAST\nreceipt:{number}\n\n{number}", str(number))
            assert fast.receive().endswith(f"\n\n{number}")
        numbers = [int(slow.receive().rpartition("\n\n")[2].split()[0]) for _ in range(200)]
        assert numbers == list(range(200))


def test_one_byte_at_a_time_is_understood(tmp_path: Path) -> None:
    with Started(tmp_path) as broker, closing(StompClient(broker.ports["stomp"], login=False)) as client:
        for byte in b"CONNECT\r\naccept-version:1.2\r\nhost:x\r\n\r\n\0":
            client.send_raw(bytes([byte]))
        assert client.receive().startswith("CONNECTED")


def test_connections_above_the_limit_of_a_connector_are_closed_and_the_others_live(tmp_path: Path) -> None:
    with Limited(tmp_path) as broker:
        first, second = broker.stomp(), broker.stomp()
        third = StompClient(broker.ports["stomp"], login=False)
        assert third.at_end()
        first.close()
        second.transact("SEND\ndestination:/queue/A\nreceipt:1\n\nx", "1")
        deadline = time.monotonic() + TIMEOUT_S
        while True:  # until the broker has noticed that the first one is gone
            assert time.monotonic() < deadline, "the place of a closed connection was not given to another one"
            again = StompClient(broker.ports["stomp"], login=False)
            try:
                again.send("CONNECT\naccept-version:1.2\nhost:x\n\n")
                answer = again.receive()
            except (EOFError, ConnectionError):
                again.close()
                continue
            assert answer.startswith("CONNECTED")
            break
    assert any("maximumConnections of connector stomp" in line for line in broker.errors)


class Limited(Started):
    """Two connections at most."""

    def text(self) -> str:
        return super().text().replace('stomp}"', 'stomp}?maximumConnections=2"')


class SmallMemory(Started):
    """64 MiB of memory for messages."""

    def text(self) -> str:
        usage = '<systemUsage><memoryUsage limit="64 mb"/></systemUsage></broker>'
        return super().text().replace("</broker>", usage)


class SmallMemoryWithoutUvloop(WithoutUvloop, SmallMemory):
    """Both."""


@pytest.mark.long
@pytest.mark.large
def test_half_frames_above_the_budget_cost_their_own_connection(tmp_path: Path) -> None:
    with SmallMemory(tmp_path) as broker, broker.stomp() as healthy:
        greedy = [broker.stomp() for _ in range(3)]
        frame = b"SEND\ndestination:/queue/A\ncontent-length:9000000\n\n" + b"x" * (7 * MIB)
        for client in greedy:  # 7 MiB begun by each, of a budget of 16 MiB
            threading.Thread(target=client.send_raw, args=(frame,), daemon=True).start()
        ended: list[StompClient] = []
        rounds = 0
        while not ended and rounds < 10:
            rounds += 1
            healthy.transact(f"SEND\ndestination:/queue/A\nreceipt:{rounds}\n\nx", str(rounds))
            ended = [client for client in greedy if is_closed(client)]
        assert len(ended) == 1
        healthy.transact("SEND\ndestination:/queue/A\nreceipt:last\n\nx", "last")


@pytest.mark.large
@pytest.mark.parametrize("kind", [SmallMemory, SmallMemoryWithoutUvloop])
def test_large_frames_beyond_the_budget_come_in_one_behind_the_other(
    tmp_path: Path, kind: Callable[[Path], Started]
) -> None:
    body = b"x" * (6 * MIB)
    begun = 2 * MIB - 1000
    with kind(tmp_path) as broker, broker.stomp() as healthy:
        producers = [broker.stomp() for _ in range(8)]
        for number, client in enumerate(producers):  # nearly all of the budget of 16 MiB
            head = f"SEND\ndestination:/queue/{number}\nreceipt:r\ncontent-length:{len(body)}\n\n"
            client.send_raw(head.encode() + body[:begun])
        rest = body[begun:] + b"\0"
        threads = [threading.Thread(target=client.send_raw, args=(rest,)) for client in producers]
        for thread in threads:
            thread.start()
        healthy.transact("SEND\ndestination:/queue/A\nreceipt:1\n\nx", "1")
        for thread in threads:
            thread.join()
        for client in producers:
            assert client.receive().startswith("RECEIPT")


def is_closed(client: StompClient) -> bool:
    """Whether the broker closed the connection; one that it still reads from stays silent."""
    client.wait_at_most(1.0)
    try:
        return client.at_end()
    except TimeoutError:
        return False


def test_a_disk_that_fails_stops_the_answers_and_the_broker(tmp_path: Path) -> None:
    if not hasattr(resource, "prlimit"):
        return  # only Linux can take away another process's right to write
    with Started(tmp_path) as broker, broker.stomp() as client:
        client.transact("SEND\ndestination:/queue/A\npersistent:true\nreceipt:1\n\nkept", "1")
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (0, 0))
        client.send("SEND\ndestination:/queue/A\npersistent:true\nreceipt:2\n\nnever acknowledged")
        answers = []
        try:
            while True:
                answers.append(client.receive())
        except (EOFError, ConnectionError):
            pass
        assert not any("receipt-id:2" in answer and answer.startswith("RECEIPT") for answer in answers)
        assert broker.ended() == 1
        told = [line for line in broker.errors if line.startswith("spanwire start: ")]
        assert len(told) == 1
        assert not any("Traceback" in line for line in broker.errors)
        broker.start()
        with broker.stomp() as again:
            again.send("SUBSCRIBE\ndestination:/queue/A\nid:1\nack:auto\n\n")
            assert again.receive().endswith("kept")


def test_a_thousand_connections_come_and_go(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        for _ in range(10):
            clients = [socket.create_connection(("127.0.0.1", broker.ports["tcp"]), 30) for _ in range(100)]
            for client in clients:
                assert client.recv(4)  # each gets the WireFormatInfo at once
            for client in clients:
                client.close()
        shown = spanwire("status", "--json", "--data-directory", str(broker.data)).stdout
        assert '"name": "tested"' in shown
