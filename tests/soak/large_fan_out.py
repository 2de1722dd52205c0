"""One large message to many consumers of a topic, over STOMP and OpenWire; the broker's memory meanwhile.

    python -m tests.soak.large_fan_out --consumers 10 --mib 100 [--openwire 2] [--producer openwire]

Prints one line of JSON; status 1 when the peak of resident memory passes --resident-mib. Needs Linux.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

from spanwire._build import version_text
from spanwire.client import blocking
from tests.service.started import Started
from tests.soak.deep_queue import MIB, Sampler
from tests.soak.idle_connections import resident_bytes
from tests.soak.large_messages import PATIENCE_S, PIECE, connected, until

TOPIC = "FAN.OUT"


def read_stomp(port: int, mib: int, ready: threading.Barrier, slowly: bool) -> None:
    """Subscribe, then read the message to its end."""
    with connected(port) as channel:
        channel.sendall(f"SUBSCRIBE\nid:s\ndestination:/topic/{TOPIC}\nreceipt:s\nack:auto\n\n\0".encode())
        until(channel, b"\0")
        ready.wait()
        head, _, rest = until(channel, b"\n\n").partition(b"\n\n")
        assert head.lstrip(b"\n").startswith(b"MESSAGE"), head
        left = mib * MIB + 1 - len(rest)
        while left:
            data = channel.recv(min(left, MIB))
            assert data, "the broker closed the connection"
            left -= len(data)
            assert data.count(b"\x5a") == len(data) - (left == 0)
            if slowly:
                time.sleep(0.01)


def read_openwire(port: int, mib: int, ready: threading.Barrier) -> None:
    """The same with the client of this package."""
    with blocking.connect(f"tcp://127.0.0.1:{port}") as connection, connection.session() as session:
        consumer = session.create_consumer(f"topic://{TOPIC}")
        ready.wait()
        message = consumer.receive(timeout=PATIENCE_S)
        assert message is not None
        body = message.body
        assert isinstance(body, bytes)
        assert len(body) == mib * MIB
        assert body == PIECE * mib


def send_stomp(port: int, mib: int) -> None:
    """One message, until its receipt is there."""
    with connected(port) as channel:
        length = mib * MIB
        channel.sendall(f"SEND\ndestination:/topic/{TOPIC}\nreceipt:r\ncontent-length:{length}\n\n".encode())
        for _ in range(mib):
            channel.sendall(PIECE)
        channel.sendall(b"\0")
        assert b"RECEIPT" in until(channel, b"\0")


def send_openwire(port: int, mib: int) -> None:
    """The same with the client of this package."""
    with blocking.connect(f"tcp://127.0.0.1:{port}") as connection, connection.session() as session:
        session.create_producer(f"topic://{TOPIC}").send(PIECE * mib)


def main() -> int:
    parser = argparse.ArgumentParser(description="A large message to many, and the broker's memory.")
    parser.add_argument("--consumers", type=int, default=10)
    parser.add_argument("--openwire", type=int, default=2, help="how many of them speak OpenWire")
    parser.add_argument("--producer", choices=("stomp", "openwire"), default="stomp")
    parser.add_argument("--mib", type=int, default=100)
    parser.add_argument("--resident-mib", type=int, default=0, help="the highest peak allowed")
    options = parser.parse_args()
    found: dict[str, object] = {"build": version_text(), "consumers": options.consumers, "mib": options.mib}
    found["openwire"], found["producer"] = options.openwire, options.producer
    with tempfile.TemporaryDirectory() as directory, Started(Path(directory)) as broker:
        ready = threading.Barrier(options.consumers + 1)
        failures: list[str] = []

        def one(number: int) -> None:
            try:
                if number < options.openwire:
                    read_openwire(broker.ports["tcp"], options.mib, ready)
                else:
                    read_stomp(broker.ports["stomp"], options.mib, ready, number % 2 == 0)
            except Exception as error:
                ready.abort()
                failures.append(f"{number}: {error!r}"[:300])

        threads = [threading.Thread(target=one, args=(number,)) for number in range(options.consumers)]
        for thread in threads:
            thread.start()
        ready.wait()
        found["idle_mib"] = resident_bytes(broker.pid) // MIB
        sampler = Sampler(broker.pid)
        sampler.start()
        began = time.monotonic()
        if options.producer == "openwire":
            send_openwire(broker.ports["tcp"], options.mib)
        else:
            send_stomp(broker.ports["stomp"], options.mib)
        for thread in threads:
            thread.join()
        found["seconds"] = round(time.monotonic() - began, 1)
        found["peak_mib"] = peak = sampler.stop()
        found["afterwards_mib"] = resident_bytes(broker.pid) // MIB
        broker.stop()
        if failures:
            sys.stderr.write(f"{failures}\n{''.join(broker.errors[-20:])}")
            return 2
    sys.stdout.write(json.dumps(found) + "\n")
    return int(0 < options.resident_mib < peak)


if __name__ == "__main__":
    sys.exit(main())
