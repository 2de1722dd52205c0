"""TLS over TCP keeps the contract of all transports."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from spanwire.tls.settings import KeyStore, TlsSettings
from spanwire.transports.admission import Admission
from spanwire.transports.base import ConnectionFactory, ConnectorSettings
from spanwire.transports.connector import TransportConnector
from spanwire.transports.loop.turn import Turn
from tests.conformance.test_tcp_transport import TcpEnd
from tests.conformance.transports import ClientEnd, HalfCloseConformance, TransportDriver
from tests.support.certificates import Authority

PIECE = 16 * 1024  # bytes of one TLS record
HOST = "localhost"


class TlsEnd:
    """Python's own TLS around a socket without buffers; it never reads ahead."""

    def __init__(self, carrier: TcpEnd, context: ssl.SSLContext) -> None:
        self._carrier = carrier
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._engine = context.wrap_bio(self._incoming, self._outgoing, server_hostname=HOST)

    async def shake_hands(self) -> None:
        while True:
            try:
                self._engine.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._carrier.read()
                if not data:
                    raise ConnectionResetError("the broker closed during the handshake") from None
                self._incoming.write(data)
        await self._flush()

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(view), PIECE):
            self._engine.write(view[start : start + PIECE])
            await self._flush()

    async def read(self) -> bytes:
        while True:
            try:
                return self._engine.read(PIECE)
            except ssl.SSLWantReadError:
                data = await self._carrier.read()
                if not data:
                    raise ConnectionAbortedError("the broker cut the connection without a goodbye") from None
                self._incoming.write(data)
            except ssl.SSLZeroReturnError:
                return b""

    async def end_writing(self) -> None:
        try:
            self._engine.unwrap()
        except ssl.SSLWantReadError:
            await self._flush()

    def close(self) -> None:
        self._carrier.close()

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._carrier.write(self._outgoing.read())


class TlsDriver:
    def __init__(self, authority: Authority, directory: Path) -> None:
        self._key_store = KeyStore(authority.issue().write_pem(directory / "broker.pem"))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.load_verify_locations(authority.write_certificate(directory / "authority.pem"))
        self._connector: TransportConnector | None = None

    @property
    def connection_count(self) -> int:
        assert self._connector is not None
        return self._connector.connection_count

    async def start(self, factory: ConnectionFactory, turn: Turn, admission: Admission) -> None:
        settings = ConnectorSettings(
            name="tested", scheme="ssl", host="127.0.0.1", port=0, protocol="openwire", tls=TlsSettings(self._key_store)
        )
        self._connector = TransportConnector(settings, admission)
        await self._connector.bind()
        await self._connector.start({"openwire": factory}, turn)

    def stop(self) -> None:
        assert self._connector is not None
        self._connector.stop()

    async def connect(self) -> ClientEnd:
        assert self._connector is not None
        client = TlsEnd(await TcpEnd.connect(self._connector.port), self._context)
        try:
            await client.shake_hands()
        except OSError:
            client.close()
            raise
        return client


class TestTlsTransport(HalfCloseConformance):
    @pytest.fixture(autouse=True)
    def _keys(self, tmp_path: Path) -> None:
        self.authority = Authority()
        self.directory = tmp_path

    def driver(self) -> TransportDriver:
        return TlsDriver(self.authority, self.directory)

    async def end_writing(self, client: ClientEnd) -> None:
        assert isinstance(client, TlsEnd)
        await client.end_writing()
