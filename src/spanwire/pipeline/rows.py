"""Rows of Spark as messages to send.

| column | what it may be |
|---|---|
| JMSDestination | string; needed in every row when the option destination is not set |
| text, bytes, body | string, binary, variant: the body; at most one of them is not null in a row |
| body_type | string: which of them counts; without it the one that is not null |
| properties | map<string, T>; T is variant, string, boolean or a number |
| JMSCorrelationID, JMSType, JMSReplyTo, JMSXGroupID | string |
| JMSPriority, JMSXGroupSeq | any integer |
| JMSDeliveryMode | string: PERSISTENT or NON_PERSISTENT |
| JMSExpiration | timestamp: when the message shall expire |
| JMSMessageID, JMSTimestamp, JMSRedelivered, JMSXDeliveryCount | given anew by the broker, left out |
| sequence, JMSActiveMQBrokerPath, …InTime, …OutTime | the same |

So a row that was read can be written as it is.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa

from spanwire.client.values import Typed
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.model.message_view import (
    BYTE_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP_VALUE,
    SHORT_VALUE,
    PropertyValue,
)
from spanwire.pipeline import schema
from spanwire.pipeline.body_types import (
    BYTES_BODY,
    MAP_BODY,
    MESSAGE_BODY,
    OBJECT_BODY,
    STREAM_BODY,
    TEXT_BODY,
    UNREADABLE,
)
from spanwire.pipeline.options import MAX_PRIORITY, WriteOptions, target_named
from spanwire.pipeline.variant import decode_variant

INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
NUMBER_KINDS: Final[dict[str, int]] = {
    "tinyint": BYTE_VALUE,
    "smallint": SHORT_VALUE,
    "int": INT_VALUE,
    "bigint": LONG_VALUE,
    "float": FLOAT_VALUE,
    "double": DOUBLE_VALUE,
}
PROPERTY_TYPES: Final = ("variant", "string", "boolean", *NUMBER_KINDS)
COLUMN_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "JMSDestination": ("string",),
    "text": ("string",),
    "bytes": ("binary",),
    "body": ("variant",),
    "body_type": ("string",),
    "properties": tuple(f"map<string,{kind}>" for kind in PROPERTY_TYPES),
    "JMSCorrelationID": ("string",),
    "JMSType": ("string",),
    "JMSReplyTo": ("string",),
    "JMSXGroupID": ("string",),
    "JMSPriority": INTEGERS,
    "JMSXGroupSeq": INTEGERS,
    "JMSDeliveryMode": ("string",),
    "JMSExpiration": ("timestamp",),
    "JMSMessageID": ("string",),
    "JMSTimestamp": ("timestamp",),
    "JMSRedelivered": ("boolean",),
    "JMSXDeliveryCount": INTEGERS,
    "sequence": INTEGERS,
    "JMSActiveMQBrokerPath": ("array<string>",),
    "JMSActiveMQBrokerInTime": ("timestamp",),
    "JMSActiveMQBrokerOutTime": ("timestamp",),
}
BROKERS_OWN: Final = frozenset(
    {
        "JMSMessageID",
        "JMSTimestamp",
        "JMSRedelivered",
        "JMSXDeliveryCount",
        "sequence",
        "JMSActiveMQBrokerPath",
        "JMSActiveMQBrokerInTime",
        "JMSActiveMQBrokerOutTime",
    }
)
EITHER_BODY: Final = "body"  # a map or a stream, as the value says
BODY_COLUMNS: Final = ("text", "bytes", "body")
DELIVERY_MODES: Final[dict[object, bool]] = {schema.PERSISTENT: True, schema.NON_PERSISTENT: False}
BODY_TYPE_OF: Final[dict[str, str]] = {"text": TEXT_BODY, "bytes": BYTES_BODY, "body": EITHER_BODY}
MAX_KNOWN_TARGETS: Final = 1024  # destinations of rows that are remembered
ARROW_NUMBERS: Final[dict[pa.DataType, int]] = {
    pa.int8(): BYTE_VALUE,
    pa.int16(): SHORT_VALUE,
    pa.int32(): INT_VALUE,
    pa.int64(): LONG_VALUE,
    pa.float32(): FLOAT_VALUE,
    pa.float64(): DOUBLE_VALUE,
}
SOONEST_MS: Final = 1  # what has expired on the way expires at the broker, which knows what to do with it


@dataclass(slots=True)
class OutgoingRow:
    """One message; what is None is left to the producer's defaults."""

    destination: Destination | None = None
    body: object = None
    properties: dict[str, object] = field(default_factory=dict)
    correlation_id: str | None = None
    message_type: str | None = None
    reply_to: str | None = None
    group_id: str | None = None
    group_sequence: int = 0
    priority: int | None = None
    persistent: bool | None = None
    time_to_live_ms: int | None = None


class MessageSink(Protocol):
    """A producer in a transacted session."""

    def send(self, row: OutgoingRow) -> None:
        """Add a message to the transaction. Raises `JmsError`."""
        ...

    def commit(self) -> None:
        """What was sent counts, all of it, and is stored when this returns. Raises `JmsError`."""
        ...

    def close(self) -> None:
        """What was not committed is forgotten. Raises nothing."""
        ...


def check_columns(columns: Sequence[tuple[str, str]], options: WriteOptions) -> None:
    """Whether messages can be made of columns of these names and Spark types. Raises `ConfigurationError`."""
    for name, kind in columns:
        allowed = COLUMN_TYPES.get(name)
        if allowed is None:
            close = difflib.get_close_matches(name[:60], list(COLUMN_TYPES), n=1, cutoff=0.0)
            raise ConfigurationError(
                f"spanwire: a message has no column {name[:60]!r}; the closest is {close[0]!r}; drop it or rename it"
            )
        if kind not in allowed:
            raise ConfigurationError(f"spanwire: the column {name} is {kind}; it must be {' or '.join(allowed)}")
    if options.destination is None and "JMSDestination" not in dict(columns):
        raise ConfigurationError(
            'spanwire: no destination: set .option("destination", "queue://NAME") or add the column JMSDestination'
        )


class RowReader:
    """Makes messages of record batches."""

    def __init__(self, options: WriteOptions, wall_ms: Callable[[], int]) -> None:
        self._options: Final[WriteOptions] = options
        self._wall_ms: Final[Callable[[], int]] = wall_ms
        self._targets: Final[dict[str, Destination]] = {}

    def rows(self, batch: pa.RecordBatch) -> Iterator[OutgoingRow]:
        """The messages of a batch in order. Raises `ConfigurationError` for a value that no message can have."""
        columns: dict[str, list[object]] = {}
        for column, array in zip(batch.schema, batch.columns, strict=True):
            if column.name in BROKERS_OWN:
                continue
            if column.name == "JMSExpiration":
                array = array.cast(pa.int64())  # microseconds
            columns[column.name] = _maps(array) if column.name == "properties" else _values(array)
        names = list(columns)
        for values in zip(*columns.values(), strict=True):
            yield self._row(dict(zip(names, values, strict=True)))

    def _row(self, values: dict[str, object]) -> OutgoingRow:
        row = OutgoingRow()
        row.destination = self._destination(values.get("JMSDestination"))
        row.body = body_of(values)
        properties = values.get("properties")
        row.properties = properties if isinstance(properties, dict) else {}
        row.correlation_id = _text(values, "JMSCorrelationID")
        row.message_type = _text(values, "JMSType")
        row.reply_to = _text(values, "JMSReplyTo")
        row.group_id = _text(values, "JMSXGroupID")
        row.group_sequence = _number(values, "JMSXGroupSeq") or 0
        row.priority = _number(values, "JMSPriority")
        if row.priority is not None and not 0 <= row.priority <= MAX_PRIORITY:
            raise ConfigurationError(
                f"spanwire: JMSPriority is {row.priority}; it must lie between 0 and {MAX_PRIORITY}"
            )
        mode = values.get("JMSDeliveryMode")
        if mode is not None:
            row.persistent = DELIVERY_MODES.get(mode)
            if row.persistent is None:
                raise ConfigurationError(
                    f"spanwire: JMSDeliveryMode is {mode!r}, neither PERSISTENT nor NON_PERSISTENT"
                )
        expiration = _number(values, "JMSExpiration")
        if expiration is not None:
            row.time_to_live_ms = max(SOONEST_MS, expiration // 1000 - self._wall_ms())
        return row

    def _destination(self, name: object) -> Destination:
        if self._options.destination is not None:
            return self._options.destination
        if not isinstance(name, str):
            raise ConfigurationError("spanwire: a row has no JMSDestination and there is no option destination")
        known = self._targets.get(name)
        if known is None:
            if len(self._targets) >= MAX_KNOWN_TARGETS:
                self._targets.clear()
            known = target_named(name)
            self._targets[name] = known
        return known


def body_of(values: dict[str, object]) -> object:
    """The body of a row as the client takes it: str, bytes, dict, list or None."""
    kind = values.get("body_type")
    given = [name for name in BODY_COLUMNS if values.get(name) is not None]
    if kind in (OBJECT_BODY, UNREADABLE):
        raise ConfigurationError(f"spanwire: a body of type {kind} cannot be sent; filter such rows out")
    if kind == MESSAGE_BODY:
        return None
    if kind is None:
        if len(given) > 1:
            raise ConfigurationError(
                f"spanwire: a row has {' and '.join(given)}; leave one of them null or add body_type"
            )
        kind = BODY_TYPE_OF.get(given[0]) if given else None
    if kind is None:
        return None
    if kind == TEXT_BODY:
        return values.get("text")
    if kind == BYTES_BODY:
        return values.get("bytes") or b""
    if kind in (MAP_BODY, STREAM_BODY, EITHER_BODY):
        return _structured(values.get("body"), kind)
    raise ConfigurationError(f"spanwire: body_type is {kind!r}, not text, bytes, map, stream or message")


def _maps(array: pa.MapArray) -> list[object]:
    """The properties of each row with their JMS types; taken apart for all rows at once."""
    kind = ARROW_NUMBERS.get(array.type.item_type)
    names, values = _values(array.keys), _values(array.items)
    ends = array.offsets.to_pylist()
    nulls = array.is_null().to_pylist() if array.null_count else None
    found: list[object] = []
    for row in range(len(array)):
        if nulls is not None and nulls[row]:
            found.append({})
            continue
        properties: dict[str, object] = {}
        for index in range(ends[row], ends[row + 1]):
            name, given = str(names[index]), values[index]
            if isinstance(given, tuple):
                properties[name] = client_value(_decoded(given, f"the property {name!r}"))
            elif kind is not None and isinstance(given, (int, float)):
                properties[name] = Typed(kind, given)
            else:
                properties[name] = given
        found.append(properties)
    return found


def _values(array: pa.Array) -> list[object]:
    """The values of a column; a VARIANT as its octets and its metadata."""
    if pa.types.is_struct(array.type):
        parts = zip(_values(array.field("value")), _values(array.field("metadata")), strict=True)
        if not array.null_count:
            return list(parts)
        return [None if is_null else part for part, is_null in zip(parts, array.is_null().to_pylist(), strict=True)]
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        return list(array.to_numpy(zero_copy_only=False))
    return list(array.to_pylist())


def client_value(entry: PropertyValue) -> object:
    """A typed value as the client takes it."""
    kind, value = entry
    if isinstance(value, dict):
        return {name: client_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [client_value(inner) for inner in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Typed(kind, value)
    return value


def _structured(value: object, kind: object) -> object:
    if not isinstance(value, tuple):
        return [] if kind == STREAM_BODY else {}
    entry = _decoded(value, "the column body")
    if entry[0] != MAP_VALUE and entry[0] != LIST_VALUE:
        raise ConfigurationError(
            "spanwire: the column body is a single value; a map body needs an object, a stream an array"
        )
    if kind != EITHER_BODY and (entry[0] == MAP_VALUE) != (kind == MAP_BODY):
        raise ConfigurationError(f"spanwire: body_type is {kind}, which the column body does not hold")
    return client_value(entry)


def _decoded(variant: tuple[object, object], where: str) -> PropertyValue:
    value, metadata = variant
    assert isinstance(value, bytes) and isinstance(metadata, bytes)
    try:
        return decode_variant(value, metadata)
    except MessageFormatError as error:
        raise ConfigurationError(f"spanwire: {where}: {error}") from None


def _text(values: dict[str, object], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) else None


def _number(values: dict[str, object], name: str) -> int | None:
    value = values.get(name)
    return value if isinstance(value, int) else None
