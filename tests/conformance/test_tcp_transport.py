"""TCP keeps the contract of all transports."""

from __future__ import annotations

import asyncio
import socket

from spanwire.transports.admission import Admission
from spanwire.transports.base import ConnectionFactory, ConnectorSettings
from spanwire.transports.connector import TransportConnector
from spanwire.transports.loop.turn import Turn
from tests.conformance.transports import ClientEnd, HalfCloseConformance, TransportDriver

READ_BYTES = 64 * 1024


class TcpEnd:
    """A non-blocking socket without buffers of its own."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    @classmethod
    async def connect(cls, port: int) -> TcpEnd:
        channel = socket.socket()
        channel.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(channel, ("127.0.0.1", port))
        except OSError:
            channel.close()
            raise
        return cls(channel)

    async def write(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def read(self) -> bytes:
        try:
            return await asyncio.get_running_loop().sock_recv(self._socket, READ_BYTES)
        except ConnectionResetError:
            return b""

    async def end_writing(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def write_at_once(self, data: bytes) -> None:
        """Write a few bytes if there is room for them."""
        try:
            self._socket.send(data)
        except OSError:
            return  # the broker has closed, or does not read

    def close(self) -> None:
        """Closing with bytes unread would be a reset, which takes what was written with it."""
        try:
            while self._socket.recv(READ_BYTES):
                pass
        except OSError:
            self._socket.close()
        self._socket.close()


class TcpDriver:
    def __init__(self) -> None:
        self._connector: TransportConnector | None = None
        self._port = 0

    @property
    def connection_count(self) -> int:
        assert self._connector is not None
        return self._connector.connection_count

    async def start(self, factory: ConnectionFactory, turn: Turn, admission: Admission) -> None:
        settings = ConnectorSettings(name="tested", scheme="tcp", host="127.0.0.1", port=0, protocol="openwire")
        self._connector = TransportConnector(settings, admission)
        await self._connector.bind()
        await self._connector.start({"openwire": factory}, turn)
        self._port = self._connector.port

    def stop(self) -> None:
        assert self._connector is not None
        self._connector.stop()

    async def connect(self) -> ClientEnd:
        return await TcpEnd.connect(self._port)


class TestTcpTransport(HalfCloseConformance):
    def driver(self) -> TransportDriver:
        return TcpDriver()

    async def end_writing(self, client: ClientEnd) -> None:
        assert isinstance(client, TcpEnd)
        await client.end_writing()
