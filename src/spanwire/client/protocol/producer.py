"""Producer of the client core: encoding of messages, and waits for responses (JMS 1.1 §4.6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spanwire.client.addressing.options import ClientSettings
from spanwire.client.messages.message_encoder import (
    NULL,
    Envelope,
    MessageEncoder,
    Outgoing,
    nested_octets,
    property_octets,
    type_id_of,
)
from spanwire.client.messages.message_template import MessageTemplate
from spanwire.client.protocol.response_correlator import Request, ResponseCorrelator
from spanwire.client.protocol.transaction import LocalTransaction
from spanwire.client.protocol.transport.link import Link
from spanwire.model.destination import Destination
from spanwire.model.errors import IllegalStateError, InvalidDestinationError, MessageFormatError
from spanwire.model.written_destination import written_destination
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.messages.identities import wire_destination

MAX_PRIORITY: Final = 9
MAX_REMEMBERED: Final = 256  # encoded destinations of one producer; the cache is cleared when full
MAX_TIME_TO_LIVE_MS: Final = 2**53
SOONEST_MS: Final = 1  # milliseconds; an expired message is sent, so that the broker handles its expiry
NOT_POSTED: Final = -1
PERSISTENT: Final = 1 << 12  # bit of a template's key, beside the message type (0 to 255)
OWN_PRIORITY: Final = 1 << 16  # unit of a template's key: priority + 1 if it is not the producer's


@dataclass(frozen=True)
class SendDefaults:
    """Delivery mode, priority and time to live of messages without these arguments."""

    persistent: bool = True
    priority: int = 4
    time_to_live_ms: int = 0


class ClientProducer:
    """A producer of a session.

    `post` is the fast path for sends without a response, `send` handles all sends.

    With a window (``jms.producerWindowSize``) the broker acknowledges one-way messages with ProducerAck. A send waits
    for the response while the window is full, so that a broker without memory blocks the producer and not the
    connection.
    """

    def __init__(
        self,
        correlator: ResponseCorrelator,
        transaction: LocalTransaction,
        producer_id: wire.ProducerId,
        destination: Destination | None,
        defaults: SendDefaults,
        settings: ClientSettings,
    ) -> None:
        check_priority(defaults.priority)
        check_time_to_live(defaults.time_to_live_ms)
        self.number: Final[int] = producer_id.value
        self.session: Final[int] = producer_id.session_id
        self.destination: Final[Destination | None] = destination
        self.is_closed = False
        self.posted = 0  # index behind the last message that `post_all` encoded
        self._announced: Request | None = None
        self._correlator: Final[ResponseCorrelator] = correlator
        self._transaction: Final[LocalTransaction] = transaction
        self._id: Final[wire.ProducerId] = producer_id
        self._id_octets: Final[bytes] = nested_octets(producer_id)
        self._defaults: Final[SendDefaults] = defaults
        self._settings: Final[ClientSettings] = settings
        self._sent = 0
        self._octets: Final[dict[str, bytes]] = {}
        self._last_destination: Destination | str | None = None
        self._last_octets = b""
        self._own_octets: Final[bytes] = b"" if destination is None else nested_octets(wire_destination(destination))
        self._encoder = MessageEncoder(12, settings.use_compression, settings.nested_values)
        self._window_bytes: Final[int] = settings.producer_window_bytes
        self._in_window: deque[int] | None = None  # sizes of messages without a ProducerAck
        self._in_window_bytes = 0
        self._always_waits: Final[bool] = settings.always_sync_send or settings.send_timeout_ms > 0
        self._is_plain: Final[bool] = not settings.use_compression and self._window_bytes == 0 and not correlator.caches
        self._template: MessageTemplate | None = None
        self._template_key = 0
        self._template_transaction = NULL
        self._template_destination = b""

    def announcement(self) -> wire.ProducerInfo:
        """Return the ProducerInfo, and empty the window.

        Messages of an earlier link get no ProducerAck any more.
        """
        destination = None if self.destination is None else wire_destination(self.destination)
        self._in_window = None
        self._in_window_bytes = 0
        return wire.ProducerInfo(
            producer_id=self._id,
            destination=destination,
            dispatch_async=self._settings.dispatch_async,
            window_size=self._window_bytes,
        )

    def announce(self) -> Request:
        """Announce the producer. The broker may refuse."""
        request = self._correlator.request(self.announcement(), owner=self.session)
        self._announced = request
        return request

    @property
    def is_announced(self) -> bool:
        """True after the broker has accepted the producer."""
        request = self._announced
        return request is not None and request.done and not request.is_refused

    @property
    def is_refused(self) -> bool:
        """True after the broker has refused the producer."""
        request = self._announced
        return request is not None and request.is_refused

    @property
    def last_message_id(self) -> str | None:
        """JMS message id of the last message, or None before the first one."""
        if self._sent == 0:
            return None
        return f"{self._id.connection_id}:{self._id.session_id}:{self._id.value}:{self._sent}"

    def post(
        self,
        body: object,
        properties: Mapping[str, object] | bytes | None,
        destination: Destination | str | None,
        message_type: str | None,
        correlation_id: str | None,
        reply_to: Destination | str | None,
        persistent: bool | None,
        priority: int | None,
        time_to_live_ms: int | None,
        group_id: str | None,
        group_sequence: int,
        wait: bool | None,
        wall_ms: int,
    ) -> int:
        """Encode a message without a response, by the fast path.

        Returns:
            The bytes to write, or `NOT_POSTED` if the caller must use `send`; the message is untouched then.

        Raises:
            JmsError: The message cannot be sent.
        """
        correlator = self._correlator
        link = correlator.link
        if wait or link is None or not correlator.is_online or self.is_closed:
            return NOT_POSTED
        is_persistent = self._defaults.persistent if persistent is None else persistent
        if wait is None and self._waits(is_persistent, self._transaction.is_transacted):
            return NOT_POSTED
        if (
            destination is None
            and message_type is None
            and correlation_id is None
            and reply_to is None
            and priority is None
            and time_to_live_ms is None
            and group_id is None
            and group_sequence == 0
            and self._append_plain(link, body, properties, is_persistent, wall_ms)
        ):
            return len(link.output)
        outgoing = Outgoing(
            body,
            properties,
            destination,
            message_type,
            correlation_id,
            reply_to,
            persistent,
            priority,
            time_to_live_ms,
            group_id,
            group_sequence,
        )
        self.send(outgoing, False, wall_ms)
        return len(link.output)

    def post_all(self, messages: list[Outgoing], start: int, limit: int, wall_ms: int) -> int:
        """Encode messages from index ``start`` on as `post` does, until ``limit`` bytes wait to be written.

        Returns:
            The index of the first message not encoded: the end, the limit is reached, or `send` is needed.

        Raises:
            JmsError: The message at the index `posted` cannot be sent.
        """
        correlator = self._correlator
        index = start
        self.posted = start
        while index < len(messages):
            link = correlator.link
            if link is None or not correlator.is_online or self.is_closed or len(link.output) >= limit:
                break
            outgoing = messages[index]
            persistent = self._defaults.persistent if outgoing.persistent is None else outgoing.persistent
            if self._waits(persistent, self._transaction.is_transacted):
                break
            if not self._append_addressed(link, outgoing, persistent, wall_ms):
                self.send(outgoing, False, wall_ms)
            index += 1
            self.posted = index
        return index

    def _is_ready(self, link: Link) -> bool:
        """Return True if messages can be encoded with a template."""
        transaction = self._transaction
        if not self._is_plain or not link.passes_messages or transaction.is_broken or self._correlator.deleted:
            return False
        return not transaction.is_replayable and link.wire_format.version == self._encoder.version

    def _append_plain(
        self, link: Link, body: object, properties: Mapping[str, object] | bytes | None, persistent: bool, wall_ms: int
    ) -> bool:
        """Encode a message with the producer's defaults. Returns False if the message needs `send`."""
        if not self._own_octets or not self._is_ready(link):
            return False
        type_id = type_id_of(body)
        content = self._encoder.content(type_id, body)
        octets = property_octets(properties, body)
        transaction = self._transaction
        transaction.begin()
        template = self._template
        key = type_id + PERSISTENT if persistent else type_id
        if template is None or key != self._template_key or self._template_transaction != transaction.octets:
            template = self._prepare(key, type_id, self._own_octets, persistent, self._defaults.priority)
        return self._append(link, template, content, octets, self._defaults.time_to_live_ms, wall_ms)

    def _append_addressed(self, link: Link, outgoing: Outgoing, persistent: bool, wall_ms: int) -> bool:
        """Encode a message with a separate destination, priority and time to live.

        Returns False for a message to be sent by `send`.
        """
        if not outgoing.is_plain or not self._is_ready(link):
            return False
        defaults = self._defaults
        destination = self._destination_octets(outgoing)
        priority = defaults.priority if outgoing.priority is None else outgoing.priority
        time_to_live_ms = lives_ms(outgoing, defaults.time_to_live_ms, wall_ms)
        check_priority(priority)
        check_time_to_live(time_to_live_ms)
        body = outgoing.body
        type_id = type_id_of(body)
        content = self._encoder.content(type_id, body)
        octets = property_octets(outgoing.properties, body)
        transaction = self._transaction
        transaction.begin()
        template = self._template
        key = type_id + PERSISTENT if persistent else type_id
        if priority != defaults.priority:
            key += OWN_PRIORITY * (priority + 1)
        if (
            template is None
            or key != self._template_key
            or self._template_transaction != transaction.octets
            or self._template_destination != destination
        ):
            template = self._prepare(key, type_id, destination, persistent, priority)
        return self._append(link, template, content, octets, time_to_live_ms, wall_ms)

    def _append(
        self,
        link: Link,
        template: MessageTemplate,
        content: bytes | None,
        properties: bytes,
        time_to_live_ms: int,
        wall_ms: int,
    ) -> bool:
        """Write the frame. Returns False, without effect, if the frame exceeds the broker's limit."""
        size = template.size(content, properties)
        limit = link.wire_format.max_frame_size
        if size > limit > 0:
            return False
        expires_ms = wall_ms + time_to_live_ms if time_to_live_ms > 0 else 0
        timestamp_ms = wall_ms if self._settings.timestamps else 0
        self._sent += 1
        output = link.output  # all values are checked before, because half a frame would end the connection
        template.write(output, size, self._sent, expires_ms, timestamp_ms, content)
        template.finish(output, properties)
        return True

    def _prepare(self, key: int, type_id: int, destination: bytes, persistent: bool, priority: int) -> MessageTemplate:
        octets = self._transaction.octets
        addressed = self._id_octets + destination + octets
        template = self._encoder.template(type_id, addressed, self._id_octets, persistent, priority)
        self._template = template
        self._template_destination = destination
        self._template_key = key
        self._template_transaction = octets
        return template

    def send(self, outgoing: Outgoing, wait: bool | None, wall_ms: int) -> Request | None:
        """Send one message. Returns None if there is no response to wait for.

        Raises:
            JmsError: The message cannot be sent, or the producer or connection is closed.
        """
        if self.is_closed:
            raise IllegalStateError("the producer is closed")
        correlator = self._correlator
        correlator.check_open()
        envelope = self._envelope(outgoing, wall_ms)
        in_transaction = self._transaction.is_transacted
        answered = wait if wait is not None else self._waits(envelope.persistent, in_transaction)
        number = correlator.next_number() if answered else 0
        encoder = self._encoder
        if encoder.version != correlator.version:
            encoder = MessageEncoder(correlator.version, self._settings.use_compression, self._settings.nested_values)
            self._encoder = encoder
            self._template = None
        raw = encoder.octets(outgoing, envelope, number, answered)
        if in_transaction and self._transaction.is_broken:
            return None  # the commit fails anyway
        if self._window_bytes > 0 and not answered and correlator.is_online:
            if self._in_window is None:  # an empty one takes 640 bytes, of each of a thousand idle bridges
                self._in_window = deque()
            self._in_window.append(len(raw))
            self._in_window_bytes += len(raw)
        request = correlator.send_message(raw, number, self.session, in_transaction)
        if self._transaction.is_replayable:
            self._transaction.keep(raw, encoder.version, number, self.number)
        return request

    def acknowledged(self) -> None:
        """Remove the oldest message from the window: the broker has accepted or refused the message."""
        if self._in_window:
            self._in_window_bytes -= self._in_window.popleft()

    def _envelope(self, outgoing: Outgoing, wall_ms: int) -> Envelope:
        destination = self._destination_octets(outgoing)
        defaults = self._defaults
        priority = defaults.priority if outgoing.priority is None else outgoing.priority
        if priority != defaults.priority:
            check_priority(priority)
        time_to_live_ms = lives_ms(outgoing, defaults.time_to_live_ms, wall_ms)
        check_time_to_live(time_to_live_ms)
        reply_to = outgoing.reply_to
        if self._correlator.deleted:
            self._check_exists(outgoing)
        self._transaction.begin()
        self._sent += 1
        envelope = Envelope(self._id_octets, self._sent, destination, self._transaction.octets)
        envelope.persistent = defaults.persistent if outgoing.persistent is None else outgoing.persistent
        envelope.priority = priority
        envelope.timestamp_ms = wall_ms if self._settings.timestamps else 0
        envelope.expiration_ms = wall_ms + time_to_live_ms if time_to_live_ms > 0 else 0
        if reply_to is not None:
            envelope.reply_to = self._octets_of(reply_to)
        return envelope

    def _check_exists(self, outgoing: Outgoing) -> None:
        """Raise `InvalidDestinationError` for a temporary destination reported as deleted by the broker."""
        named = self.destination if outgoing.destination is None else outgoing.destination
        target = written_destination(named) if isinstance(named, str) else named
        if target is not None and target.qualified_name in self._correlator.deleted:
            raise InvalidDestinationError(f"{target} has been deleted")

    def _waits(self, persistent: bool, in_transaction: bool) -> bool:
        if self._always_waits:
            return True
        if self._window_bytes > 0 and self._in_window_bytes >= self._window_bytes:
            return True
        return persistent and not in_transaction and not self._settings.use_async_send

    def _destination_octets(self, outgoing: Outgoing) -> bytes:
        own = self._own_octets
        named = outgoing.destination
        if named is None:
            if not own:
                raise InvalidDestinationError("the producer has no destination; name one for each message")
            return own
        if own:
            raise IllegalStateError(
                f"the producer sends to {self.destination}; only one without a destination may choose"
            )
        return self._octets_of(named)

    def _octets_of(self, destination: Destination | str) -> bytes:
        if destination is self._last_destination:
            return self._last_octets
        key = destination if isinstance(destination, str) else destination.qualified_name
        octets = self._octets.get(key)
        if octets is None:
            parsed = written_destination(destination) if isinstance(destination, str) else destination
            octets = nested_octets(wire_destination(parsed))
            if len(self._octets) >= MAX_REMEMBERED:
                self._octets.clear()
            self._octets[key] = octets
        self._last_destination = destination
        self._last_octets = octets
        return octets

    def close(self) -> Request | None:
        """Close the producer. Returns None if the broker need not be told."""
        if self.is_closed:
            return None
        self.is_closed = True
        return self._correlator.remove(wire.RemoveInfo(object_id=self._id), self.session)


def check_priority(priority: int) -> None:
    """Raise `MessageFormatError` for an invalid JMS priority."""
    if not isinstance(priority, int) or not 0 <= priority <= MAX_PRIORITY:
        raise MessageFormatError(f"a priority is 0 to {MAX_PRIORITY}, not {priority}")


def check_time_to_live(time_to_live_ms: int) -> None:
    """Raise `MessageFormatError` for a negative, too long or fractional number of milliseconds."""
    if not isinstance(time_to_live_ms, int) or not 0 <= time_to_live_ms <= MAX_TIME_TO_LIVE_MS:
        raise MessageFormatError(f"a time to live of {time_to_live_ms} ms is not possible; 0 means no expiry")


def lives_ms(outgoing: Outgoing, default_ms: int, wall_ms: int) -> int:
    """Return the time to live of a message sent now, in milliseconds; 0 for no expiry."""
    end_ms = outgoing.expires_at_ms
    if end_ms is not None:
        return max(SOONEST_MS, min(end_ms - wall_ms, MAX_TIME_TO_LIVE_MS))
    named_ms = outgoing.time_to_live_ms
    return default_ms if named_ms is None else named_ms
