"""STOMP over WebSocket and messages over HTTP beside ActiveMQ Classic, in alternating runs: rate, and processor time.

python -m tests.bench.http_ports [ROUNDS [REQUESTS]]

For each way a message goes from one client to another one: over STOMP, over STOMP in a WebSocket, as OpenWire in XML
over HTTP, and by POST and GET of the servlet, with 16 connections that stay open. A run in which a message is lost ends
with an error. Classic's servlet ends a read only after its answer was sent, and refuses the reads of a session with 500
for ever if the next one comes earlier: so its readers pause, and a round that it refuses all the same is left out. The
processor time is that of the broker with its web process, and beside it that of this generator; it says more than the
rate where the machine has other work. Prints medians, the least and the most.
"""

from __future__ import annotations

import base64
import os
import re
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.bench.loads.tunnel import through_tunnel
from tests.service.started import Started
from tests.support.distributions import CLASSIC, find_destination
from tests.support.ports import free_port

ROUNDS: Final = 5  # each with a run of every way at every broker, after one that is not counted
MESSAGES: Final = 4_000  # of one run
CONNECTIONS: Final = 16  # of HTTP clients
BATCH: Final = 20  # frames of STOMP in one write
BODY: Final = b"x" * 100
WAIT_S: Final = 120.0
TICK: Final = os.sysconf("SC_CLK_TCK")
LISTENING: Final = re.compile(r"Listening for web requests at: http://127\.0\.0\.1:(\d+)")
HANDSHAKE: Final = (
    b"GET /stomp HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
LENGTH: Final = re.compile(rb"(?i)content-length: *(\d+)")
COOKIE: Final = re.compile(rb"(?i)set-cookie: *([^;\r]+)")
LAST_CHUNK: Final = b"0\r\n\r\n"
PAUSE_S: Final = 0.01  # seconds between two reads of Classic; 16 connections may still read 1,600 messages a second
LOGIN: Final = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"
CLASSIC_XML: Final = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
  http://www.springframework.org/schema/beans/spring-beans.xsd http://activemq.apache.org/schema/core
  http://activemq.apache.org/schema/core/activemq-core.xsd">
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="localhost" useJmx="false"
  dataDirectory="{data}">
<transportConnectors>
  <transportConnector name="openwire" uri="tcp://127.0.0.1:{openwire}"/>
  <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}"/>
  <transportConnector name="ws" uri="ws://127.0.0.1:{ws}"/>
  <transportConnector name="http" uri="http://127.0.0.1:{http}"/>
</transportConnectors></broker><import resource="jetty.xml"/></beans>
"""


@dataclass
class Target:
    """A running broker: its ports, the processes whose time counts, and the results of each way."""

    name: str
    ports: dict[str, int]
    pids: list[int]
    methods: tuple[str, ...]
    authorization: str = ""
    pauses_s: dict[str, float] = field(default_factory=dict)  # behind an answer to a method
    results: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)

    def seconds(self) -> float:
        """Return the processor seconds of the processes so far."""
        total = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICK

    def measure(self, way: str, count: int, run: Callable[[], None], *, is_counted: bool) -> None:
        """Run once. Keep messages per second, and microseconds of the broker's and of our own time for a message."""
        cpu = self.seconds()
        own = time.process_time()
        began = time.monotonic()
        run()
        rate = count / (time.monotonic() - began)
        microseconds = (self.seconds() - cpu) / count * 1e6
        own = (time.process_time() - own) / count * 1e6
        if is_counted:
            self.results.setdefault(way, []).append((rate, microseconds, own))


class StompEnd:
    """A STOMP client that writes prepared bytes."""

    def __init__(self, port: int, is_websocket: bool) -> None:
        self._is_websocket = is_websocket
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_websocket:
            self.socket.sendall(HANDSHAKE)
            self.until(b"\r\n\r\n")
        self.socket.sendall(self.wire(LOGIN))
        self.until(b"CONNECTED")

    def wire(self, frame: bytes) -> bytes:
        """Return a frame of STOMP as it is sent; the mask of the WebSocket frame changes nothing."""
        if not self._is_websocket:
            return frame
        size = len(frame)
        length = bytes((0x80 | size,)) if size < 126 else bytes((0xFE, size >> 8, size & 0xFF))
        return b"\x81" + length + bytes(4) + frame

    def until(self, words: bytes, count: int = 1) -> None:
        """Read until ``words`` have come so many times."""
        seen = 0
        tail = b""
        while seen < count:
            data = self.socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the broker has closed the connection")
            data = tail + data
            seen += data.count(words)
            tail = b"" if data.endswith(words) else data[1 - len(words) :]


def through_stomp(port: int, queue: str, count: int, *, is_websocket: bool) -> None:
    """Send messages to a queue, and receive them."""
    consumer, producer = StompEnd(port, is_websocket), StompEnd(port, is_websocket)
    consumer.socket.sendall(consumer.wire(f"SUBSCRIBE\nid:1\ndestination:/queue/{queue}\nreceipt:s\n\n\0".encode()))
    consumer.until(b"RECEIPT")
    frame = f"SEND\ndestination:/queue/{queue}\ncontent-length:{len(BODY)}\n\n".encode() + BODY + b"\0"
    batch = producer.wire(frame) * BATCH
    reader = threading.Thread(target=consumer.until, args=(b"MESSAGE\n", count))
    reader.start()
    for _ in range(count // BATCH):
        producer.socket.sendall(batch)
    reader.join(WAIT_S)
    if reader.is_alive():
        raise TimeoutError(f"messages of {queue} are missing")
    consumer.socket.close()
    producer.socket.close()


class Asker:
    """One connection that sends a request again and again, with the cookie of the first answer."""

    def __init__(self, port: int, request: bytes, count: int) -> None:
        self.socket: Final = _connected(port)
        self._request = request
        self._left = count
        self._received = b""
        self.go_on()

    def go_on(self) -> bool:
        """Send the next request. Returns False if there is none."""
        if self._left:
            self._left -= 1
            self.socket.sendall(self._request)
            return True
        self.socket.close()
        return False

    def reads(self) -> bool:
        """Read what has come. Returns True behind an answer."""
        self._received += _some(self.socket)
        answer = _complete(self._received)
        if answer is None:
            return False
        head = answer[0]
        if not head.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(head.decode("latin-1"))
        self._received = b""
        cookie = COOKIE.search(head)
        if cookie:
            self._request = self._request.replace(b"\r\n", b"\r\nCookie: " + cookie[1] + b"\r\n", 1)
        return True


def ask(port: int, requests: list[bytes], count: int, pause_s: float = 0.0) -> None:
    """Send each request ``count`` times over a connection of its own, with a pause behind each answer."""
    pausing: deque[tuple[float, Asker]] = deque()
    with selectors.DefaultSelector() as selector:
        for request in requests:
            asker = Asker(port, request, count)
            selector.register(asker.socket, selectors.EVENT_READ, asker)
        while selector.get_map():
            found = selector.select(pause_s if pausing else WAIT_S)
            if not found and not pausing:
                raise TimeoutError("there is no answer")
            now = time.monotonic()
            pausing.extend((now + pause_s, key.data) for key, _ in found if key.data.reads())
            while pausing and pausing[0][0] <= now:
                asker = pausing.popleft()[1]
                if not asker.go_on():
                    selector.unregister(asker.socket)


def _connected(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), WAIT_S)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def _answer(client: socket.socket) -> tuple[bytes, bytes]:
    """Read an answer to its end; return its head and body."""
    received = b""
    while (answer := _complete(received)) is None:
        received += _some(client)
    return answer


def _complete(received: bytes) -> tuple[bytes, bytes] | None:
    """Return the head and body of a complete answer."""
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return None
    length = LENGTH.search(head)
    if length is not None:
        return (head, body) if len(body) >= int(length[1]) else None
    if b"chunked" not in head.lower():
        return head, body
    return (head, _joined(body)) if body.endswith(LAST_CHUNK) else None


def _joined(chunks: bytes) -> bytes:
    """Return the content of chunks."""
    content = b""
    while chunks:
        size, _, rest = chunks.partition(b"\r\n")
        content += rest[: int(size, 16)]
        chunks = rest[int(size, 16) + 2 :]
    return content


def _some(client: socket.socket) -> bytes:
    data = client.recv(1 << 16)
    if not data:
        raise ConnectionError("the server has closed the connection")
    return data


def ask_tunnel(port: int, queue: str, count: int, wait_s: float) -> None:
    """Send messages to a queue with OpenWire over HTTP, and receive them in at most ``wait_s`` seconds."""
    through_tunnel(_connected, _answer, port, queue, count, BODY, wait_s)


def through_servlet(target: Target, method: str, group: str, count: int) -> None:
    """Send, or receive, with `CONNECTIONS` clients of a queue each."""
    requests = [servlet_request(target, method, f"{group}/{number}") for number in range(CONNECTIONS)]
    ask(target.ports["web"], requests, count // CONNECTIONS, target.pauses_s.get(method, 0.0))


def servlet_request(target: Target, method: str, queue: str) -> bytes:
    """Return a request for a queue."""
    port = target.ports["web"]
    first = f"{method} /api/message/BENCH/{queue}?type=queue&readTimeout=20000 HTTP/1.1\r\n"
    head = f"{first}Host: 127.0.0.1:{port}\r\n{target.authorization}"
    if method == "GET":
        return f"{head}\r\n".encode()
    content = f"Content-Type: text/plain\r\nContent-Length: {len(BODY)}\r\n\r\n"
    return f"{head}Origin: http://127.0.0.1:{port}\r\n{content}".encode() + BODY


class Spanwire(Started):
    """A broker with a connector for WebSocket, and its web process."""

    def text(self) -> str:
        connector = (
            '  <transportConnector name="ws" uri="ws://127.0.0.1:0"/>\n'
            '  <transportConnector name="http" uri="http://127.0.0.1:0"/>\n  </transportConnectors>'
        )
        text = super().text().replace("  </transportConnectors>", connector)
        return text.replace("<transportConnectors>", '<web port="0"/>\n  <transportConnectors>')


@contextmanager
def spanwire_target(directory: Path) -> Iterator[Target]:
    """Run Spanwire."""
    with Spanwire(directory) as broker:
        broker.awaits("Listening for web requests at")
        web = next(int(match[1]) for line in broker.errors if (match := LISTENING.search(line)))
        children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
        yield Target("Spanwire", {**broker.ports, "web": web}, [broker.pid, *map(int, children)], ("POST", "GET"))


@contextmanager
def classic_target(directory: Path, home: Path) -> Iterator[Target]:
    """Run ActiveMQ Classic with its web console, whose servlets are those of the distribution."""
    ports = {name: free_port() for name in ("openwire", "stomp", "ws", "http", "web")}
    shutil.copytree(home / "conf", directory)
    (directory / "activemq.xml").write_text(CLASSIC_XML.format(data=directory / "data", **ports))
    jetty = (directory / "jetty.xml").read_text().replace('value="8161"', f'value="{ports["web"]}"')
    jetty = jetty.replace("${activemq.home}", str(home)).replace("${activemq.conf}", str(directory))
    (directory / "jetty.xml").write_text(jetty)
    process = subprocess.Popen(
        [
            "java", "-Xmx512m", f"-Dactivemq.home={home}", f"-Dactivemq.base={directory}",
            f"-Dactivemq.conf={directory}",
            f"-Dactivemq.data={directory / 'data'}", f"-Djolokia.conf=file:{directory / 'jolokia-access.xml'}",
            f"-Djava.security.auth.login.config={directory / 'login.config'}", f"-Djava.io.tmpdir={directory}",
            "-jar", str(home / "bin" / "activemq.jar"), "start", f"xbean:file:{directory / 'activemq.xml'}",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for port in ports.values():
            _await_port(port)
        basic = base64.b64encode(b"admin:admin").decode()
        authorization = f"Authorization: Basic {basic}\r\n"
        classic = Target("Classic", ports, [process.pid], ("POST", "GET"), authorization, {"GET": PAUSE_S})
        ask(ports["web"], [servlet_request(classic, "POST", "FIRST")], 1)  # several first ones at once end with 500
        yield classic
    finally:
        process.kill()
        process.wait()


def _await_port(port: int) -> None:
    end = time.monotonic() + WAIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


def compare(targets: list[Target], rounds: int, count: int) -> None:
    """Run every way at every broker, in alternating order."""
    for number in range(rounds + 1):
        for target in targets if number % 2 else reversed(targets):
            is_counted = number > 0
            for way, port in (("STOMP", "stomp"), ("STOMP over WebSocket", "ws")):
                queue = f"{port}-{number}"

                def stomp(target: Target = target, port: str = port, queue: str = queue) -> None:
                    through_stomp(target.ports[port], queue, count, is_websocket=port == "ws")

                target.measure(way, count, stomp, is_counted=is_counted)
            queue = f"tunnel-{number}"

            def tunnel(target: Target = target, queue: str = queue) -> None:
                ask_tunnel(target.ports["http"], queue, count // 4, WAIT_S)

            target.measure("OpenWire over HTTP", count // 4, tunnel, is_counted=is_counted)
            for method in target.methods:

                def servlet(target: Target = target, method: str = method, group: str = str(number)) -> None:
                    through_servlet(target, method, group, count)

                try:
                    target.measure(method, count // CONNECTIONS * CONNECTIONS, servlet, is_counted=is_counted)
                except ConnectionError as error:
                    if not target.pauses_s:
                        raise
                    print(f"{target.name} refused {method} in round {number}: {str(error).splitlines()[0]}")


def show(targets: list[Target]) -> None:
    """Print a table."""
    print("| broker | way | messages/s | CPU for a message, µs | of the generator, µs |\n|---|---|---|---|---|")
    for target in targets:
        for way, results in target.results.items():
            rates, times, own = ([result[index] for result in results] for index in range(3))
            print(f"| {target.name} | {way} | {_spread(rates)} | {_spread(times, 1)} | {statistics.median(own):.1f} |")


def _spread(values: list[float], digits: int = 0) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main(arguments: list[str]) -> int:
    """Compare with Classic where it can be had."""
    numbers = [int(argument) for argument in arguments[1:]]
    rounds, count = [*numbers, *(ROUNDS, MESSAGES)[len(numbers) :]]
    home = find_destination(CLASSIC)
    with tempfile.TemporaryDirectory() as name, spanwire_target(Path(name) / "spanwire") as spanwire:
        if isinstance(home, str):
            print(home)
            targets = [spanwire]
            compare(targets, rounds, count)
        else:
            with classic_target(Path(name) / "classic", home) as classic:
                targets = [spanwire, classic]
                compare(targets, rounds, count)
    show(targets)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
