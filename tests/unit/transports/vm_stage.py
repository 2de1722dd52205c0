"""A stage for the transport without sockets: both ends, in a loop that is stepped by hand."""

from __future__ import annotations

from spanwire.model.environment import Time
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.transports.admission import Admission
from spanwire.transports.loop.turn import Turn
from spanwire.transports.vm import VmClient, VmConnector
from tests.unit.transports.stage import FakeBroker, FakeConnection, FakeLoop


class FakePostingLoop(FakeLoop):
    """Counts what other threads post."""

    def __init__(self) -> None:
        super().__init__()
        self.posted = 0
        self.ended = False

    def call_soon(self, callback: object) -> object:
        if self.ended:
            raise RuntimeError("the loop has ended")
        self.posted += 1
        assert callable(callback)
        return super().call_soon(callback)

    def call_soon_threadsafe(self, callback: object) -> object:
        return self.call_soon(callback)


class RecordingFeed:
    """What a client hears."""

    def __init__(self) -> None:
        self.received_bytes = b""
        self.room_again = 0
        self.ends: list[str | None] = []

    def received(self, data: bytes) -> None:
        assert not self.ends, "nothing is received after the end"
        self.received_bytes += data

    def writable(self) -> None:
        self.room_again += 1

    def closed(self, reason: str | None) -> None:
        self.ends.append(reason)


class VmStage:
    """One broker's connector; its connections remember what they get."""

    def __init__(self, max_connections: int = 100) -> None:
        self.loop = FakePostingLoop()
        self.turn = Turn(self.loop, FakeBroker(), self.loop)
        self.admission = Admission(max_connections)
        self.connector = VmConnector("stage", self.admission)
        self.connections: list[FakeConnection] = []
        self.settings: list[ConnectionSettings] = []
        self.connector.start(self._make, self.turn, self.loop)

    def _make(self, settings: ConnectionSettings, now: Time) -> ProtocolConnection:
        connection = FakeConnection()
        self.connections.append(connection)
        self.settings.append(settings)
        return connection

    def client(self) -> tuple[VmClient, RecordingFeed]:
        """A connected client."""
        feed = RecordingFeed()
        client = VmClient("vm://stage", lambda begun: begun.attach(self.connector))
        client.start(feed)
        return client, feed

    def connect(self) -> tuple[VmClient, RecordingFeed, FakeConnection]:
        """A connected client, and the connection that the broker made for it."""
        client, feed = self.client()
        self.loop.settle()
        return client, feed, self.connections[-1]

    def sends(self, connection: FakeConnection, data: bytes) -> None:
        """The broker has something for a client: flushed at the end of the turn."""
        connection.to_send.append(data)
        self.flush(connection)

    def flush(self, connection: FakeConnection) -> None:
        self.turn.touch(self.turn._sockets[connection])
        self.loop.settle()
