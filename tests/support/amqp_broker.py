"""A broker of AMQP 1.0 without sockets: Proton's engine as the other end of a connection of the provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from proton import Collector, Condition, Connection, Endpoint, Event, Terminus, Transport, symbol

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.amqp.connection import AmqpConnection, address_of

FACTORY: Final = ConnectionFactory("amqp://broker:5672", provider="amqp")


class AmqpBroker:
    """Answers a connection. Attributes say how, and ``received`` are the messages that have come."""

    def __init__(self, product: str = "apache-activemq-artemis", version: str = "1") -> None:
        self.refusals: Final[dict[str, str]] = {}  # conditions by address, "" for the coordinator
        self.echoes_filters = True
        self.credit = 100
        self.outcome: Callable[[bytes], tuple[int, str | None] | None] = lambda _: (0x24, None)
        self.received: Final[list[bytes]] = []
        self.dispositions: Final[list[int]] = []
        self.links: Final[dict[str, Any]] = {}
        self.detached: Final[list[str]] = []  # names of links that the client has detached, with its reason
        self.is_silent = False
        self._product: Final = product
        self._version: Final = version
        self._collector: Final = Collector()
        self._connection: Final = Connection()
        self._connection.collect(self._collector)
        self._engine: Final = Transport(Transport.SERVER)
        self._engine.sasl().allowed_mechs("ANONYMOUS")
        self._engine.bind(self._connection)
        self._client: AmqpConnection | None = None
        self._parts: dict[Any, bytes] = {}

    async def connect(self) -> AmqpConnection:
        """Return an opened connection to this broker."""
        self._client = AmqpConnection(address_of(FACTORY), "client")
        self._client.connection_made(Pipe(self._take))
        await self._client.opened()
        self._beat()
        return self._client

    def _beat(self) -> None:
        """Keep the connection alive, as long as the broker is not silent."""
        if not self.is_silent:
            loop = asyncio.get_running_loop()
            self._engine.tick(loop.time())
            self.flush()
            loop.call_later(1.0, self._beat)

    def send(self, octets: bytes, *, is_settled: bool = False, is_whole: bool = True, is_aborted: bool = False) -> None:
        """Send a message, or a part of one, over the client's only receiver."""
        (link,) = [one for one in self.links.values() if one.is_sender]
        delivery = link.current if link.current is not None else link.delivery(f"d{len(self._parts)}")
        self._parts[delivery] = octets
        link.stream(octets)
        if is_aborted:
            delivery.abort()
        elif is_whole:
            if is_settled:
                delivery.settle()
            link.advance()
        self.flush()

    def attach(self, name: str) -> None:
        """Attach a link of the broker's own beside the client's."""
        link = next(iter(self.links.values())).session.sender(name)
        link.source.address = "of-the-broker"
        link.open()
        self.flush()

    def detach(self, address: str) -> None:
        """End the client's link to an address."""
        (link,) = [one for one in self.links.values() if one.remote_target.address == address]
        link.close()
        self.flush()

    def end(self) -> None:
        """Close the socket."""
        assert self._client is not None
        self._client.connection_lost(None)

    def flush(self) -> None:
        """Hand the client what the engine has to say."""
        self._process()
        while self._client is not None and (size := self._engine.pending()) > 0:
            octets = self._engine.peek(size)
            self._engine.pop(size)
            asyncio.get_running_loop().call_soon(self._client.data_received, octets)
            self._process()

    def _take(self, octets: bytes) -> None:
        while octets:
            room = self._engine.capacity()
            self._engine.push(octets[:room])
            octets = octets[room:]
            self._process()
        if not self.is_silent:
            self.flush()

    def _process(self) -> None:
        while (event := self._collector.peek()) is not None:
            if event.type == Event.CONNECTION_REMOTE_OPEN:
                self._connection.properties = {symbol("product"): self._product, symbol("version"): self._version}
                self._connection.open()
            elif event.type == Event.SESSION_REMOTE_OPEN:
                event.session.open()
            elif event.type == Event.LINK_REMOTE_OPEN:
                if event.link.state & Endpoint.LOCAL_UNINIT:
                    self._attach(event.link)
            elif event.type == Event.LINK_REMOTE_CLOSE:
                self.links.pop(event.link.name, None)
                condition = event.link.remote_condition
                self.detached.append(f"{event.link.name}: {condition.name if condition is not None else ''}")
                event.link.close()
            elif event.type == Event.CONNECTION_REMOTE_CLOSE:
                self._connection.close()
            elif event.type == Event.DELIVERY:
                self._on_delivery(event.delivery)
            self._collector.pop()

    def _attach(self, link: Any) -> None:
        address = (link.remote_source if link.is_sender else link.remote_target).address or ""
        refusal = self.refusals.get(address)
        if refusal is not None:
            (link.source if link.is_sender else link.target).type = Terminus.UNSPECIFIED
            link.open()
            link.condition = Condition(refusal, f"no {address or 'transactions'}")
            link.close()
            return
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        if not self.echoes_filters:
            link.source.filter.clear()
        if link.is_receiver and link.remote_target.type == Terminus.COORDINATOR:
            link.target.type = Terminus.COORDINATOR
        self.links[link.name] = link
        link.open()
        if link.is_receiver:
            link.flow(self.credit)

    def _on_delivery(self, delivery: Any) -> None:
        link = delivery.link
        if link.is_sender:
            self.dispositions.append(int(delivery.remote_state))
            return
        if delivery.partial or not delivery.readable:
            return
        octets = link.recv(delivery.pending) or b""
        link.advance()
        if link.remote_target.type == Terminus.COORDINATOR:
            is_declare = b"\x53\x31" in octets[:8]
            if is_declare:
                delivery.local.data = [b"transaction"]
            delivery.update(0x33 if is_declare else 0x24)
            delivery.settle()
            return
        self.received.append(octets)
        found = self.outcome(octets)
        if found is None:
            return
        state, condition = found
        if condition is not None:
            delivery.local.condition = Condition(condition, "not this one")
        delivery.update(state)
        delivery.settle()


class Pipe(asyncio.Transport):
    """The client's socket."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        super().__init__()
        self._take: Final = take
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Hand octets to the broker in a later turn of the loop."""
        asyncio.get_running_loop().call_soon(self._take, bytes(data))

    def abort(self) -> None:
        """Count as closed."""
        self.is_aborted = True
