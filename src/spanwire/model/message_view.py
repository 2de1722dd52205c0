"""The neutral form of a message, for conversion between wire formats and for administrators.

`MessageView` has every JMS header and typed property by name, and the body in the neutral encoding of its kind. A view
costs a full decode, so the hot path never creates views.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import Destination
from spanwire.model.ids import MessageId

# Kinds of message (JMS 1.1 §3.11), with the contents of `MessageView.body`.
PLAIN: Final = 0  # None
TEXT: Final = 1  # UTF-8, or None for a null text
BYTES: Final = 2  # the bytes
MAP: Final = 3  # an OpenWire primitive map, uncompressed
STREAM: Final = 4  # a run of OpenWire primitive values, uncompressed
OBJECT: Final = 5  # a Java serialization stream, never looked into
BLOB: Final = 6  # None

# Types of a property value (JMS 1.1 §3.5); the numbers are those of OpenWire's primitive map.
NULL_VALUE: Final = 0
BOOLEAN_VALUE: Final = 1
BYTE_VALUE: Final = 2
CHAR_VALUE: Final = 3
SHORT_VALUE: Final = 4
INT_VALUE: Final = 5
LONG_VALUE: Final = 6
DOUBLE_VALUE: Final = 7
FLOAT_VALUE: Final = 8
STRING_VALUE: Final = 9
BYTES_VALUE: Final = 10
MAP_VALUE: Final = 11
LIST_VALUE: Final = 12

PropertyValue = tuple[int, object]
"""A type of the table above and its Python value.

The value is a bool, int, float, str, bytes, dict, list or None; CHAR is a one-letter str.
"""


class CommandTree:
    """A command of the broker, as in the text of an advisory.

    ``class_name`` is empty unless the field ``name`` may have several classes. A field is a text, a number, a flag,
    bytes, a tree, a list of trees, or None for Java's null.
    """

    __slots__ = ("class_name", "fields", "name")

    def __init__(self, name: str, class_name: str, fields: list[tuple[str, TreeValue]]) -> None:
        self.name: Final[str] = name
        self.class_name: Final[str] = class_name
        self.fields: Final[list[tuple[str, TreeValue]]] = fields


TreeValue = str | int | bool | bytes | CommandTree | list[CommandTree] | None


class MessageView:
    """A message in neutral form: all headers, properties and the body.

    ``command`` is the subject of an advisory.

    Views are mutable: a copy is changed and then encoded.
    """

    __slots__ = (
        "body",
        "command",
        "correlation_id",
        "destination",
        "expiration_ms",
        "first_for_consumer",
        "group_id",
        "group_sequence",
        "kind",
        "message_id",
        "original_destination",
        "persistent",
        "priority",
        "properties",
        "redelivery_count",
        "reply_to",
        "timestamp_ms",
        "type",
        "user_id",
    )

    def __init__(self, kind: int, destination: Destination, message_id: MessageId) -> None:
        self.kind = kind
        self.destination = destination
        self.message_id = message_id
        self.original_destination: Destination | None = None
        self.correlation_id: str | None = None
        self.reply_to: Destination | None = None
        self.type: str | None = None
        self.persistent = False
        self.priority = 4
        self.expiration_ms = 0
        self.timestamp_ms = 0
        self.group_id: str | None = None
        self.group_sequence = 0
        self.first_for_consumer = False
        self.user_id: str | None = None
        self.redelivery_count = 0
        self.properties: dict[str, PropertyValue] = {}
        self.body: bytes | None = None
        self.command: CommandTree | None = None
