"""A WebSocket over TCP keeps the contract of all transports."""

from __future__ import annotations

import logging

from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from spanwire.model.environment import Time
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.transports.admission import Admission
from spanwire.transports.base import ConnectionFactory, ConnectorSettings
from spanwire.transports.connector import TransportConnector
from spanwire.transports.loop.turn import Turn
from tests.conformance.test_tcp_transport import TcpEnd
from tests.conformance.transports import ClientEnd, TransportConformance, TransportDriver
from tests.unit.transports.stage import FakeConnection

PIECE = 64 * 1024  # bytes of one message of this client
GREETING = b"\n"  # before it the broker takes little of a client: until then nobody has logged in
SILENT = logging.Logger("client", logging.CRITICAL)


class WebSocketEnd:
    """The library's own client around a socket; it reads a frame when the test reads."""

    def __init__(self, carrier: TcpEnd, port: int) -> None:
        self._carrier = carrier
        self._protocol = ClientProtocol(parse_uri(f"ws://127.0.0.1:{port}/"), max_size=None, logger=SILENT)
        self._read: list[bytes] = []

    async def shake_hands(self) -> None:
        self._protocol.send_request(self._protocol.connect())
        await self._flush()
        while self._protocol.state is not OPEN:
            data = await self._carrier.read()
            if not data:
                raise ConnectionResetError("the broker closed during the handshake")
            self._take(data)
        assert await self.read() == GREETING

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE):
            self._protocol.send_binary(data[start : start + PIECE])
            await self._flush()

    async def read(self) -> bytes:
        while not self._read:
            data = await self._carrier.read()
            if not data:
                if self._protocol.close_rcvd is None and self._protocol.close_sent is None:
                    raise ConnectionAbortedError("the broker cut the connection without a closing handshake")
                return b""
            self._take(data)
            await self._flush()  # the answer to a close frame
        return self._read.pop(0)

    def close(self) -> None:
        if self._protocol.state is OPEN:
            self._protocol.send_close(1000)
            self._carrier.write_at_once(b"".join(self._protocol.data_to_send()))
        self._carrier.close()

    def _take(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if getattr(event, "opcode", None) in (Opcode.TEXT, Opcode.BINARY):
                self._read.append(bytes(event.data))

    async def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data:
            await self._carrier.write(data)


class WebSocketDriver:
    def __init__(self) -> None:
        self._connector: TransportConnector | None = None

    @property
    def connection_count(self) -> int:
        assert self._connector is not None
        return self._connector.connection_count

    async def start(self, factory: ConnectionFactory, turn: Turn, admission: Admission) -> None:
        settings = ConnectorSettings(name="tested", scheme="ws", host="127.0.0.1", port=0, protocol="stomp")
        self._connector = TransportConnector(settings, admission)
        await self._connector.bind()

        def greet(settings: ConnectionSettings, now: Time) -> ProtocolConnection:
            connection = factory(settings, now)
            assert isinstance(connection, FakeConnection)
            connection.to_send.append(GREETING)
            return connection

        await self._connector.start({"stomp": greet}, turn)

    def stop(self) -> None:
        assert self._connector is not None
        self._connector.stop()

    async def connect(self) -> ClientEnd:
        assert self._connector is not None
        carrier = await TcpEnd.connect(self._connector.port)
        client = WebSocketEnd(carrier, self._connector.port)
        try:
            await client.shake_hands()
        except OSError:
            carrier.close()
            raise
        return client


class TestWebSocketTransport(TransportConformance):
    def driver(self) -> TransportDriver:
        return WebSocketDriver()
