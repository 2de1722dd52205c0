"""Memory of a broker that is flooded with messages nobody consumes: `python -m tests.soak.flood [MiB]`.

A STOMP client sends 10 KiB messages that are not persistent, as fast as the broker takes them, to a queue with a memory
limit of 32 MiB in a broker with 64 MiB: once with producer flow control, where the broker stops reading, and once
without, where the messages go to its journal. Then a consumer drains the queue. Prints resident memory and counts.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from pathlib import Path

from tests.support.broker_process import BrokerProcess, Command, spanwire_command

MIB = 1024 * 1024
SIZE = 10 * 1024
PATIENCE_S = 5.0  # without progress: the broker takes no more
USAGE = "    <systemUsage><systemUsage><memoryUsage limit='64 mb'/></systemUsage></systemUsage>\n"


def with_usage(command: Command) -> Command:
    """The command of a broker with 64 MiB for messages."""

    def changed(directory: Path) -> list[str]:
        path = directory / "activemq.xml"
        mark = "    <transportConnectors>"
        path.write_text(path.read_text("utf-8").replace(mark, USAGE + mark), "utf-8")
        return command(directory)

    return changed


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    fields = Path(f"/proc/{pid}/status").read_text("utf-8").split("VmRSS:")[1].split()
    return int(fields[0]) / 1024


def login(port: int) -> socket.socket:
    """A STOMP connection."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    connection.recv(4096)
    return connection


def flood(connection: socket.socket, total: int) -> int:
    """Send until ``total`` messages are gone or the broker takes no more; gives how many went."""
    body = b"x" * SIZE
    frame = b"SEND\ndestination:/queue/FLOOD\ncontent-length:%d\n\n%b\0" % (SIZE, body)
    connection.settimeout(PATIENCE_S)
    for number in range(total):
        try:
            connection.sendall(frame)
        except TimeoutError:
            return number
    return total


def drain(port: int) -> int:
    """Consume until nothing comes; gives how many messages came."""
    connection = login(port)
    connection.sendall(b"SUBSCRIBE\nid:1\ndestination:/queue/FLOOD\nack:auto\n\n\0")
    connection.settimeout(PATIENCE_S)
    count = 0
    while True:
        try:
            data = connection.recv(MIB)
        except TimeoutError:
            return count
        count += data.count(b"MESSAGE\n")


def main(mebibytes: int) -> None:
    """Both runs."""
    for flow_control in ("true", "false"):
        policy = (
            "    <destinationPolicy><policyMap><policyEntries><policyEntry queue='&gt;' memoryLimit='32 mb' "
            f"producerFlowControl='{flow_control}'/></policyEntries></policyMap></destinationPolicy>\n"
        )
        with (
            tempfile.TemporaryDirectory() as directory,
            BrokerProcess(with_usage(spanwire_command()), Path(directory), inside=policy) as broker,
        ):
            idle = resident_mib(broker.pid)
            producer = login(broker.stomp_port)
            began = time.monotonic()
            sent = flood(producer, mebibytes * MIB // SIZE)
            seconds = time.monotonic() - began
            full = resident_mib(broker.pid)
            received = drain(broker.stomp_port)
            print(
                f"producerFlowControl={flow_control}: idle {idle:.0f} MiB, after {sent} messages "
                f"({sent * SIZE / MIB:.0f} MiB, {seconds:.0f} s) {full:.0f} MiB; {received} received, "
                f"then {resident_mib(broker.pid):.0f} MiB"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
