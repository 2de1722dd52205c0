"""Dialogues with the broker in OpenWire over HTTP: clients with two sockets each, time passed in, no real socket.

stage = HttpStage()
client = stage.client("c")
client.opens(); client.logs_in()
client.posts(SessionInfo(…)); command = client.polls()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h11

from spanwire.model.environment import Time
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.protocols.openwire.broker_connection import OpenWireBrokerConnection
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder, StructureDecoder
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.xstream.reader import XmlReader
from spanwire.protocols.openwire.xstream.writer import XmlWriter
from spanwire.transports.admission import Admission
from spanwire.transports.http.quick_reader import QuickReader
from spanwire.transports.http.requests import RequestReader
from spanwire.transports.http.tunnel import Tunnel
from spanwire.transports.loop.pump import SocketPump
from spanwire.transports.loop.turn import Turn
from tests.support.openwire_dialogue import DialogueEnvironment, World
from tests.unit.transports.stage import FakeLoop, FakeSocket


class DialogueLoop(FakeLoop):
    """A loop whose time is the broker's."""

    def __init__(self, environment: DialogueEnvironment) -> None:
        self._environment = environment
        super().__init__()

    @property
    def time(self) -> float:
        return self._environment.monotonic

    @time.setter
    def time(self, value: float) -> None:
        self._environment.monotonic = value

    def now(self) -> Time:
        return self._environment.now()


class HttpStage:
    """One broker with a connector for OpenWire over HTTP."""

    reader: Callable[[], RequestReader] = QuickReader

    def __init__(
        self,
        *,
        max_sessions: int = 100,
        settings: dict[str, Any] | None = None,
        is_local: bool = False,
        **options: Any,
    ) -> None:
        self.world = World(**options)
        self.loop = DialogueLoop(self.world.environment)
        self.turn = Turn(self.loop, self.world.broker, self.loop)
        self.admission = Admission(max_sessions)
        self.tunnel = Tunnel(self.admission, self._make, self.turn, max_sessions, is_local=is_local, reader=self.reader)
        self.settings = settings or {}
        self.reports: list[str] = []
        self.connections: list[OpenWireBrokerConnection] = []
        self._address = ""
        self.turn.start()

    def _make(self, settings: ConnectionSettings, now: Time) -> ProtocolConnection:
        connection = OpenWireBrokerConnection(self.world.broker, settings, now)
        self.connections.append(connection)
        return connection

    def socket(self, host: str = "127.0.0.1") -> HttpSocket:
        """A connected socket."""
        self._address = f"tcp://{host}:50000"
        made = HttpSocket(self, (host, 50000))
        self.settle()
        return made

    def client(self, name: str = "ID:client-1", host: str = "127.0.0.1") -> HttpClient:
        """A client with two sockets, whose session is open."""
        client = HttpClient(self, name, host)
        assert client.writer.asks("HEAD", name) == (200, b"")
        return client

    def logged_in(self, name: str = "ID:client-1") -> HttpClient:
        """A client with an open session of JMS, which has read all answers."""
        client = self.client(name)
        client.logs_in()
        client.posts(wire.SessionInfo(client.session_id))
        client.reads_all()
        return client

    def settle(self) -> None:
        """Turns of the loop until nobody has anything to do."""
        self.loop.settle()

    def passes(self, seconds: float) -> None:
        """Let time pass, with all timers on the way."""
        self.loop.advance(seconds)
        self.settle()

    # The methods of the pump's Acceptor.

    def accept(self, transport: Any, now: Time) -> ProtocolConnection:
        settings = ConnectionSettings(self._address, **self.settings)
        return self.tunnel.connection(settings, lambda reason, at: self.reports.append(reason), now)

    def release(self, transport: Any) -> None:
        """Nothing is counted here."""


class HttpSocket:
    """A client's socket: sends requests, and reads answers with h11."""

    def __init__(self, stage: HttpStage, peer: tuple[str, int]) -> None:
        self.stage = stage
        self.transport = FakeSocket(peer=peer)
        self.pump = SocketPump(stage.turn, stage)
        self.pump.connection_made(self.transport)  # type: ignore[arg-type]
        self._http: Any = h11.Connection(h11.CLIENT)
        self._seen = 0

    @property
    def is_closed(self) -> bool:
        return self.transport.closing or self.transport.aborted

    def sends(self, data: bytes) -> None:
        """Send raw bytes."""
        self.pump.data_received(data)
        self.stage.settle()

    def begins(self, method: str, name: str | None = None, body: bytes = b"", **headers: str) -> None:
        """Send a request without waiting for the answer."""
        self.sends(request(method, name, body, **headers))

    def asks(self, method: str, name: str | None = None, body: bytes = b"", **headers: str) -> tuple[int, bytes] | None:
        """Send a request; gives status and body of the answer, or None if there is none yet."""
        self.begins(method, name, body, **headers)
        return self.answer(method)

    def answer(self, method: str = "GET") -> tuple[int, bytes] | None:
        """The next answer that has come."""
        data = self.transport.written[self._seen :]
        if not data:
            return None
        http: Any = h11.Connection(h11.CLIENT)
        http.send(h11.Request(method=method, target="/", headers=[("Host", "h")]))
        http.send(h11.EndOfMessage())
        http.receive_data(data)
        status, body = 0, b""
        while True:
            event = http.next_event()
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                assert isinstance(event, h11.InformationalResponse), event
        self._seen += len(data) - len(http.trailing_data[0])
        return status, body

    def vanishes(self) -> None:
        """The socket breaks."""
        self.pump.connection_lost(None)
        self.stage.settle()


class HttpClient:
    """A client: commands go out on one socket, and come in on the other."""

    def __init__(self, stage: HttpStage, name: str, host: str) -> None:
        self.stage = stage
        self.name = name
        self.writer = stage.socket(host)
        self.reader = stage.socket(host)
        self.session_id = wire.SessionId(connection_id=name, value=1)
        self._command_id = 0
        self._is_polling = False

    def logs_in(self, user: str | None = None) -> int:
        """Send the ConnectionInfo; gives its command id."""
        info = wire.ConnectionInfo(
            connection_id=wire.ConnectionId(self.name), client_id=self.name, user_name=user, manageable=True
        )
        return self.posts(info, response=True)

    def posts(self, command: Any, *, response: bool = False, **headers: str) -> int:
        """Send a command, which the broker takes; gives its id."""
        self.begins(command, response=response, **headers)
        assert self.writer.answer("POST") == (200, b"")
        return self._command_id

    def begins(self, command: Any, *, response: bool = False, **headers: str) -> None:
        """Send a command without waiting for the answer."""
        if isinstance(command, wire.BaseCommand):
            self._command_id += 1
            command.command_id = self._command_id
            command.response_required = response
        self.writer.begins("POST", self.name, text_of(command), **headers)

    def polls(self) -> Any:
        """Ask for a command; None while there is none, then the question stays open."""
        if not self._is_polling:
            self.reader.begins("GET", self.name)
        answer = self.reader.answer()
        self._is_polling = answer is None
        return None if answer is None else command_of(answer)

    def receives(self, kind: type) -> Any:
        """Poll up to a command of this type."""
        while (command := self.polls()) is not None:
            if type(command) is kind:
                return command
        raise AssertionError(f"no {kind.__name__} came")

    def reads_all(self) -> list[Any]:
        """All commands that have come; then the question for the next one is open."""
        commands = []
        while (command := self.polls()) is not None:
            commands.append(command)
        return commands


def request(method: str, name: str | None, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} / HTTP/1.1", f"Host: {headers.pop('Host', 'broker')}"]
    lines += [] if name is None else [f"clientID: {name}"]
    lines += [f"{header.replace('_', '-')}: {value}" for header, value in headers.items()]
    if method == "POST" and not {"Content_Length", "Transfer_Encoding"} & headers.keys():
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def text_of(command: Any) -> bytes:
    """A command as XML."""
    return XmlWriter().text(FrameEncoder().encode(command))


def command_of(answer: tuple[int, bytes]) -> Any:
    """The command in the answer to a GET."""
    status, body = answer
    assert status == 200, body
    assert int.from_bytes(body[:4], "big") == len(body) - 4
    frame = XmlReader().frame(body[4:])
    return StructureDecoder(WireFormat()).decode(frame, 4, len(frame))
