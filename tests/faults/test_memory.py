"""A flood into a broker that may not have more memory: it holds producers back, lives, and loses nothing.

The address space of the process is limited (prlimit of util-linux): an allocation beyond it would end the broker.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Final

import pytest

from tests.faults.broker import FragileBroker
from tests.support.stomp_socket import StompSocket

MIB: Final = 1024 * 1024
MEMORY_LIMIT: Final = 32 * MIB
ADDRESS_SPACE: Final = 640 * MIB  # an idle broker has about 400 MiB of it, mostly libraries and stacks
RESIDENT: Final = 200 * MIB
BODY: Final = "." * 10_000
PRODUCERS: Final = 4
MOST: Final = 5_000  # messages of one producer: 50 MB, above the limit with a single one
STALLED_S: Final = 2.0
QUEUE: Final = "FLOOD"
USAGE: Final = f"""
    <systemUsage>
      <systemUsage>
        <memoryUsage><memoryUsage limit="{MEMORY_LIMIT}"/></memoryUsage>
      </systemUsage>
    </systemUsage>
"""


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no peak of resident memory in /proc")


class Flooder(threading.Thread):
    """Sends non-persistent messages until it has sent all; stalls when the broker holds it back."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.sent = 0
        self.fault: BaseException | None = None
        self._socket: Final = socket.create_connection(("127.0.0.1", port))
        self._socket.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")

    def run(self) -> None:
        frame = f"SEND\ndestination:/queue/{QUEUE}\n\n{self.name}{BODY}\0".encode()
        try:
            with self._socket:
                while self.sent < MOST:
                    self._socket.sendall(frame)
                    self.sent += 1
                self._socket.sendall(b"DISCONNECT\nreceipt:end\n\n\0")
                while b"receipt-id:end" not in self._socket.recv(65536):
                    pass
        except OSError as error:
            self.fault = error


@pytest.mark.large
def test_a_flood_is_held_back_and_arrives_in_full(tmp_path: Path) -> None:
    broker = FragileBroker(tmp_path / "broker", USAGE)
    broker.runs_under = ("prlimit", f"--as={ADDRESS_SPACE}")
    with broker:
        flooders = [Flooder(broker.stomp_port, f"f{number}") for number in range(PRODUCERS)]
        for flooder in flooders:
            flooder.start()
        before = -1
        while before != (now := sum(flooder.sent for flooder in flooders)):
            before = now
            threading.Event().wait(STALLED_S)  # a flood that stands still for so long is held back
        assert now < PRODUCERS * MOST, "nobody was held back"
        received = 0
        with StompSocket(broker.stomp_port) as consumer:
            consumer.connect("1.2")
            consumer.type(f"SUBSCRIBE\nid:s\ndestination:/queue/{QUEUE}\nack:auto\n\n\0")
            while received < PRODUCERS * MOST:
                frame = consumer.receive()
                assert frame is not None and frame.command == "MESSAGE", frame
                received += 1
            assert consumer.silence()
        for flooder in flooders:
            flooder.join(30.0)
            assert not flooder.is_alive()
            assert flooder.fault is None
        peak = resident_bytes(broker.pid)
        assert peak < RESIDENT, f"{peak // MIB} MiB"
        assert "Traceback" not in "".join(broker.log)
        assert broker.stop() == 0
