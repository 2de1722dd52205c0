"""A connection of AMQP 1.0: Proton's engine between asyncio's transport and the links of a bridge.

The engine knows the protocol and does no input or output. TLS is asyncio's, so Proton needs no TLS library.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, cast

from proton import Collector, Condition, Connection, Endpoint, Event, Transport

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.addresses import Place, Scheme, context_of, place_of
from spanwire.bridges.providers.amqp.peers import EXCHANGE, Peer, peer_of
from spanwire.client.io.environment import short_reason
from spanwire.model.errors import ConfigurationError, JmsError

T = TypeVar("T")
SCHEMES: Final = {"amqp": Scheme(5672, False), "amqps": Scheme(5671, True)}
CONNECT_S: Final = 30.0  # seconds for connection and login
ANSWER_S: Final = 60.0  # seconds for an attach or a settlement; a broker with a slow disk needs a few
CLOSE_S: Final = 2.0  # seconds; a broker that is silent must not hold up the next attempt
IDLE_S: Final = 20.0  # seconds of silence after which a broker counts as dead; Proton asks for a frame in half the time
MAX_FRAME: Final = 128 * 1024  # bytes; larger messages come in several frames
SESSION_BYTES: Final = 4 * 1024 * 1024  # bytes that Proton holds unread before the broker has to wait
MAX_REASON: Final = 300  # characters of a broker's error
MAX_WORD: Final = 60  # characters of a broker's name and version
NO_NAME: Final = "an error without a name"
NOT_ALLOWED: Final = "amqp:not-allowed"
PRECONDITION_FAILED: Final = "amqp:precondition-failed"
logger = logging.getLogger(__name__)


class OtherQueueError(JmsError):
    """RabbitMQ has the queue, with other arguments than a link would give to a new queue."""


class LinkEvents(Protocol):
    """Notices of a connection to a link."""

    def on_attached(self) -> None:
        """Notice the broker's attach."""
        ...

    def on_detached(self, reason: str) -> None:
        """Notice the broker's detach."""
        ...

    def on_credit(self) -> None:
        """Notice a flow of the broker."""
        ...

    def on_delivery(self, delivery: Any) -> None:
        """Notice new octets or a new state of a delivery."""
        ...

    def fail(self, error: JmsError) -> None:
        """Notice the loss of the connection."""
        ...


def address_of(factory: ConnectionFactory) -> Place:
    """Return the address of a factory; the path is RabbitMQ's virtual host. Raises `ConfigurationError`."""
    place = place_of(factory, SCHEMES, (EXCHANGE,))
    if place.options.get(EXCHANGE) == "":
        raise ConfigurationError(f"{place.shown}: exchange is empty; name the exchange of topics, or remove the option")
    return place


async def connect(factory: ConnectionFactory, client_id: str | None = None) -> AmqpConnection:
    """Connect, log in and open a session. ``client_id`` names the container.

    Raises:
        JmsError: the broker is not reachable, or refuses.
        ConfigurationError: a store cannot be read.
    """
    place = address_of(factory)
    context = context_of(factory, place)
    loop = asyncio.get_running_loop()
    connection = AmqpConnection(place, client_id or f"spanwire-{secrets.token_hex(8)}")
    try:
        async with asyncio.timeout(CONNECT_S):
            await loop.create_connection(
                lambda: connection,
                place.host,
                place.port,
                ssl=context,
                server_hostname=place.host if context is not None else None,
            )
            await connection.opened()
    except OSError as error:
        await connection.close()
        raise JmsError(f"no connection to {place.shown}: {short_reason(error)}; is the broker started?") from None
    except BaseException:
        await connection.close()
        raise
    return connection


class AmqpConnection(asyncio.Protocol):
    """One connection with one session. The first error ends the connection and reaches all links."""

    def __init__(self, place: Place, container: str) -> None:
        """Prepare the engine; the connection opens when the transport is there."""
        self.place: Final = place
        self._loop: Final = asyncio.get_running_loop()
        self._opened: Final[asyncio.Future[Peer]] = self._loop.create_future()
        self._collector: Final = Collector()
        self._connection: Final = Connection()
        self._engine: Final = Transport()
        self._links: Final[dict[tuple[str, bool], LinkEvents]] = {}  # by name and direction, as AMQP tells them apart
        self._socket: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._error: JmsError | None = None
        self._is_paused = False
        self._ended: Final = asyncio.Event()
        self._prepare(container)
        self.session: Final = self._connection.session()
        self.session.incoming_capacity = SESSION_BYTES
        self._handlers: Final[dict[Any, Callable[[Any], None]]] = {
            Event.CONNECTION_REMOTE_OPEN: self._on_opened,
            Event.CONNECTION_REMOTE_CLOSE: lambda event: self._on_closed(event.connection.remote_condition),
            Event.SESSION_REMOTE_CLOSE: lambda event: self._on_closed(event.session.remote_condition),
            Event.LINK_REMOTE_OPEN: lambda event: self._on_attached(event.link),
            Event.LINK_REMOTE_CLOSE: lambda event: self._on_detached(event.link),
            Event.LINK_REMOTE_DETACH: lambda event: self._on_detached(event.link),
            Event.LINK_FLOW: lambda event: self._on_flow(event.link),
            Event.DELIVERY: lambda event: self._on_delivery(event),
            Event.TRANSPORT_ERROR: lambda event: self._on_closed(event.transport.condition),
        }

    def _prepare(self, container: str) -> None:
        place, connection, engine = self.place, self._connection, self._engine
        connection.collect(self._collector)
        connection.container = container
        connection.hostname = f"vhost:{place.path}" if place.path else place.host
        sasl = engine.sasl()
        sasl.allow_insecure_mechs = True  # PLAIN without TLS, as with all providers; the URL decides about TLS
        if place.user_name is None:
            sasl.allowed_mechs("EXTERNAL ANONYMOUS" if place.is_secure else "ANONYMOUS")
        else:
            sasl.allowed_mechs("PLAIN")
            connection.user = place.user_name
            connection.password = "" if place.password is None else place.password.reveal()
        engine.max_frame_size = MAX_FRAME
        engine.idle_timeout = IDLE_S
        engine.tracer = _trace
        engine.bind(connection)
        connection.open()

    @property
    def peer(self) -> Peer:
        """The broker, after `opened`."""
        return self._opened.result()

    async def opened(self) -> None:
        """Wait until the broker has accepted the login and opened the connection. Raises `JmsError`."""
        await asyncio.wait((self._opened,))
        self.check()
        self.session.open()
        self.flush()

    def add(self, link: Any, events: LinkEvents) -> None:
        """Tell the events of a link of Proton, which has a new name, from now on."""
        self._links[_key(link)] = events

    def close_link(self, link: Any) -> None:
        """Close a link.

        The link is freed when the broker has ended the link, too: Proton would keep the link with the connection.
        """
        link.close()
        if _key(link) not in self._links:
            link.free()

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        if self._error is not None:
            raise JmsError(str(self._error))

    async def answer(self, future: asyncio.Future[T], what: str) -> T:
        """Wait for an answer of the broker. Raises `JmsError` after `ANSWER_S`, and for a lost connection."""
        self.flush()
        try:
            async with asyncio.timeout(ANSWER_S):
                return await future
        except TimeoutError:
            raise JmsError(f"{self.place.shown}: no answer to {what} within {ANSWER_S:g} seconds") from None

    async def close(self) -> None:
        """Close, without raising; wait for the answer of a reachable broker."""
        if self._socket is not None and self._error is None:
            self._connection.close()
            self.flush()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._ended.wait()
        self._end(JmsError(f"the connection to {self.place.shown} is closed"))
        if self._socket is not None:
            self._socket.abort()

    def flush(self) -> None:
        """Send the engine's output."""
        if self._socket is None or self._error is not None:
            return
        self._dispatch()
        while not self._is_paused and (size := self._engine.pending()) > 0:
            self._socket.write(self._engine.peek(size))
            self._engine.pop(size)
            self._dispatch()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with the login."""
        self._socket = cast(asyncio.Transport, transport)  # uvloop's class is not a subclass
        self._on_time()

    def data_received(self, data: bytes) -> None:
        """Hand octets to the engine."""
        rest = memoryview(data)
        try:
            while rest and self._error is None:
                room = self._engine.capacity()
                if room <= 0:
                    break
                self._engine.push(bytes(rest[:room]))
                rest = rest[room:]
                self._dispatch()
        except Exception as error:  # noqa: BLE001 - asyncio would log a traceback for what a broker has sent
            self._end(JmsError(f"{self.place.shown}: {one_line(str(error)) or type(error).__name__}"))
        self.flush()

    def pause_writing(self) -> None:
        """Leave further octets with the engine."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Send further octets."""
        self._is_paused = False
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all links."""
        reason = "" if not isinstance(exc, OSError) else f": {short_reason(exc)}"
        if not self._opened.done():
            self._end(JmsError(f"{self.place.shown} closed the connection during the login{reason}"))
        self._end(JmsError(f"the connection to {self.place.shown} was lost{reason}"))

    def _on_time(self) -> None:
        if self._error is not None:
            return
        now = self._loop.time()
        next_time = self._engine.tick(now) or now + IDLE_S / 4
        self._timer = self._loop.call_at(max(next_time, now + 0.1), self._on_time)
        self.flush()

    def _dispatch(self) -> None:
        while (event := self._collector.peek()) is not None:
            handler = self._handlers.get(event.type)
            if handler is not None:
                handler(event)
            self._collector.pop()

    def _on_opened(self, event: Any) -> None:
        if not self._opened.done():
            words = {
                str(name): str(word)[:MAX_WORD] for name, word in (event.connection.remote_properties or {}).items()
            }
            self._opened.set_result(peer_of(words))

    def _on_closed(self, condition: Any) -> None:
        kind = OtherQueueError if condition is not None and condition.name == PRECONDITION_FAILED else JmsError
        self._end(kind(f"{self.place.shown}: {reason_of(condition)}"))

    def _on_attached(self, link: Any) -> None:
        events = self._links.get(_key(link))
        if events is not None:
            events.on_attached()
            return
        link.open()  # a link is refused by an attach and a detach, as in OASIS AMQP 1.0, part 2, section 2.6.3
        link.condition = Condition(NOT_ALLOWED, "this client takes no links that the broker attaches")
        link.close()

    def _on_flow(self, link: Any) -> None:
        events = self._links.get(_key(link))
        if events is not None:
            events.on_credit()

    def _on_delivery(self, event: Any) -> None:
        events = self._links.get(_key(event.link))
        if events is not None:
            events.on_delivery(event.delivery)

    def _on_detached(self, link: Any) -> None:
        events = self._links.pop(_key(link), None)
        if events is not None:
            events.on_detached(reason_of(link.remote_condition))
        if link.state & Endpoint.LOCAL_CLOSED:
            link.free()

    def _end(self, error: JmsError) -> None:
        self._ended.set()
        if self._error is not None:
            return
        self._error = error
        if self._timer is not None:
            self._timer.cancel()
        if not self._opened.done():
            self._opened.cancel()
        for link in self._links.values():
            link.fail(error)


def _key(link: Any) -> tuple[str, bool]:
    return link.name, link.is_sender


def reason_of(condition: Any) -> str:
    """Return the error of a broker on one line; ``condition`` is Proton's, None for an end without error."""
    if condition is None:
        return "the broker closed the connection or the link"
    name = str(condition.name or NO_NAME)
    return one_line(f"{condition.description} ({name})" if condition.description else name)


def one_line(text: str) -> str:
    """Return a text of a broker without line breaks, within `MAX_REASON`."""
    return " ".join(text.split())[:MAX_REASON]


def _trace(_: Any, text: str) -> None:
    """Take Proton's lines for the standard error."""
    logger.debug("proton: %s", one_line(text))
