"""The types of columns for Protobuf's messages, and the conversions between messages and rows.

A field without presence is never null, because Protobuf leaves out default values of such fields. Unset fields with
presence, unset messages and the unset members of a oneof are null.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.pipeline.formats import leaves
from spanwire.pipeline.formats.leaves import MICROSECOND, UTC_TIMESTAMP, ValueType, with_field

MAX_DEPTH: Final = 64  # messages within messages; Protobuf itself reads 100
MAX_TYPES: Final = 10_000  # fields, counted at each use
UNSIGNED_LONG: Final = pa.decimal128(20, 0)  # Spark has no unsigned numbers
SECOND: Final = 1_000_000  # microseconds
# Message types with columns of their own; a wrapper is a single value that may be null.
TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = tuple(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
AS_JSON: Final = tuple(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))

UNSIGNED_INT: Final = ValueType(pa.int64(), leaves.same, leaves.is_integer(0, 2**32 - 1, "uint32"))


def read_unsigned(value: object) -> object:
    """Return an unsigned number of 64 bits as a decimal."""
    assert isinstance(value, int)
    return Decimal(value)


UNSIGNED: Final = ValueType(UNSIGNED_LONG, read_unsigned, leaves.is_integer(0, 2**64 - 1, "uint64"))
SINGLE: Final[dict[int, ValueType]] = {
    FieldDescriptor.TYPE_BOOL: leaves.BOOLEAN,
    FieldDescriptor.TYPE_INT32: leaves.INT,
    FieldDescriptor.TYPE_SINT32: leaves.INT,
    FieldDescriptor.TYPE_SFIXED32: leaves.INT,
    FieldDescriptor.TYPE_INT64: leaves.LONG,
    FieldDescriptor.TYPE_SINT64: leaves.LONG,
    FieldDescriptor.TYPE_SFIXED64: leaves.LONG,
    FieldDescriptor.TYPE_UINT32: UNSIGNED_INT,
    FieldDescriptor.TYPE_FIXED32: UNSIGNED_INT,
    FieldDescriptor.TYPE_UINT64: UNSIGNED,
    FieldDescriptor.TYPE_FIXED64: UNSIGNED,
    FieldDescriptor.TYPE_FLOAT: leaves.FLOAT,
    FieldDescriptor.TYPE_DOUBLE: leaves.DOUBLE,
    FieldDescriptor.TYPE_STRING: leaves.STRING,
    FieldDescriptor.TYPE_BYTES: leaves.BYTES,
}

ReadMessage = Callable[[Any], object]
FillMessage = Callable[[Any, object], None]  # sets the fields of a message to a value
ReadField = Callable[[Any], object]
FillField = Callable[[Any, object], None]


def fault(reason: str) -> ConfigurationError:
    """Return the error for a descriptor."""
    return ConfigurationError(f"spanwire: a Protobuf schema cannot be used: {reason[:300]}")


class MessageType:
    """The column of a message type, and the conversions of messages."""

    def __init__(self, arrow: pa.DataType, read: ReadMessage, fill: FillMessage) -> None:
        self.arrow: Final[pa.DataType] = arrow
        self.read: Final[ReadMessage] = read
        self.fill: Final[FillMessage] = fill


class TypeBuilder:
    """Builds the columns of one message type and of all nested message types."""

    def __init__(self) -> None:
        self._count = 0

    def message(self, descriptor: Descriptor, inside: tuple[str, ...] = ()) -> MessageType:
        """Return the column of a message type.

        Args:
            descriptor: the message type.
            inside: the names of the enclosing messages.

        Raises:
            ConfigurationError: the message type contains itself or is too large.
        """
        name: str = descriptor.full_name
        known = well_known(name, descriptor)
        if known is not None:
            return known
        if name in inside:
            raise fault(f"the message {name} contains itself, and Spark has no such type")
        self._count += len(descriptor.fields)
        if len(inside) >= MAX_DEPTH or self._count > MAX_TYPES:
            raise fault(f"it is nested more than {MAX_DEPTH} deep, or has more than {MAX_TYPES} fields")
        if not descriptor.fields:
            return MessageType(pa.bool_(), lambda message: True, _fill_empty)
        fields = [(field.name, *self._field(field, (*inside, name))) for field in descriptor.fields]
        return message_type(name, fields, oneofs_of(descriptor))

    def _field(self, field: FieldDescriptor, inside: tuple[str, ...]) -> tuple[pa.DataType, ReadField, FillField]:
        name: str = field.name
        if field.is_repeated:
            return self._repeated(field, inside)
        if field.message_type is not None:
            inner = self.message(field.message_type, inside)

            def read_message(message: Any) -> object:
                return inner.read(getattr(message, name)) if message.HasField(name) else None

            def fill_message(message: Any, value: object) -> None:
                getattr(message, name).SetInParent()
                inner.fill(getattr(message, name), value)

            return inner.arrow, read_message, fill_message
        single = single_type(field)
        convert = single.read

        def read(message: Any) -> object:
            return convert(getattr(message, name))

        def read_present(message: Any) -> object:
            return convert(getattr(message, name)) if message.HasField(name) else None

        def fill(message: Any, value: object) -> None:
            setattr(message, name, single.write(value))

        return single.arrow, read_present if field.has_presence else read, fill

    def _repeated(self, field: FieldDescriptor, inside: tuple[str, ...]) -> tuple[pa.DataType, ReadField, FillField]:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return self._map(field, inside)
        name: str = field.name
        if field.message_type is None:
            single = single_type(field)

            def read(message: Any) -> object:
                return [single.read(item) for item in getattr(message, name)]

            def fill(message: Any, value: object) -> None:
                getattr(message, name).extend([single.write(item) for item in items_of(value)])

            return pa.list_(single.arrow), read, fill
        inner = self.message(field.message_type, inside)

        def read_messages(message: Any) -> object:
            return [inner.read(item) for item in getattr(message, name)]

        def fill_messages(message: Any, value: object) -> None:
            for item in items_of(value):
                inner.fill(getattr(message, name).add(), item)

        return pa.list_(inner.arrow), read_messages, fill_messages

    def _map(self, field: FieldDescriptor, inside: tuple[str, ...]) -> tuple[pa.DataType, ReadField, FillField]:
        name: str = field.name
        key_field, value_field = (field.message_type.fields_by_name[part] for part in ("key", "value"))
        key = single_type(key_field)
        if value_field.message_type is None:
            single = single_type(value_field)

            def read(message: Any) -> object:
                return [(key.read(one), single.read(value)) for one, value in getattr(message, name).items()]

            def fill(message: Any, value: object) -> None:
                entries = getattr(message, name)
                for one, item in pairs_of(value):
                    entries[key.write(one)] = single.write(item)

            return pa.map_(key.arrow, single.arrow), read, fill
        inner = self.message(value_field.message_type, inside)

        def read_messages(message: Any) -> object:
            return [(key.read(one), inner.read(value)) for one, value in getattr(message, name).items()]

        def fill_messages(message: Any, value: object) -> None:
            entries = getattr(message, name)
            for one, item in pairs_of(value):
                inner.fill(entries[key.write(one)], item)

        return pa.map_(key.arrow, inner.arrow), read_messages, fill_messages


def message_type(
    name: str,
    fields: list[tuple[str, pa.DataType, ReadField, FillField]],
    oneofs: list[frozenset[str]],
) -> MessageType:
    """Return the struct of a message."""
    fillers = {field: fill for field, _, _, fill in fields}
    readers = [(field, read) for field, _, read, _ in fields]

    def read(message: Any) -> object:
        return {field: one(message) for field, one in readers}

    def fill(message: Any, value: object) -> None:
        if not isinstance(value, dict):
            raise MessageFormatError(f"expected message {name}, got {type(value).__name__}")
        if not value.keys() <= fillers.keys():
            unknown = ", ".join(sorted(value.keys() - fillers.keys()))
            raise MessageFormatError(f"the message {name} has no field {unknown}; there are {', '.join(fillers)}")
        given = {field for field, one in value.items() if one is not None}
        for members in oneofs:
            if len(members & given) > 1:
                raise MessageFormatError(f"of {', '.join(sorted(members))} at most one has a value")
        for field in given:
            try:
                fillers[field](message, value[field])
            except MessageFormatError as error:
                raise with_field(field, error) from None

    return MessageType(pa.struct([(field, arrow) for field, arrow, _, _ in fields]), read, fill)


def oneofs_of(descriptor: Descriptor) -> list[frozenset[str]]:
    """Return the fields of each oneof, without the synthetic oneofs of ``optional`` fields."""
    members = [frozenset(field.name for field in oneof.fields) for oneof in descriptor.oneofs]
    return [names for names in members if len(names) > 1]


def single_type(field: FieldDescriptor) -> ValueType:
    """Return the type of a primitive or enum field."""
    return enum_type(field.enum_type) if field.enum_type is not None else SINGLE[field.type]


def enum_type(enum: EnumDescriptor) -> ValueType:
    """Return the type of an enum, the names of values.

    A value outside the schema is read as a decimal number.
    """
    names = {number: value.name for number, value in enum.values_by_number.items()}
    numbers = {value.name: value.number for value in enum.values}

    def read(value: object) -> object:
        return names.get(value) or str(value)

    def write(value: object) -> object:
        if isinstance(value, str) and value in numbers:
            return numbers[value]
        if isinstance(value, str) and not enum.is_closed and value.removeprefix("-").isdecimal() and len(value) < 12:
            return leaves.INT.write(int(value))
        raise MessageFormatError(f"the enum {enum.full_name} has no such value; there are {', '.join(numbers)}"[:300])

    return ValueType(pa.string(), read, write)


def well_known(name: str, descriptor: Descriptor) -> MessageType | None:
    """Return the special column of a well-known message of Google, or ``None`` for other messages."""
    if name == TIMESTAMP:
        return MessageType(UTC_TIMESTAMP, _read_seconds, _fill_timestamp)
    if name == DURATION:
        return MessageType(pa.duration("us"), _read_seconds, _fill_duration)
    if name in WRAPPERS:
        single = SINGLE[descriptor.fields_by_name["value"].type]

        def fill(message: Any, value: object) -> None:
            message.value = single.write(value)

        return MessageType(single.arrow, lambda message: single.read(message.value), fill)
    if name in AS_JSON:
        return MessageType(pa.string(), _read_json, _fill_json)
    return None


def _fill_empty(message: Any, value: object) -> None:
    """A message without fields is true or null."""
    if value is not True:
        raise MessageFormatError("a message without fields is true or null")


def _read_seconds(message: Any) -> object:
    microseconds: int = message.seconds * SECOND + int(message.nanos / 1000)
    return microseconds


def _fill_timestamp(message: Any, value: object) -> None:
    seconds, rest = divmod(leaves.epoch_microseconds(value), SECOND)
    message.seconds, message.nanos = seconds, rest * 1000


def _fill_duration(message: Any, value: object) -> None:
    if not isinstance(value, timedelta):
        raise MessageFormatError(f"expected interval, got {type(value).__name__}")
    total = value // MICROSECOND
    seconds, rest = divmod(abs(total), SECOND)
    sign = -1 if total < 0 else 1  # both parts have the sign
    message.seconds, message.nanos = sign * seconds, sign * rest * 1000


def _read_json(message: Any) -> object:
    try:
        return json_format.MessageToJson(message, indent=None, ensure_ascii=False)
    except (json_format.Error, ValueError, RecursionError):
        raise MessageFormatError("a number of the message, or its depth, has no form in JSON") from None


def _fill_json(message: Any, value: object) -> None:
    if not isinstance(value, str):
        raise MessageFormatError(f"expected JSON text, got {type(value).__name__}")
    try:
        json_format.Parse(value, message)
    except (json_format.ParseError, RecursionError):
        raise MessageFormatError("a text is not JSON for the message type") from None


def items_of(value: object) -> list[object]:
    """Return the items of an array, and refuse null, because Protobuf has no null."""
    if not isinstance(value, list) or any(item is None for item in value):
        raise MessageFormatError(f"expected array without null, got {type(value).__name__}")
    return value


def pairs_of(value: object) -> list[tuple[object, object]]:
    """Return the entries of a map, and refuse null, because Protobuf has no null."""
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list) or any(item is None for _, item in pairs):
        raise MessageFormatError(f"expected map without null, got {type(value).__name__}")
    return pairs
