"""A deep queue: fills one, kills the broker, starts it again, takes everything out; memory and times of each step.

    python -m tests.soak.deep_queue --count 1000000 --size 1024

Prints one line of JSON; status 1 when a message is missing, doubled or out of order, or a limit of --resident-mib or
--restart-seconds is passed. The broker is a child process; its memory is read from /proc, so this needs Linux.
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
from tests.soak.idle_connections import resident_bytes

MIB: Final = 1024 * 1024
BURST: Final = 500  # messages per receipt
WINDOW: Final = 4  # bursts on their way
PREFETCH: Final = 2000
ACK_EVERY: Final = 500
QUEUE: Final = "DEEP"


class Line:
    """A STOMP connection that reads fast: frames end with NUL, bodies hold none."""

    def __init__(self, port: int) -> None:
        self._socket: Final = socket.create_connection(("127.0.0.1", port), 600.0)
        self._received = b""
        self.write(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        assert self.frames()[0].startswith(b"CONNECTED")

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def frames(self) -> list[bytes]:
        """What comes next: one frame or more."""
        while True:
            data = self._socket.recv(1024 * 1024)
            if not data:
                raise EOFError("the broker closed the connection")
            *found, self._received = (self._received + data).split(b"\0")
            frames = [frame.lstrip(b"\n") for frame in found]
            if frames:
                return frames

    def close(self) -> None:
        self._socket.close()


def fill(port: int, count: int, size: int) -> float:
    """Seconds until the last message is stored."""
    line = Line(port)
    body = b"." * (size - 10)
    waiting = 0
    start = time.monotonic()
    for first in range(0, count, BURST):
        numbers = range(first, min(count, first + BURST))
        head = b"SEND\ndestination:/queue/%s\npersistent:true\n" % QUEUE.encode()
        frames = [b"%s\n%010d%s\0" % (head, number, body) for number in numbers[:-1]]
        frames.append(b"%sreceipt:%d\n\n%010d%s\0" % (head, first, numbers[-1], body))
        line.write(b"".join(frames))
        waiting += 1
        while waiting >= WINDOW:
            waiting -= len(line.frames())
    while waiting:
        waiting -= len(line.frames())
    line.close()
    return time.monotonic() - start


def drain(port: int, count: int) -> float:
    """Seconds until everything came, in order; AssertionError otherwise."""
    line = Line(port)
    line.write(
        b"SUBSCRIBE\nid:s\ndestination:/queue/%s\nack:client\nactivemq.prefetchSize:%d\n\n\0"
        % (QUEUE.encode(), PREFETCH)
    )
    expected = 0
    start = time.monotonic()
    while expected < count:
        for frame in line.frames():
            head, _, body = frame.partition(b"\n\n")
            number = int(body[:10])
            assert number == expected, f"message {number} instead of {expected}"
            expected += 1
            if expected % ACK_EVERY == 0 or expected == count:
                token = next(row[4:] for row in head.split(b"\n") if row.startswith(b"ack:"))
                line.write(b"ACK\nid:%s\n\n\0" % token)
    line.write(b"DISCONNECT\nreceipt:end\n\n\0")
    assert b"receipt-id:end" in line.frames()[0]
    line.close()
    return time.monotonic() - start


class Sampler(threading.Thread):
    """The highest resident memory while it runs."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid: Final = pid
        self._over: Final = threading.Event()
        self.peak = 0

    def run(self) -> None:
        while not self._over.wait(0.05):
            try:
                self.peak = max(self.peak, resident_bytes(self._pid))
            except (OSError, RuntimeError):
                return  # the broker is gone

    def stop(self) -> int:
        """The peak in MiB."""
        self._over.set()
        self.join()
        return self.peak // MIB


def run(count: int, size: int, directory: Path) -> dict[str, object]:
    """All steps."""
    with Started(directory) as broker:
        idle = resident_bytes(broker.pid) // MIB
        sampler = Sampler(broker.pid)
        sampler.start()
        seconds = fill(broker.ports["stomp"], count, size)
        found: dict[str, object] = {"idle_mib": idle, "fill_s": round(seconds, 1), "fill_peak_mib": sampler.stop()}
        found["pending_mib"] = resident_bytes(broker.pid) // MIB
        broker.kill()
        start = time.monotonic()
        broker.start()
        found["restart_s"] = round(time.monotonic() - start, 2)
        found["restarted_mib"] = resident_bytes(broker.pid) // MIB
        sampler = Sampler(broker.pid)
        sampler.start()
        found["drain_s"] = round(drain(broker.ports["stomp"], count), 1)
        found["drain_peak_mib"] = sampler.stop()
        broker.stop()
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Fill a queue, kill the broker, start it again, drain the queue.")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--resident-mib", type=int, default=0, help="the most that may be resident with all pending")
    parser.add_argument("--restart-seconds", type=float, default=0.0, help="the longest start after the kill")
    parser.add_argument("--directory", type=Path, help="where the store goes; a temporary directory unless told")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        found = run(options.count, options.size, Path(directory))
    sys.stdout.write(json.dumps({"build": version_text(), "count": options.count, "size": options.size} | found) + "\n")
    pending, restart = found["pending_mib"], found["restart_s"]
    assert isinstance(pending, int) and isinstance(restart, float)
    too_much = 0 < options.resident_mib < pending
    return int(too_much or 0 < options.restart_seconds < restart)


if __name__ == "__main__":
    sys.exit(main())
