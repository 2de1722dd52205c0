"""A subscription of a STOMP client: its options and its MESSAGE frames.

See STOMP 1.2, "SUBSCRIBE" and "MESSAGE".

A message in memory is its future MESSAGE frame (``layout.py``). A dispatch adds a prefix, constant per subscription,
and in 1.2 the `ack` header. Only some parts depend on the version or the connection and are encoded again: all message
ids in 1.0, escapes that 1.0 and 1.1 lack, and names of temporary destinations.

The `ack` value consists of the numbers of the subscription and of the dispatch (`InFlight`), so a dispatch needs no
memory and an acknowledgement no search.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import MessageConsumer
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, MessageFormatError
from spanwire.model.message import FORMAT_STOMP, Message
from spanwire.model.message_view import MAP, PLAIN, STRING_VALUE, TEXT, MessageView
from spanwire.protocols.stomp.bodies.advisories import ADVISORY_TRANSFORMATIONS
from spanwire.protocols.stomp.bodies.map_body import read_map
from spanwire.protocols.stomp.bodies.transformation import (
    MAP_TRANSFORMATIONS,
    MAPS_AS,
    TRANSFORMATION,
    check_asked,
    map_text,
)
from spanwire.protocols.stomp.codec.encoding import encode_frame, encode_headers, encode_writable
from spanwire.protocols.stomp.codec.errors import StompRequestError, error_frame
from spanwire.protocols.stomp.codec.frames import MESSAGE, V1_0, V1_1, V1_2
from spanwire.protocols.stomp.destinations import DestinationNames
from spanwire.protocols.stomp.layout import (
    FLAG_BITS,
    HAS_ESCAPES,
    HAS_RETURN,
    HAS_TEMPORARY,
    head_of,
    reply_to_of,
    tail_of,
)

AUTO: Final = 0
CLIENT: Final = 1  # an ACK acknowledges all messages up to its own
CLIENT_INDIVIDUAL: Final = 2
ACK_MODES: Final[dict[str, int]] = {"auto": AUTO, "client": CLIENT, "client-individual": CLIENT_INDIVIDUAL}

DEFAULT_PREFETCH: Final = 1_000
MAX_OPTION_DIGITS: Final = 9  # digits of an activemq.* number
DURABLE_HEADERS: Final = ("activemq.subscriptionName", "activemq.subcriptionName", "durable-subscription-name")
CONVERTING: Final = "convert_string_expressions:"  # lets a selector compare strings with numbers
ENDS: Final = [b"%02d\n" % number for number in range(100)]  # ends of `ack` lines
REDELIVERED: Final = b"redelivered:true\n"


class SubscribeOptions:
    """The parsed headers of a SUBSCRIBE; raises `StompRequestError` for invalid headers."""

    def __init__(self, headers: dict[str, str], version: int) -> None:
        destination = headers.get("destination")
        if destination is None:
            raise StompRequestError("SUBSCRIBE received without a Destination specified!")
        self.id: Final[str | None] = headers.get("id")
        if self.id is None and version != V1_0:
            raise StompRequestError("SUBSCRIBE received without a subscription id!")
        self.durable_name: Final[str | None] = durable_name(headers)
        self.transformation: Final[str | None] = headers.get("transformation")
        check_asked(self.transformation)
        self.destination: Final[str] = destination
        self.ack_mode: Final[int] = ACK_MODES.get(headers.get("ack", "auto"), AUTO)
        selector = headers.get("selector")
        self.selector: Final[str | None] = None if selector is None else CONVERTING + selector
        self.browser: Final[bool] = headers.get("browser") == "true"
        self.no_local: Final[bool] = headers.get("activemq.noLocal") == "true"
        self.exclusive: Final[bool] = headers.get("activemq.exclusive") == "true"
        self.retroactive: Final[bool] = headers.get("activemq.retroactive") == "true"
        self.prefetch_size: Final[int] = option_number(headers, "activemq.prefetchSize", DEFAULT_PREFETCH)
        self.priority: Final[int] = option_number(headers, "activemq.priority", 0)
        self.maximum_pending: Final[int] = option_number(headers, "activemq.maximumPendingMessageLimit", 0)


def durable_name(headers: dict[str, str]) -> str | None:
    """Return the name of the durable subscription of a SUBSCRIBE or UNSUBSCRIBE.

    Returns None for other subscriptions.
    """
    for header in DURABLE_HEADERS:
        if header in headers:
            return headers[header]
    return None


def option_number(headers: dict[str, str], name: str, default: int) -> int:
    """Return a numeric option; raises `StompRequestError` for any other text."""
    text = headers.get(name)
    if text is None:
        return default
    text = text.strip()
    digits = text[1:] if text.startswith("-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > MAX_OPTION_DIGITS:
        raise StompRequestError(f"the {name} header is not a number: {text[:40]}")
    return int(text)


class StompSubscription(MessageConsumer):
    """Writes MESSAGE frames into its connection's output; ``broker_side`` is the broker's subscription.

    The connection handles acknowledgements.
    """

    def __init__(
        self,
        number: int,
        options: SubscribeOptions,
        destination: Destination,
        version: int,
        chunks: list[bytes],
        names: DestinationNames,
        formats: MessageFormats,
    ) -> None:
        self.number: Final[int] = number
        self.id: Final[str | None] = options.id
        self.ack_mode: Final[int] = options.ack_mode
        self.destination: Final[Destination] = destination
        self.broker_side: Subscription | None = None
        self._version: Final[int] = version
        self._chunks: Final[list[bytes]] = chunks
        self._names: Final[DestinationNames] = names
        self._formats: Final[MessageFormats] = formats
        headers: list[tuple[str, str]] = []
        if options.id is not None:
            headers.append(("subscription", options.id))
        asked = options.transformation
        self._map_form: Final[str | None] = None if asked is None else MAPS_AS.get(asked)
        self._advisory_form: Final[str | None] = None if asked is None else ADVISORY_TRANSFORMATIONS.get(asked)
        plain = headers.copy()
        for_maps = headers.copy()
        if asked is not None:
            headers.append(("transformation", asked))
            for_maps.append(("transformation", MAP_TRANSFORMATIONS.get(asked, asked)))
        self._prefix: Final[bytes] = b"MESSAGE\n" + encode_headers(headers, version)
        self._redelivered_prefix: Final[bytes] = self._prefix + REDELIVERED
        self._map_prefix: Final[bytes] = b"MESSAGE\n" + encode_headers(for_maps, version)
        self._plain_prefix: Final[bytes] = b"MESSAGE\n" + encode_headers(plain, version)
        self._gives_ack_ids: Final[bool] = version == V1_2 and options.ack_mode != AUTO
        self._ack_start = b""
        self._hundreds: i64 = -1  # in the numbers of the dispatches to which ``_ack_start`` belongs
        self._rewritten_flags: Final[int] = HAS_TEMPORARY | (HAS_RETURN if version == V1_1 else 0)

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Write a MESSAGE frame; the body is shared, not copied."""
        prefix = self._prefix if redelivery_count == 0 else self._redelivered_prefix
        if self._map_form is not None:
            as_text = self._map_as_text(message, self._map_form)
            if as_text is not None:
                message = as_text
                prefix = self._map_prefix if redelivery_count == 0 else self._map_prefix + REDELIVERED
        if message.format_id != FORMAT_STOMP:
            if self._advisory_form is not None and message.destination.is_advisory:
                prefix = self._plain_prefix if redelivery_count == 0 else self._plain_prefix + REDELIVERED
                message = self._advisory(message, self._advisory_form)
            else:
                message = self._converted(message)
        chunks = self._chunks
        raw = message.raw
        head = message.head
        if self._version == V1_0:
            self._dispatch_plain(prefix, message)
            return
        chunks.append(prefix)
        if self._gives_ack_ids:
            self._write_ack_id(chunks)
        if message.format_index & self._rewritten_flags:
            chunks.append(self._rewritten(message))
            chunks.append(raw[message.content_start : message.tail_start])
        elif head is not None:
            chunks.append(head)
            chunks.append(raw[message.content_start : message.tail_start])
        elif message.tail_start == len(raw):
            chunks.append(raw)
        else:
            chunks.append(raw[: message.tail_start])

    def _write_ack_id(self, chunks: list[bytes]) -> None:
        """Write the `ack` header of the current dispatch.

        The header consists of two existing parts, one of a hundred dispatches and the last two digits: a new line for
        each message takes four times as long.
        """
        broker_side = self.broker_side
        assert broker_side is not None  # a consumer is dispatched to after its start
        number: i64 = broker_side.in_flight.newest_number
        hundreds: i64 = number // 100
        if hundreds != self._hundreds:
            self._hundreds = hundreds
            self._ack_start = b"ack:%d-%d" % (self.number, hundreds)
        chunks.append(self._ack_start)
        chunks.append(ENDS[number - hundreds * 100])

    def dispatch_end(self) -> None:
        """Write the frame for the end of a browse."""
        headers = [("subscription", self.id)] if self.id is not None else []
        headers += [("browser", "end"), ("destination", self._names.text(self.destination)), ("message-id", "0")]
        self._chunks.append(encode_frame(MESSAGE, headers, b"", self._version))

    def close(self, reason: JmsError) -> None:
        """Write an ERROR frame after the broker has ended the subscription."""
        self._chunks.append(error_frame(reason, None, self._version))

    def switch_to_pull(self) -> bool:
        """Return False, because STOMP has no pull."""
        return False

    def _dispatch_plain(self, prefix: bytes, message: Message) -> None:
        """Write a MESSAGE frame of 1.0, which has no escapes, so that at least the message id differs."""
        raw = message.raw
        if message.format_index & (HAS_ESCAPES | HAS_TEMPORARY):
            head = self._rewritten(message)
        else:
            identity = encode_writable([("message-id", str(message.message_id))], V1_0)
            changed_head = message.head
            rest = changed_head if changed_head is not None else raw[: message.content_start]
            head = identity + rest[(message.format_index >> FLAG_BITS) + 1 :]
        self._chunks.append(prefix + head)
        self._chunks.append(raw[message.content_start : message.tail_start])

    def _rewritten(self, message: Message) -> bytes:
        """Return the head of a message for the version and the names of this connection."""
        headers = head_of(message)
        if message.format_index & HAS_TEMPORARY:
            if "destination" not in tail_of(message):
                headers["destination"] = self._names.text(message.destination)
            reply_to = reply_to_of(headers)
            if reply_to is not None:
                headers["reply-to"] = self._names.text(reply_to)
        return encode_writable(list(headers.items()), self._version) + b"\n"

    def _map_as_text(self, message: Message, map_form: str) -> Message | None:
        """Return a map with its entries as text; None for any other message.

        A message in STOMP's format is a map only if it was sent with a `transformation`.
        """
        if message.format_id == FORMAT_STOMP and TRANSFORMATION not in head_of(message):
            return None
        try:
            view = self._formats.view(message)
            if view.kind != MAP:
                return None
            view.body = map_text(read_map(view.body if view.body is not None else b""), map_form)
        except MessageFormatError:
            return None
        view.kind = TEXT
        view.properties.pop(TRANSFORMATION, None)
        return self._formats.format(FORMAT_STOMP).encode_from_view(view)

    def _advisory(self, message: Message, form: str) -> Message:
        """Return an advisory with the command in the form for the client."""
        try:
            view = self._formats.view(message)
            view.properties[TRANSFORMATION] = (STRING_VALUE, form)
            return self._formats.format(FORMAT_STOMP).encode_from_view(view)
        except MessageFormatError:
            return self._converted(message)

    def _converted(self, message: Message) -> Message:
        """Convert a message of another protocol.

        An undecodable message becomes empty and has the error as a property.
        """
        try:
            return self._formats.converted(message, FORMAT_STOMP)
        except MessageFormatError as error:
            view = MessageView(PLAIN, message.destination, message.message_id)
            view.persistent = message.persistent
            view.priority = message.priority
            view.expiration_ms = message.expiration_ms
            view.timestamp_ms = message.timestamp_ms
            view.properties["transformation-error"] = (STRING_VALUE, str(error))
            return self._formats.format(FORMAT_STOMP).encode_from_view(view)
