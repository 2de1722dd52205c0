"""Encodes columns as messages to send; the inverse of `spanwire.pipeline.columns.column_decoder`.

`spanwire.pipeline.arrow.rows` takes the columns from Arrow, `spanwire.pipeline.columns.property_maps` encodes the
properties. Texts remain octets unless Java's modified UTF-8 differs from UTF-8.
"""

from __future__ import annotations

from typing import Final

from spanwire.client.messages.message_encoder import Outgoing, text_octets
from spanwire.client.messages.typed_values import EncodedText, Serialized
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError, InvalidDestinationError
from spanwire.model.message_view import LIST_VALUE, MAP_VALUE
from spanwire.model.written_destination import written_destination
from spanwire.pipeline.columns.body_types import (
    BYTES_BODY,
    MAP_BODY,
    MESSAGE_BODY,
    OBJECT_BODY,
    STREAM_BODY,
    TEXT_BODY,
    UNREADABLE,
)
from spanwire.pipeline.columns.column_view import ColumnView, is_plain_text
from spanwire.pipeline.columns.destinations import MAX_PRIORITY, target_destination
from spanwire.pipeline.columns.property_maps import client_value, decode_value

MAX_KNOWN_TARGETS: Final = 1024  # cached destinations; rows of one batch may name many
DELIVERY_MODES: Final[dict[str, bool]] = {"PERSISTENT": True, "NON_PERSISTENT": False}
TEXT_OCTETS: Final = TEXT_BODY.encode()
TEMPORARY: Final = ("temp-queue://", "temp-topic://")


class OutgoingColumns:
    """Columns of some rows; ``None`` stands for a column that is missing or null in all rows."""

    def __init__(self, count: int) -> None:
        self.count: Final[int] = count
        self.texts: ColumnView | None = None  # in UTF-8
        self.bytes: ColumnView | None = None
        self.bodies: ColumnView | None = None  # VARIANTs
        self.body_metadata: ColumnView | None = None
        self.body_types: ColumnView | None = None
        self.properties: list[bytes] | None = None
        self.destinations: list[str | None] | None = None
        self.correlation_ids: list[str | None] | None = None
        self.types: list[str | None] | None = None
        self.reply_tos: list[str | None] | None = None
        self.groups: list[str | None] | None = None
        self.group_sequences: list[int | None] | None = None
        self.priorities: list[int | None] | None = None
        self.modes: list[str | None] | None = None
        self.expirations: list[int | None] | None = None  # microseconds since 1970

    @property
    def has_headers(self) -> bool:
        """Return True if a message needs more than body, properties and destination."""
        return (
            self.correlation_ids is not None
            or self.types is not None
            or self.reply_tos is not None
            or self.groups is not None
            or self.group_sequences is not None
            or self.priorities is not None
            or self.modes is not None
            or self.expirations is not None
        )


class ColumnEncoder:
    """Makes messages for one destination, or for the destination that each row names."""

    def __init__(self, destination: Destination | None, drop_temporary_reply: bool = False) -> None:
        """Send to ``destination``, or to the destination of each row if ``None``.

        With ``drop_temporary_reply`` a temporary JMSReplyTo is left out, because a temporary destination exists only at
        its own broker and only until its connection ends.
        """
        self._drop_temporary_reply: Final[bool] = drop_temporary_reply
        self._destination: Final[Destination | None] = destination
        self._targets: Final[dict[str, Destination]] = {}
        self._replies: Final[set[str]] = set()  # values of JMSReplyTo that were checked

    def encode(self, columns: OutgoingColumns) -> list[Outgoing]:
        """Return the messages in order.

        Raises:
            ConfigurationError: a value has no JMS form.
            MessageFormatError: a property or body has no wire form.
        """
        has_headers = columns.has_headers
        maps = columns.properties
        messages: list[Outgoing] = []
        for row in range(columns.count):
            body = _body(columns, row)
            properties = b"" if maps is None else maps[row]
            destination = self._destination
            if destination is None:
                destination = self._target_of(columns.destinations, row)
            if has_headers:
                reply_to = self._reply_to(_text(columns.reply_tos, row))
                messages.append(_with_headers(columns, row, body, properties, destination, reply_to))
            else:
                messages.append(Outgoing(body, properties, destination))
        return messages

    def _reply_to(self, name: str | None) -> str | None:
        if name is None or (self._drop_temporary_reply and name.startswith(TEMPORARY)):
            return None
        if name not in self._replies:
            try:
                written_destination(name)
            except InvalidDestinationError as error:
                raise ConfigurationError(f"spanwire: JMSReplyTo: {error}") from None
            if len(self._replies) >= MAX_KNOWN_TARGETS:
                self._replies.clear()
            self._replies.add(name)
        return name

    def _target_of(self, names: list[str | None] | None, row: int) -> Destination:
        name = None if names is None else names[row]
        if name is None:
            raise ConfigurationError("spanwire: a row has no JMSDestination and there is no option destination")
        target = self._targets.get(name)
        if target is None:
            if len(self._targets) >= MAX_KNOWN_TARGETS:
                self._targets.clear()
            target = target_destination(name)
            self._targets[name] = target
        return target


def _with_headers(
    columns: OutgoingColumns, row: int, body: object, properties: bytes, destination: Destination, reply_to: str | None
) -> Outgoing:
    micros = _number(columns.expirations, row)
    sequence = _number(columns.group_sequences, row)
    return Outgoing(
        body,
        properties,
        destination,
        _text(columns.types, row),
        _text(columns.correlation_ids, row),
        reply_to,
        _is_persistent(_text(columns.modes, row)),
        _priority(_number(columns.priorities, row)),
        None,
        _text(columns.groups, row),
        0 if sequence is None else sequence,
        None if micros is None else micros // 1000,
    )


def _is_persistent(mode: str | None) -> bool | None:
    if mode is None:
        return None
    is_persistent = DELIVERY_MODES.get(mode)
    if is_persistent is None:
        raise ConfigurationError(f"spanwire: JMSDeliveryMode is {mode!r}, neither PERSISTENT nor NON_PERSISTENT")
    return is_persistent


def _priority(priority: int | None) -> int | None:
    if priority is not None and not 0 <= priority <= MAX_PRIORITY:
        raise ConfigurationError(f"spanwire: JMSPriority is {priority}; it must lie between 0 and {MAX_PRIORITY}")
    return priority


def _text(column: list[str | None] | None, row: int) -> str | None:
    return None if column is None else column[row]


def _number(column: list[int | None] | None, row: int) -> int | None:
    return None if column is None else column[row]


def _body(columns: OutgoingColumns, row: int) -> object:
    """Return the body as the client takes it: a text, bytes, dict, list, Java object or ``None``."""
    body_type = _octets(columns.body_types, row)
    if body_type is None:
        return _single_body(columns, row)
    if body_type == TEXT_OCTETS:
        return _text_body(columns, row)
    kind = body_type.decode("utf-8", "replace")
    if kind == BYTES_BODY:
        return _octets(columns.bytes, row) or b""
    if kind == MAP_BODY or kind == STREAM_BODY:
        return _structured_body(columns, row, kind)
    if kind == OBJECT_BODY:
        return Serialized(_octets(columns.bytes, row) or b"")
    if kind == MESSAGE_BODY:
        return None
    if kind == UNREADABLE:
        raise ConfigurationError(
            "spanwire: a body that could not be read cannot be sent; filter such rows out, or give a route a deadLetter"
        )
    raise ConfigurationError(f"spanwire: body_type is {kind!r}, not text, bytes, map, stream, object or message")


def _single_body(columns: OutgoingColumns, row: int) -> object:
    """Return the body from the only body column with a value, for a row without ``body_type``."""
    names: list[str] = []
    if _has_value(columns.texts, row):
        names.append("text")
    if _has_value(columns.bytes, row):
        names.append("bytes")
    if _has_value(columns.bodies, row):
        names.append("body")
    if len(names) > 1:
        raise ConfigurationError(f"spanwire: a row has {' and '.join(names)}; leave one of them null or add body_type")
    if not names:
        return None
    if names[0] == "text":
        return _text_body(columns, row)
    return _octets(columns.bytes, row) if names[0] == "bytes" else _structured_body(columns, row, None)


def _has_value(column: ColumnView | None, row: int) -> bool:
    return column is not None and not column.is_null(row)


def _octets(column: ColumnView | None, row: int) -> bytes | None:
    return None if column is None or column.is_null(row) else column.at(row)


def _text_body(columns: OutgoingColumns, row: int) -> EncodedText:
    octets = _octets(columns.texts, row)
    if octets is None or is_plain_text(octets):
        return EncodedText(octets)
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError("spanwire: the column text holds octets that are not UTF-8") from None
    return EncodedText(text_octets(text))


def _structured_body(columns: OutgoingColumns, row: int, kind: str | None) -> object:
    """Return a map or stream body; without ``kind`` the VARIANT decides."""
    body, metadata = _octets(columns.bodies, row), columns.body_metadata
    if body is None or metadata is None:
        empty: object = [] if kind == STREAM_BODY else {}
        return empty
    entry = decode_value(body, metadata.at(row), "the column body")
    if entry[0] != MAP_VALUE and entry[0] != LIST_VALUE:
        raise ConfigurationError(
            "spanwire: the column body is a single value; a map body needs an object, a stream an array"
        )
    if kind is not None and (entry[0] == MAP_VALUE) != (kind == MAP_BODY):
        raise ConfigurationError(f"spanwire: body_type is {kind}, but the column body has another type")
    return client_value(entry)
