"""What an idle connection costs: opens many, logs them in, and divides the growth of the broker's memory by them.

    python -m tests.soak.idle_connections --count 5000 --protocol openwire [--tls]

Prints one line of JSON. The broker is a child process; its resident memory is read from /proc, so this needs Linux.
"""

from __future__ import annotations

import argparse
import json
import resource
import selectors
import socket
import ssl
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from spanwire.client.addressing.address import parse_url
from spanwire.client.io.environment import Machine
from spanwire.client.protocol.connection import ClientConnection
from tests.service.started import Started
from tests.support.certificates import Authority

HOST: Final = "127.0.0.1"
SETTLE_S: Final = 2.0
FIRST: Final = 100  # connections whose cost is not counted: they pay for what is there once
STOMP_LOGIN: Final = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"


class Broker(Started):
    """Plain and encrypted connectors of both protocols."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.authority: Final = Authority()
        self.key_store: Final = self.authority.issue().write_pem(directory / "broker.pem")
        self.trust: Final = self.authority.write_certificate(directory / "authority.pem")

    def text(self) -> str:
        stores = f'<sslContext keyStore="{self.key_store}"/><transportConnectors>'
        more = (
            '<transportConnector uri="ssl://127.0.0.1:0"/><transportConnector uri="stomp+ssl://127.0.0.1:0"/>'
            "</transportConnectors>"
        )
        text = super().text().replace("<transportConnectors>", stores)
        return text.replace("</transportConnectors>", more)


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no resident memory in /proc")


def log_in(channel: socket.socket, protocol: str, number: int) -> None:
    """To the broker's acceptance of the login."""
    if protocol == "stomp":
        channel.sendall(STOMP_LOGIN)
        channel.recv(4096)
        return
    machine = Machine()
    url = parse_url(f"tcp://{HOST}:61616", client_id=f"idle-{number}")
    connection = ClientConnection(url, machine)
    connection.on_connected(url.addresses[0], machine.now())
    while not connection.is_online:
        channel.sendall(connection.data_to_send())
        connection.receive_data(channel.recv(65536), machine.now())


def measure(count: int, protocol: str, tls: bool, logged_in: bool) -> dict[str, object]:
    """One broker, ``count`` connections."""
    scheme = {("openwire", False): "tcp", ("openwire", True): "ssl", ("stomp", False): "stomp"}.get(
        (protocol, tls), "stomp+ssl"
    )
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(broker.trust)
        channels: list[socket.socket] = []
        before = 0
        started = time.monotonic()
        for number in range(count):
            if number == FIRST:
                time.sleep(SETTLE_S)
                before = resident_bytes(broker.pid)
                started = time.monotonic()
            channel = socket.create_connection((HOST, broker.ports[scheme]), 30)
            channel = context.wrap_socket(channel, server_hostname=HOST) if tls else channel
            if logged_in:
                log_in(channel, protocol, number)
            channels.append(channel)
        seconds = time.monotonic() - started
        time.sleep(SETTLE_S)
        after = resident_bytes(broker.pid)
        with selectors.DefaultSelector() as selector:
            for channel in channels:
                selector.register(channel, selectors.EVENT_READ)
            readable = len(selector.select(0))
        for channel in channels:
            channel.close()
    return {
        "build": version_text(),
        "scheme": scheme,
        "logged_in": logged_in,
        "connections": count,
        "bytes_each": round((after - before) / (count - FIRST)),
        "opened_per_second": round((count - FIRST) / seconds),
        "with_unread_answers": readable,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory of idle connections.")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--protocol", choices=("openwire", "stomp"), default="openwire")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--silent", action="store_true", help="do not log in")
    options = parser.parse_args()
    if options.count <= FIRST:
        parser.error(f"--count must be more than {FIRST}")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found = measure(options.count, options.protocol, options.tls, not options.silent)
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
