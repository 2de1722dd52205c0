"""Many large messages at once: sent in parallel, stored, taken out in parallel; the broker's memory meanwhile.

    python -m tests.soak.large_messages --count 20 --mib 100 [--persistent]

Prints one line of JSON; status 1 when the peak of resident memory passes --resident-mib. Needs Linux.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from tests.service.started import Started
from tests.soak.deep_queue import MIB, Sampler
from tests.soak.idle_connections import resident_bytes

PIECE: Final = b"\x5a" * MIB
PATIENCE_S: Final = 600.0


def connected(port: int) -> socket.socket:
    """A STOMP connection that has logged in."""
    channel = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    channel.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
    until(channel, b"\0")
    return channel


def until(channel: socket.socket, end: bytes) -> bytes:
    """What comes up to ``end`` and a little further."""
    found = b""
    while end not in found:
        data = channel.recv(65536)
        if not data:
            raise EOFError("the broker closed the connection")
        found += data
    return found


def send(port: int, queue: str, mib: int, persistent: bool) -> None:
    """One message, until its receipt is there."""
    with connected(port) as channel:
        header = "persistent:true\n" if persistent else ""
        length = mib * MIB
        channel.sendall(f"SEND\ndestination:/queue/{queue}\n{header}receipt:r\ncontent-length:{length}\n\n".encode())
        for _ in range(mib):
            channel.sendall(PIECE)
        channel.sendall(b"\0")
        answer = until(channel, b"\0")
        assert b"RECEIPT" in answer, answer


def receive(port: int, queue: str, mib: int, persistent: bool) -> None:
    """One message of the right length and content."""
    with connected(port) as channel:
        channel.sendall(f"SUBSCRIBE\nid:s\ndestination:/queue/{queue}\nack:auto\n\n\0".encode())
        head, _, rest = until(channel, b"\n\n").partition(b"\n\n")
        assert head.startswith(b"MESSAGE"), head
        left = mib * MIB + 1 - len(rest)
        assert rest == PIECE[: len(rest)]
        while left:
            data = channel.recv(min(left, MIB))
            assert data, "the broker closed the connection"
            left -= len(data)
            assert data.count(b"\x5a") == len(data) - (left == 0)


def at_once(work: object, port: int, count: int, mib: int, persistent: bool) -> float:
    """Seconds for ``count`` of them in parallel; RuntimeError when one fails."""
    failures: list[str] = []

    def one(number: int) -> None:
        try:
            assert callable(work)
            work(port, f"LARGE.{number}", mib, persistent)
        except (OSError, EOFError, AssertionError) as error:
            failures.append(f"{number}: {error!r}"[:300])

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError("; ".join(failures[:3]))
    return time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description="Large messages in parallel, and the broker's memory.")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--mib", type=int, default=100)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--resident-mib", type=int, default=0, help="the highest peak allowed")
    parser.add_argument("--directory", type=Path, help="where the store goes; a temporary directory unless told")
    options = parser.parse_args()
    found: dict[str, object] = {"build": version_text(), "count": options.count, "mib": options.mib}
    with tempfile.TemporaryDirectory(dir=options.directory) as directory, Started(Path(directory)) as broker:
        port = broker.ports["stomp"]
        found["idle_mib"] = resident_bytes(broker.pid) // MIB
        peak = 0
        for name, work in (("send", send), ("receive", receive)):
            sampler = Sampler(broker.pid)
            sampler.start()
            try:
                found[f"{name}_s"] = round(at_once(work, port, options.count, options.mib, options.persistent), 1)
            except RuntimeError as error:
                sys.stderr.write(f"{error}\n{''.join(broker.errors[-20:])}")
                return 2
            found[f"{name}_peak_mib"] = top = sampler.stop()
            peak = max(peak, top)
        found["afterwards_mib"] = resident_bytes(broker.pid) // MIB
        broker.stop()
    sys.stdout.write(json.dumps(found) + "\n")
    return int(0 < options.resident_mib < peak)


if __name__ == "__main__":
    sys.exit(main())
