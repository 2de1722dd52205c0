"""The transport without sockets keeps the contract of all transports."""

from __future__ import annotations

import asyncio

from spanwire.transports.admission import Admission
from spanwire.transports.base import ConnectionFactory
from spanwire.transports.loop.turn import Turn
from spanwire.transports.vm import VmClient, VmConnector
from tests.conformance.transports import ClientEnd, TransportConformance, TransportDriver


class VmEnd:
    """A client of the same loop. What it has not read it has not taken."""

    def __init__(self, connector: VmConnector) -> None:
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = asyncio.Event()
        self._room.set()
        self._client = VmClient(connector.uri, lambda client: client.attach(connector))
        self._client.start(self)

    async def write(self, data: bytes) -> None:
        await self._room.wait()
        if not self._client.write(data):
            self._room.clear()

    async def read(self) -> bytes:
        data = await self._arrived.get()
        self._client.taken(len(data))
        return data

    def close(self) -> None:
        self._client.close()

    def received(self, data: bytes) -> None:
        self._arrived.put_nowait(data)

    def writable(self) -> None:
        self._room.set()

    def closed(self, reason: str | None) -> None:
        self._arrived.put_nowait(b"")


class VmDriver:
    def __init__(self) -> None:
        self._connector: VmConnector | None = None

    @property
    def connection_count(self) -> int:
        assert self._connector is not None
        return self._connector.connection_count

    async def start(self, factory: ConnectionFactory, turn: Turn, admission: Admission) -> None:
        self._connector = VmConnector("conformance", admission)
        self._connector.start(factory, turn)

    def stop(self) -> None:
        assert self._connector is not None
        self._connector.stop()

    async def connect(self) -> ClientEnd:
        assert self._connector is not None
        return VmEnd(self._connector)


class TestVmTransport(TransportConformance):
    def driver(self) -> TransportDriver:
        return VmDriver()
