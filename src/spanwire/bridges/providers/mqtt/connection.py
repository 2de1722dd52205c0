"""An MQTT 5 connection of a bridge: acknowledgements by the bridge, and the answers to publications.

The library acknowledges a message before the program has seen it, and ignores the reason in an answer. Both would lose
messages, so this subclass turns on manual acknowledgements and keeps the reasons. It reads the properties of messages
itself (`spanwire.bridges.providers.mqtt.incoming`).

A session that another program has begun may hold messages of quality of service 2. The library answers PUBREC at once,
and the broker forgets the body then. Here PUBREC is the acknowledgement, so a killed bridge receives the message again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import aiomqtt
from paho.mqtt.client import MQTTErrorCode, MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.addresses import Place, Scheme, context_of, place_of
from spanwire.bridges.providers.inbox import MAX_OCTETS, Inbox
from spanwire.bridges.providers.mqtt.incoming import (
    LENGTH,
    QUALITY,
    IncomingProperties,
    MalformedError,
    without_properties,
)
from spanwire.bridges.providers.window import Window
from spanwire.model.errors import ConfigurationError, JmsError

SCHEMES: Final = {"mqtt": Scheme(1883, False), "mqtts": Scheme(8883, True)}
CONNECT_S: Final = 30.0  # seconds for connection and login
CLOSE_S: Final = 2.0  # seconds; a broker that is silent must not hold up the next attempt
KEEP_ALIVE_S: Final = 10  # seconds; a dead broker is noticed after twice the time
FOREVER: Final = 0xFFFFFFFF  # seconds of a session that does not expire
NO_SESSION: Final = 0  # seconds of a session that ends with its connection
WINDOW_S: Final = 60  # seconds that a session without a name outlives its connection, for the next window
REFUSED: Final = 0x80  # smallest reason of a refusal
AT_LEAST_ONCE: Final = 1  # quality of service
EXACTLY_ONCE: Final = 2  # quality of service
QUALITY_SHIFT: Final = 1  # bits before the quality of service in the first byte of a packet
WINDOW: Final = 100  # publications without an answer; the library looks at all of them for each further one
SHARED: Final = "$share/"  # beginning of a filter whose messages go to one of several subscribers
NOTHING: Final = "spanwire/nothing"  # a filter that nobody subscribes to
MAX_WAITING: Final = 10_000  # messages in the inbox; MQTT holds back only those of quality of service 1 and 2
MAX_REASON: Final = 300  # characters of an error
logger = logging.getLogger(__name__)
QUIET: Final = logging.getLogger(f"{__name__}.library")  # its errors are raised as well, and the bridge logs them


def address_of(factory: ConnectionFactory) -> Place:
    """Return the address of a factory. Raises `ConfigurationError`."""
    place = place_of(factory, SCHEMES)
    if place.path:
        raise ConfigurationError(f"{place.shown}: MQTT has no virtual hosts; write mqtt://host:port")
    return place


class MqttConnection(aiomqtt.Client):  # type: ignore[misc]
    """One connection. Received messages go to ``inbox``, and stay at the broker until `acknowledge`."""

    def __init__(
        self,
        factory: ConnectionFactory,
        client_id: str | None,
        session_s: int,
        window: Window,
        is_resumed: bool = False,
    ) -> None:
        """``session_s`` is the life of the session after the connection; ``is_resumed`` asks for an earlier session."""
        place = address_of(factory)
        wishes = Properties(PacketTypes.CONNECT)
        wishes.ReceiveMaximum = window.size
        wishes.SessionExpiryInterval = session_s
        QUIET.setLevel(logging.CRITICAL + 1)
        super().__init__(
            place.host,
            place.port,
            username=place.user_name,
            password=None if place.password is None else place.password.reveal(),
            identifier=client_id,
            protocol=aiomqtt.ProtocolVersion.V5,
            clean_start=not (is_resumed or session_s == FOREVER),
            properties=wishes,
            tls_context=context_of(factory, place),
            keepalive=KEEP_ALIVE_S,
            timeout=CONNECT_S,
            logger=QUIET,
        )
        self.place: Final[Place] = place
        self.window: Final[Window] = window
        self.client_id = client_id
        self._has_session = False  # the broker has the session of an earlier connection
        self._factory: Final[ConnectionFactory] = factory
        self._session_s: Final[int] = session_s
        self.inbox: Final[Inbox[MQTTMessage]] = Inbox()
        self.max_packet = math.inf  # bytes of a packet that the broker takes
        self._refusals: Final[dict[int, str]] = {}  # reasons by packet
        self._drops = False  # messages without a guarantee have been dropped
        self._incoming = IncomingProperties(b"")  # of the message that the library reads
        self._exactly_once: Final[set[int]] = set()  # received packets of quality of service 2 before their PUBREC
        self._read_publish: Final[Callable[[], MQTTErrorCode]] = self._client._handle_publish
        self._client._handle_publish = self._handle_publish
        self._client._handle_pubrel = self._handle_pubrel
        self._client.manual_ack_set(True)
        self.pending_calls_threshold = WINDOW

    async def open(self) -> None:
        """Connect and log in. Raises `JmsError`."""
        with self.translated():
            await self.__aenter__()
        self._disconnected.add_done_callback(self._on_lost)

    async def subscribe_to(self, topic: str) -> None:
        """Subscribe with quality of service 1, without our own publications. Raises `JmsError` for a refusal.

        MQTT 5, 3.8.3.1, forbids the option for a shared subscription.
        """
        wishes = SubscribeOptions(qos=AT_LEAST_ONCE, noLocal=not topic.startswith(SHARED))
        with self.translated():
            (reason,) = await self.subscribe(topic, options=wishes)
        if reason.value >= REFUSED:
            raise JmsError(f"{self.place.shown} refuses the subscription to {topic}: {reason}")

    async def acknowledge(self, messages: list[MQTTMessage]) -> None:
        """Acknowledge messages, and wait until the broker has read that.

        An acknowledgement has no answer, so a request without effect follows: the broker reads a connection in order.
        """
        count = sum(message.qos > 0 for message in messages)
        self.window.release(count)
        for message in messages:
            if message.mid in self._exactly_once:
                self._exactly_once.discard(message.mid)
                self._client._send_pubrec(message.mid)
            elif message.qos:
                self._client.ack(message.mid, message.qos)
        try:
            await self._finished(lambda: self.unsubscribe(NOTHING, timeout=math.inf))
        except asyncio.CancelledError:
            self.window.acknowledge(count)  # nobody acknowledges them again, and a closed window waits for that
            raise
        self.window.acknowledge(count)

    async def next_window(self, topic: str) -> MqttConnection:
        """Open the next window with a new connection of the same session: CONNECT alone names its size.

        The broker sends again all messages without an acknowledgement. This connection is closed then.
        """
        await self._leave()
        self.window.open_next()
        opened = MqttConnection(self._factory, self.client_id, self._session_s, self.window, is_resumed=True)
        await opened.open()
        if not opened._has_session:
            try:
                await opened.subscribe_to(topic)
            except BaseException:
                await opened.close()
                raise
        return opened

    async def publish_all(self, topic: str, packets: list[tuple[bytes, Properties]]) -> None:
        """Publish with quality of service 1, and wait for all answers. Raises `JmsError` for a refusal."""
        for start in range(0, len(packets), WINDOW):
            await self._finished(partial(self._publish_some, topic, packets[start : start + WINDOW]))
            if self._refusals:
                reasons = ", ".join(sorted(set(self._refusals.values())))
                self._refusals.clear()
                raise JmsError(f"{self.place.shown} refuses a message to {topic}: {reasons}")

    def _publish_some(self, topic: str, packets: list[tuple[bytes, Properties]]) -> asyncio.Future[Any]:
        return asyncio.gather(
            *(
                self.publish(topic, body, AT_LEAST_ONCE, properties=properties, timeout=math.inf)
                for body, properties in packets
            )
        )

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self.inbox.check()
        if self._disconnected.done():
            raise JmsError(f"the connection to {self.place.shown} was lost")

    async def close(self) -> None:
        """Close the connection, lost or not. A session without a name ends."""
        if self._session_s != FOREVER:
            end = Properties(PacketTypes.DISCONNECT)
            end.SessionExpiryInterval = NO_SESSION
            self._client.disconnect = partial(self._client.disconnect, properties=end)
        await self._leave()

    async def _leave(self) -> None:
        self.timeout = CLOSE_S
        with contextlib.suppress(aiomqtt.MqttError, OSError, RuntimeError):
            await self.__aexit__(None, None, None)

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Raise errors of the library as `JmsError`."""
        try:
            yield
        except (aiomqtt.MqttError, OSError, ValueError, RuntimeError) as error:
            text = " ".join(str(error).split())[:MAX_REASON]
            raise JmsError(f"{self.place.shown}: {text or type(error).__name__}") from None

    async def _finished(self, work: Callable[[], Any]) -> None:
        """Wait for requests, or for the loss of the connection."""
        self.check()
        task = asyncio.ensure_future(work())
        is_done = False
        try:
            await asyncio.wait((task, self._disconnected), return_when=asyncio.FIRST_COMPLETED)
            is_done = task.done()
        finally:
            if not is_done:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if not is_done:  # `task.cancelled()` is False for several requests: a gather ends with the error
            raise JmsError(f"the connection to {self.place.shown} was lost")
        with self.translated():
            task.result()

    def _on_lost(self, lost: asyncio.Future[None]) -> None:
        error = None if lost.cancelled() else lost.exception()
        reason = "the broker closed it" if error is None else " ".join(str(error).split())[:MAX_REASON]
        self.inbox.fail(JmsError(f"the connection to {self.place.shown} was lost: {reason}"))

    def _on_socket_register_write(self, client: Any, userdata: Any, sock: Any) -> None:
        """Wait for the socket, unless it has been closed until the event loop comes to it."""

        def register() -> None:
            if sock.fileno() >= 0:
                self._loop.add_writer(sock.fileno(), write)

        def write() -> None:
            try:
                client.loop_write()
            except Exception as error:  # noqa: BLE001 - as in the library: the connection is broken
                if not self._disconnected.done():
                    self._disconnected.set_exception(error)

        self._loop.call_soon_threadsafe(register)

    def _on_connect(self, client: Any, userdata: Any, flags: Any, reason_code: Any, properties: Any = None) -> None:
        limit = getattr(properties, "MaximumPacketSize", None)
        if limit is not None:
            self.max_packet = limit
        self._has_session = bool(flags.session_present)
        self.client_id = getattr(properties, "AssignedClientIdentifier", None) or self.client_id
        super()._on_connect(client, userdata, flags, reason_code, properties)

    def _handle_publish(self) -> MQTTErrorCode:
        """Let the library read a message without its properties, which are read here."""
        packet = self._client._in_packet
        try:
            self._incoming, packet["packet"] = without_properties(packet["command"], packet["packet"])
        except MalformedError as error:
            self.inbox.fail(JmsError(f"{self.place.shown}: {error}"))
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        if packet["command"] & QUALITY == EXACTLY_ONCE << QUALITY_SHIFT:  # the library answers 1 later, and 2 at once
            packet["command"] = packet["command"] & ~QUALITY | AT_LEAST_ONCE << QUALITY_SHIFT
            self._exactly_once.add(self._incoming.packet_id)
        return self._read_publish()

    def _handle_pubrel(self) -> MQTTErrorCode:
        """Answer PUBCOMP also for a message of an earlier connection: PUBREC has acknowledged the message."""
        (packet_id,) = LENGTH.unpack_from(self._client._in_packet["packet"])
        result: MQTTErrorCode = self._client._send_pubcomp(packet_id)
        return result

    def _on_message(self, client: Any, userdata: Any, message: MQTTMessage) -> None:
        if message.qos == 0 and (len(self.inbox) >= MAX_WAITING or self.inbox.octets >= MAX_OCTETS):
            if not self._drops:
                logger.warning(
                    "%s: messages of quality of service 0 come too fast, and some are lost", self.place.shown
                )
            self._drops = True
            return
        message.properties = self._incoming
        octets = len(message.payload) + self._incoming.octets
        if message.qos == 0 or self.window.admit(octets, self.inbox.octets):
            self.inbox.put(message, octets)

    def _on_publish(self, client: Any, userdata: Any, mid: int, reason_code: Any, properties: Any) -> None:
        if reason_code.value >= REFUSED:
            self._refusals[mid] = str(reason_code)
        super()._on_publish(client, userdata, mid, reason_code, properties)
