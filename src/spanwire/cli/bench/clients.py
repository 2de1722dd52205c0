"""The clients of a run: over OpenWire, or over STOMP for addresses with ``stomp:``."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.addresses import context_of, place_of
from spanwire.bridges.providers.stomp.connection import Headers, StompConnection, connect
from spanwire.bridges.providers.stomp.provider import SCHEMES
from spanwire.cli.bench.plan import Plan
from spanwire.client import AcknowledgeMode, aio
from spanwire.model.destination import Destination
from spanwire.model.secret import Secret
from spanwire.model.units import MIB
from spanwire.model.written_destination import written_destination
from spanwire.protocols.stomp.codec.frames import ACK, SEND, SUBSCRIBE, Frame
from spanwire.protocols.stomp.destinations import destination_text

MODES: Final[dict[str, AcknowledgeMode]] = {"auto": "auto", "dups_ok": "dups_ok"}
PREFETCH: Final = 1000  # messages ahead of their acknowledgement, as over OpenWire
TAKEN: Final = 100  # messages that one acknowledgement of dups_ok covers at most
TAKEN_BYTES: Final = 64 * MIB  # bytes of them
WAIT_S: Final = 60.0  # seconds until an empty inbox is looked at again


class Arrival(Protocol):
    """The part of a received message used here."""

    @property
    def body(self) -> object:
        """Return the body."""
        ...

    @property
    def redelivered(self) -> bool:
        """Return True if the broker has delivered the message before."""
        ...


class Sender(Protocol):
    """A producer of the destination."""

    async def send(self, body: bytes, *, wait: bool | None = None) -> None:
        """Send a message."""
        ...


class Receiver(Protocol):
    """A consumer of the destination."""

    async def next(self) -> Arrival | None:
        """Wait for a message, and acknowledge it. Returns None if none has come for a while."""
        ...


class Client(Protocol):
    """A connection."""

    async def sender(self) -> Sender:
        """Return a producer."""
        ...

    async def receiver(self) -> Receiver:
        """Return a consumer."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


async def open_client(plan: Plan) -> Client:
    """Connect to the broker of a plan, over the protocol of its address.

    Raises:
        SpanwireError: the address is wrong, or the broker is away or refuses the login
    """
    if plan.url.partition(":")[0] not in SCHEMES:
        return OpenWireClient(plan, await aio.connect(plan.url, plan.user, plan.password))
    password = None if plan.password is None else Secret(plan.password)
    factory = ConnectionFactory(plan.url, plan.user, password, provider="stomp")
    place = place_of(factory, SCHEMES)
    return StompClient(plan, await connect(place, context_of(factory, place), None))


class OpenWireClient:
    """A connection of the project's own client."""

    def __init__(self, plan: Plan, connection: aio.Connection) -> None:
        self._plan: Final = plan
        self._connection: Final = connection

    async def sender(self) -> Sender:
        """Return a producer."""
        session = self._connection.session()
        return await session.create_producer(self._plan.destination, persistent=self._plan.persistent)

    async def receiver(self) -> Receiver:
        """Return a consumer."""
        session = self._connection.session(MODES[self._plan.acknowledge])
        return OpenWireReceiver(await session.create_consumer(self._plan.destination))

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()


class OpenWireReceiver:
    """A consumer, whose session acknowledges."""

    def __init__(self, consumer: aio.Consumer) -> None:
        self._consumer: Final = consumer

    async def next(self) -> Arrival | None:
        """Wait for a message."""
        return self._consumer.receive_no_wait() or await self._consumer.receive()


class StompClient:
    """A STOMP 1.2 connection."""

    def __init__(self, plan: Plan, connection: StompConnection) -> None:
        self._plan: Final = plan
        self._connection: Final = connection
        self._destination: Final[Destination] = written_destination(plan.destination)
        self._kind: Final = "MULTICAST" if plan.is_topic else "ANYCAST"
        self._is_artemis: Final = connection.is_artemis

    async def sender(self) -> Sender:
        """Return a producer."""
        headers: Headers = [("destination", destination_text(self._destination))]
        if self._plan.persistent:
            headers.append(("persistent", "true"))
        if self._is_artemis:
            headers.append(("destination-type", self._kind))
        return StompSender(self._connection, headers, self._plan.persistent)

    async def receiver(self) -> Receiver:
        """Return a subscription."""
        is_each = self._plan.acknowledge == "auto"
        headers: Headers = [
            ("id", "bench"),
            ("destination", destination_text(self._destination)),
            ("ack", "client-individual" if is_each else "client"),
            ("activemq.prefetchSize", str(PREFETCH)),
        ]
        if self._is_artemis:
            headers.append(("subscription-type", self._kind))
        await self._connection.request(SUBSCRIBE, headers)
        return StompReceiver(self._connection, 1 if is_each else TAKEN)

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()


class StompSender:
    """A producer, whose waiting sends ask for a receipt."""

    def __init__(self, connection: StompConnection, headers: Headers, waits: bool) -> None:
        self._connection: Final = connection
        self._headers: Final = headers
        self._waits: Final = waits

    async def send(self, body: bytes, *, wait: bool | None = None) -> None:
        """Send a message; ``wait`` None waits for persistent messages, as over OpenWire."""
        headers = [*self._headers, ("content-length", str(len(body)))]
        if self._waits if wait is None else wait:
            await self._connection.request(SEND, headers, body)
        else:
            await self._connection.send(SEND, headers, body)


class StompArrival:
    """A received message."""

    def __init__(self, frame: Frame) -> None:
        self.body: Final[bytes] = frame.body
        self.redelivered: Final[bool] = frame.headers.get("redelivered") == "true"


class StompReceiver:
    """A subscription that acknowledges each message, or up to some messages at once."""

    def __init__(self, connection: StompConnection, most: int) -> None:
        self._connection: Final = connection
        self._most: Final = most
        self._taken: Final[deque[Frame]] = deque()

    async def next(self) -> Arrival | None:
        """Wait for a message, and acknowledge those taken from the connection together."""
        if not self._taken:
            self._taken.extend(await self._connection.inbox.take(self._most, TAKEN_BYTES, WAIT_S))
            if not self._taken:
                return None
            await self._connection.send(ACK, [("id", self._taken[-1].headers.get("ack", ""))])
        return StompArrival(self._taken.popleft())
