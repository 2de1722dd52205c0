"""Fuzz the web process: any bytes get a clear status or a closed connection, and run no operation without its login.

python -m tests.fuzz.fuzz_requests [COUNT [SEED]]   seeded mutations of requests; atheris if it is installed

Server, guard, routes and handlers are the real ones; the management of the broker is one in memory, and so is a real
broker for messages. The connection has no socket.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import logging
import random
import re
import sys
import time
from typing import Final

from uvicorn.server import ServerState

from spanwire.client.aio import Connection as BrokerConnection
from spanwire.client.aio import connect
from spanwire.model.errors import AuthenticationError
from spanwire.web.link import CHANGING
from spanwire.web.rest.logins import Logins
from spanwire.web.rest.servlet import SENT
from spanwire.web.routes import application
from spanwire.web.serving.deadline import DeadlineProtocol
from spanwire.web.serving.quick import QuickProtocol
from spanwire.web.serving.server import server_config
from tests.fuzz.harness import run
from tests.support.fake_broker_link import USERS as ACCOUNTS
from tests.support.fake_broker_link import FakeBrokerLink

DEFAULT_COUNT: Final = 20_000
SLOWEST_SECONDS: Final = 2.0  # processor time of one connection, interpreted, on a busy machine
TURNS: Final = 200  # turns of the loop in which an answer comes; an event stream never ends
GROUP: Final = 500  # connections of one application; its sessions and streams begin anew then
LEASED: Final = re.compile(rb'"lease":"([^"]+)"')
STATUS: Final = re.compile(rb"HTTP/1\.1 (\d\d\d) ")
ADMINISTRATOR: Final = base64.b64encode(b"anna:a-word")
USERS: Final = (b"", base64.b64encode(b"vera:v-word"), ADMINISTRATOR, base64.b64encode(b"anna:wrong"), b"!")
KNOWN: Final = USERS[1:3]
BEAN: Final = b"org.apache.activemq:type=Broker,brokerName=orders,destinationType=Queue,destinationName=A"
PATHS: Final = (
    b"/ /metrics /metrics?destinations=all /health/live /health/ready "
    b"/api/v1/openapi.json /api/v1/broker /api/v1/queues "
    b"/api/v1/queues?size=1&sort=-pending&destination=*A /api/v1/queues/A /api/v1/topics/T /api/v1/connections "
    b"/api/v1/link_destinations /api/v1/events?views=queues /api/jolokia /api/jolokia/list /api/jolokia/search/*:* "
    b"/api/jolokia/read/%b/QueueSize /console /queues /login /xml/queues.jsp "
    b"/api/message/A?type=queue&readTimeout=1 /api/message/A?type=queue&oneShot=true&clientId=c&readTimeout=1 "
    b"/demo/message?destination=A&type=queue&readTimeout=1&xml=true /api/message/T?clientId=c&json=true&readTimeout=1 "
    b"/api/v1/destinations/A/messages?limit=5&selector=n%%3D1 /api/v1/destinations/T/messages/stream?type=topic "
    b"/demo/queueBrowse/A?view=rss&contentType=text/xml /demo/" % BEAN
).split(b" ")
LEASE: Final = b"LEASE"  # stands for the last lease that an answer has named
BODIES: Final = {
    b"/api/v1/queues/A/purge": b'{"selector": "n = 1", "limit": 5}',
    b"/api/v1/queues/A/send": b'{"body": "x", "properties": {"n": 1}}',
    b"/api/v1/queues/A/pause": b"",
    b"/api/v1/connections/disconnect": b'{"client": "c"}',
    b"/api/v1/session": b"",
    b"/api/jolokia": b'{"type": "exec", "mbean": "' + BEAN + b'", "operation": "purge()"}',
    b"/api/jolokia/": b'[{"type": "read", "mbean": "' + BEAN + b'"}, {"type": "version"}]',
    b"/api/v1/destinations/A/messages": b'{"body": {"a": [1, "x"]}, "properties": {"n": {"type": "int", "value": 1}}}',
    b"/api/v1/destinations/T/messages?type=topic": b'{"messages": [{"body": "x", "reply_to": "queue://B"}, {}]}',
    b"/api/v1/destinations/A/messages/receive": b'{"max_messages": 3, "selector": "n = 1", "lease_ms": 5000}',
    b"/api/v1/leases/LEASE/acknowledge": b'{"ids": ["ID:x"]}',
    b"/api/v1/leases/LEASE/extend": b'{"lease_ms": 5000}',
    b"/api/v1/leases/LEASE/release": b"",
}
FORM: Final = b"application/x-www-form-urlencoded"
POSTED: Final = (  # to the servlets: path, type and body
    (b"/api/message/A?type=queue&JMSPriority=9&n=1", b"text/xml; charset=utf-8", b"<a>\xc3\xa9</a>"),
    (b"/api/message/A", FORM, b"type=queue&body=x&JMSTimeToLive=1000&JMSReplyTo=queue://B&n=2"),
    (b"/demo/message?destination=T&type=topic", FORM, b"body=%C3%A4&JMSDeliveryMode=persistent&JMSCorrelationID=c"),
    (b"/demo/message/A?type=queue", b"application/octet-stream", b"\0\xff"),
    (b"/api/message/T?action=unsubscribe&clientId=c", FORM, b""),
)
TOKENS: Final = (
    b"\r\n", b"\r\n\r\n", b"\n", b"\0", b" ", b":", b"\xff\xfe", b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n", b"Host: evil.example\r\n",
    b"Origin: http://evil.example\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Upgrade: h2c\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"Sec-Fetch-Site: cross-site\r\n", b"Cookie: spanwire-session=x\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n",
    b"%00", b"%2e%2e%2f", b"../", b"//", b"?page=0", b"?size=99999", b"*", b"[" * 500, b'{"a":' * 300, b"\\ud800",
    b"1e999", b"NaN", b'"', b"X: x\r\n" * 200, b"a" * 20_000, b"GET http://evil.example/ HTTP/1.1\r\n", b" HTTP/0.9",
)  # fmt: skip


NUMBERS: Final = itertools.count(1)  # of brokers in this process
Protocol = type[DeadlineProtocol | QuickProtocol]
PROTOCOLS: Final[tuple[Protocol, ...]] = (DeadlineProtocol, QuickProtocol)


class Connection(asyncio.Transport):
    """A connection without a socket that keeps what the server writes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 40000), "sockname": ("127.0.0.1", 8161)})
        self.written = bytearray()
        self._is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True

    def abort(self) -> None:
        self._is_closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        raise AssertionError("the connection changes to another protocol")


class AcceptingLink(FakeBrokerLink):
    """A broker that notes the operations that it has run."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[str] = []

    async def ask(self, command: str, **arguments: object) -> object:
        answer = await super().ask(command, **arguments)
        if command in CHANGING:
            self.operations.append(command)
        return answer


class Messages:
    """A broker in memory that takes messages of its users."""

    def __init__(self) -> None:
        self._url: Final = f"vm://fuzz-{next(NUMBERS)}?broker.persistent=false"

    async def connect(self, user: str | None, password: str | None, host: str) -> BrokerConnection:
        if ACCOUNTS.get(str(user), ("", ""))[0] != password:
            raise AuthenticationError("the user or password is wrong")
        return await connect(self._url)


class Faults(logging.Handler):
    """Keeps the errors that the server logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class World:
    """A web process in memory."""

    def __init__(self, faults: Faults, protocol: Protocol) -> None:
        self._protocol: Final = protocol
        self._faults: Final = faults
        self._link: Final = AcceptingLink()
        self._logins: Final = Logins(Messages().connect)
        self._lease = b"none"
        self._config: Final = server_config(application(self._link, is_loopback=True, logins=self._logins), protocol)
        self._config.load()
        self._state: Final = ServerState()
        self.read = 0  # bytes of the last connection before the server closed it
        self.asked: list[tuple[str, dict[str, object]]] = []  # of the broker, by the last connection

    async def close(self) -> None:
        """End the connections to the broker for messages."""
        await self._logins.close()

    async def converse(self, pieces: list[bytes]) -> list[int]:
        """Send some pieces over one connection; return the statuses of the answers, which are checked."""
        pieces = [piece.replace(LEASE, self._lease) for piece in pieces]
        started = time.process_time()
        connection = Connection()
        self.read = 0
        protocol = self._protocol(config=self._config, server_state=self._state, app_state={})
        protocol.connection_made(connection)
        for piece in pieces:
            if connection.is_closing():
                break
            protocol.data_received(piece)
            self.read += len(piece)
            await asyncio.sleep(0)
        for _ in range(TURNS):
            if not self._state.tasks:
                break
            await asyncio.sleep(0)
        protocol.connection_lost(None)
        if self._state.tasks:
            await asyncio.wait(self._state.tasks)
        data = b"".join(pieces)
        assert time.process_time() - started < SLOWEST_SECONDS, f"too slow: {data!r}"
        assert not self._faults.lines, f"{data!r}: {self._faults.lines[0]}"
        answer = bytes(connection.written)
        assert not answer or STATUS.match(answer), f"{data!r} is answered with {answer[:80]!r}"
        statuses = [int(found) for found in STATUS.findall(answer)]
        assert 500 not in statuses, f"{data!r} fails"
        assert not self._link.operations or ADMINISTRATOR in data, f"{data!r} has run {self._link.operations}"
        is_user = any(user in data for user in KNOWN)
        assert is_user or not any(word in answer for word in (SENT, b'"ids"', b'"messageid"')), f"{data!r} has sent"
        found = LEASED.search(answer)
        self._lease = self._lease if found is None else found[1]
        self._link.operations.clear()
        self.asked = list(self._link.asked)
        self._link.asked.clear()
        return statuses


def request(chance: random.Random) -> bytes:
    """Return a request as clients make it."""
    user = chance.choice(USERS)
    head = [b"Host: 127.0.0.1:8161"]
    if user:
        head.append(b"Authorization: Basic " + user)
    if chance.random() < 0.5:
        if chance.random() < 0.3:
            head.append(b"Accept: text/event-stream")
        method = chance.choice((b"GET", b"GET", b"GET", b"DELETE"))
        return method + b" " + chance.choice(PATHS) + b" HTTP/1.1\r\n" + b"\r\n".join(head) + b"\r\n\r\n"
    posted = [(path, b"application/json", body) for path, body in BODIES.items()]
    path, content_type, body = chance.choice([*posted, *POSTED])
    head.append(b"Content-Type: " + content_type)
    if chance.random() < 0.3:
        head.append(b"Transfer-Encoding: chunked")
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    else:
        head.append(b"Content-Length: %d" % len(body))
    return b"POST " + path + b" HTTP/1.1\r\n" + b"\r\n".join(head) + b"\r\n\r\n" + body


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return a request with one change."""
    start = chance.randrange(len(data) + 1)
    end = min(len(data), start + chance.randrange(1, 40))
    kind = chance.randrange(7)
    if kind == 0:
        return data[:start] + bytes([chance.randrange(256)]) + data[start + 1 :]
    if kind == 1:
        return data[:start] + data[end:]
    if kind == 2:
        return data[:end] + data[start:]
    if kind == 3:
        return data[:start] + chance.choice(TOKENS) + data[start:]
    if kind == 4:
        line = data.find(b"\r\n", start) + 2
        return data[:line] + chance.choice(TOKENS) + data[line:]
    if kind == 5:
        return data[:start] + request(chance)
    return data[:start]


def pieces_of(chance: random.Random) -> list[bytes]:
    """Return the bytes of one connection, in the pieces in which they arrive."""
    data = b"".join(request(chance) for _ in range(chance.choice((1, 1, 1, 2))))
    for _ in range(chance.randrange(5)):
        data = mutated(data, chance)
    cut = chance.randrange(len(data) + 1)
    pieces = [data] if chance.random() < 0.7 else [data[:cut], data[cut:]]
    return [piece for piece in pieces if piece]  # no transport hands empty data on


def run_bytes(data: bytes) -> None:
    """The entry that atheris calls."""
    for protocol in PROTOCOLS:
        asyncio.run(World(_faults(), protocol).converse([data]))


def loop(chance: random.Random, count: int) -> str:
    """Run so many connections."""
    faults = _faults()
    statuses: dict[int, int] = {}

    async def group(size: int) -> None:
        worlds = [World(faults, protocol) for protocol in PROTOCOLS]
        for _ in range(size):
            for status in await chance.choice(worlds).converse(pieces_of(chance)):
                statuses[status] = statuses.get(status, 0) + 1
        for world in worlds:
            await world.close()

    for start in range(0, count, GROUP):
        asyncio.run(group(min(GROUP, count - start)))
    shown = ", ".join(f"{number} times {status}" for status, number in sorted(statuses.items()))
    return f"{count} connections: {shown}"


def _faults() -> Faults:
    faults = Faults()
    logging.getLogger().handlers = [faults]
    return faults


if __name__ == "__main__":
    sys.exit(run(sys.argv, run_bytes, DEFAULT_COUNT, loop))
