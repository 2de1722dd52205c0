"""A small store on a real disk: its limit holds producers up, consumers go on, and what they free is used again."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

from spanwire.management.control_client import ControlClient
from tests.support.broker_process import BrokerProcess, Command, spanwire_command

MIB = 1024 * 1024
LIMIT = 8 * MIB
SIZE = 20_000
COUNT = 700  # 14 MB
WAIT_S = 30.0
LOOK_S = 0.5  # between two looks whether a send waits for room
USAGE = (
    "    <systemUsage><systemUsage><storeUsage><storeUsage limit='8 mb'/></storeUsage></systemUsage></systemUsage>\n"
)


def with_usage(command: Command) -> Command:
    """The command of a broker whose store is small."""

    def changed(directory: Path) -> list[str]:
        path = directory / "activemq.xml"
        mark = "    <transportConnectors>"
        path.write_text(path.read_text("utf-8").replace(mark, USAGE + mark), "utf-8")
        return command(directory)

    return changed


class Client:
    """A STOMP client that counts."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self.socket.sendall(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        self.socket.recv(4096)
        self.data = b""

    def hears(self, frame: bytes, wanted: int, silence_s: float) -> int:
        """How many such frames came, until as many as are wanted did or nothing comes for that long."""
        self.socket.settimeout(silence_s)
        while (found := len(re.findall(frame, self.data))) < wanted:
            try:
                data = self.socket.recv(MIB)
            except TimeoutError:
                return found
            assert data, self.data[-300:]
            self.data += data
        return found

    def hears_unless_full(self, wanted: int, directory: Path) -> int:
        """How many receipts came: as many as are wanted, or fewer when a send waits for room."""
        deadline = time.monotonic() + WAIT_S
        while (found := self.hears(rb"RECEIPT\n", wanted, LOOK_S)) < wanted and not is_full(directory):
            assert time.monotonic() < deadline, "neither an answer nor a send that waits"
        return found


def is_full(directory: Path) -> bool:
    """Whether the broker with this data lets a send wait."""
    status = ControlClient(directory).ask("status")
    assert isinstance(status, dict)
    return bool(status["statistics"]["parked_sends"])


def stored_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def test_a_full_store_holds_producers_up_until_consumers_have_made_room(tmp_path: Path) -> None:
    with BrokerProcess(with_usage(spanwire_command()), tmp_path) as broker:
        producer = Client(broker.stomp_port)
        producer.socket.setblocking(True)
        body = b"x" * SIZE
        sent = 0
        answered = 0
        while sent < COUNT and sent - answered < 3:
            producer.socket.settimeout(WAIT_S)
            producer.socket.sendall(
                b"SEND\ndestination:/queue/Q\npersistent:true\nreceipt:%d\ncontent-length:%d\n\n%b\0"
                % (sent, SIZE, body)
            )
            sent += 1
            answered = producer.hears_unless_full(sent, tmp_path / "data")
        assert 100 < answered < sent < COUNT, "the store is full"
        full = stored_bytes(tmp_path / "data")
        assert full <= LIMIT * 1.3, "the limit, the file that is being written and the next one"
        neighbour = Client(broker.stomp_port)
        neighbour.socket.sendall(b"SEND\ndestination:/queue/OTHER\nreceipt:n\n\nx\0")
        assert neighbour.hears(rb"RECEIPT\n", 1, WAIT_S) == 1, "what is not persistent needs no room there"
        consumer = Client(broker.stomp_port)
        consumer.socket.sendall(b"SUBSCRIBE\nid:1\ndestination:/queue/Q\nack:auto\n\n\0")
        assert consumer.hears(rb"MESSAGE\n", sent, WAIT_S) == sent
        assert producer.hears(rb"RECEIPT\n", sent, WAIT_S) == sent
        broker.awaits("8388608 bytes, are in use")
