"""Rows of Spark as messages to send.

| column | allowed values |
|---|---|
| JMSDestination | string; required in every row without the option destination |
| text, bytes, body | string, binary, variant: the body; at most one of them is not null in a row |
| body_type | string: selects the body column; by default the one that is not null |
| properties | map<string, T>; T is variant, string, boolean or a number |
| JMSCorrelationID, JMSType, JMSReplyTo, JMSXGroupID | string |
| JMSPriority, JMSXGroupSeq | any integer |
| JMSDeliveryMode | string: PERSISTENT or NON_PERSISTENT |
| JMSExpiration | timestamp: the time at which the message expires |
| JMSMessageID, JMSTimestamp, JMSRedelivered, JMSXDeliveryCount | ignored, because the broker sets them |
| sequence, JMSActiveMQBrokerPath, …InTime, …OutTime | ignored, because the broker sets them |

Thus a row that was read can be written unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import pyarrow as pa

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.messages.typed_values import Typed
from spanwire.documents.spelling import suggestion
from spanwire.model.errors import ConfigurationError, SpanwireError
from spanwire.model.message_view import (
    BYTE_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LONG_VALUE,
    SHORT_VALUE,
)
from spanwire.model.units import MIB
from spanwire.pipeline.columns.column_encoder import ColumnEncoder, OutgoingColumns
from spanwire.pipeline.columns.column_view import BITS, END_OCTETS, ColumnView, Nulls
from spanwire.pipeline.columns.property_maps import PropertyMapWriter, PropertyViews
from spanwire.pipeline.options import WriteOptions

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
SET_BY_BROKER: Final = frozenset(
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
BODY_COLUMNS: Final = ("text", "bytes", "body", "body_type")
ARROW_NUMBERS: Final[dict[pa.DataType, int]] = {
    pa.int8(): BYTE_VALUE,
    pa.int16(): SHORT_VALUE,
    pa.int32(): INT_VALUE,
    pa.int64(): LONG_VALUE,
    pa.float32(): FLOAT_VALUE,
    pa.float64(): DOUBLE_VALUE,
}
PLAIN_TYPES: Final = (pa.string(), pa.binary())  # types with 32-bit ends
NO_VALUES: Final = bytes(4)  # ends of a column without rows
MAX_PORTION_ROWS: Final = 1000  # rows encoded at a time; more would not fit into the processor's cache
MAX_PORTION_BYTES: Final = 4 * MIB  # bytes encoded at a time, or one larger row; bounds the memory


def check_columns(columns: Sequence[tuple[str, str]], options: WriteOptions) -> None:
    """Check that columns of these names and Spark types make messages.

    Raises:
        ConfigurationError: a column is unknown or has another type, or the destination is missing.
    """
    for name, kind in columns:
        allowed = COLUMN_TYPES.get(name)
        if allowed is None:
            raise ConfigurationError(
                f"spanwire: a message has no column {name[:60]!r}, drop it or rename it{suggestion(name, COLUMN_TYPES)}"
            )
        if kind not in allowed:
            raise ConfigurationError(f"spanwire: the column {name} is {kind}; it must be {' or '.join(allowed)}")
    if options.destination is None and "JMSDestination" not in dict(columns):
        raise ConfigurationError(
            'spanwire: no destination: set .option("destination", "queue://NAME") or add the column JMSDestination'
        )


class RowReader:
    """Makes messages from the record batches of one partition."""

    def __init__(self, options: WriteOptions, ids: str = "") -> None:
        """Begin the duplicate ids of the rows with ``ids``, if the options ask for duplicate ids."""
        self._is_addressed: Final = options.destination is not None
        self._encoder: Final = ColumnEncoder(options.destination, options.drop_temporary_reply)
        self._maps: Final = PropertyMapWriter(options.duplicate_id_property, ids)

    def rows(self, batch: pa.RecordBatch) -> Iterator[Outgoing]:
        """Return the messages of a batch in order.

        Raises:
            ConfigurationError: a value has no JMS form.
            MessageFormatError: a property or body has no wire form.
        """
        return chain.from_iterable(self.portions(batch))

    def portions(self, batch: pa.RecordBatch) -> Iterator[list[Outgoing]]:
        """Yield the messages of a batch in lists of a bounded size; raises like `rows`."""
        count = batch.num_rows
        at_once = min(MAX_PORTION_ROWS, max(1, count * MAX_PORTION_BYTES // max(1, batch.nbytes)))
        for start in range(0, count, at_once):
            yield self._encoder.encode(self._columns(batch.slice(start, at_once)))

    def _columns(self, batch: pa.RecordBatch) -> OutgoingColumns:
        columns = OutgoingColumns(batch.num_rows)
        properties: pa.MapArray | None = None
        for field, array in zip(batch.schema, batch.columns, strict=True):
            name = field.name
            if name in SET_BY_BROKER or array.null_count == len(array):
                continue
            if name == "properties":
                properties = array
            elif name == "JMSDestination":
                columns.destinations = None if self._is_addressed else array.to_pylist()
            elif name in BODY_COLUMNS:
                _set_body(columns, name, array)
            else:
                _set_header(columns, name, array)
        columns.properties = self._properties(properties, batch.num_rows)
        return columns

    def _properties(self, array: pa.MapArray | None, count: int) -> list[bytes] | None:
        if array is None:
            return self._maps.encode_empty(count)
        if pa.types.is_struct(array.type.item_type) or pa.types.is_string(array.type.item_type):
            return self._maps.encode_views(_property_views(array), count)
        return self._maps.encode_values(_typed_maps(array))


def row_errors(batch: pa.RecordBatch, options: WriteOptions) -> list[str | None]:
    """Return for each row the reason why no message can be made of it, or ``None``."""
    try:
        for _ in RowReader(options).portions(batch):
            pass
    except SpanwireError:
        return [_row_error(batch.slice(row, 1), options) for row in range(batch.num_rows)]
    return [None] * batch.num_rows


def _row_error(row: pa.RecordBatch, options: WriteOptions) -> str | None:
    try:
        for _ in RowReader(options).portions(row):
            pass
    except SpanwireError as error:
        return str(error).removeprefix("spanwire: ")
    return None


def _set_body(columns: OutgoingColumns, name: str, array: pa.Array) -> None:
    nulls = _nulls(array)
    if name == "text":
        columns.texts = _column_view(array, nulls)
    elif name == "bytes":
        columns.bytes = _column_view(array, nulls)
    elif name == "body_type":
        columns.body_types = _column_view(array, nulls)
    else:
        columns.bodies = _column_view(array.field("value"), nulls)
        columns.body_metadata = _column_view(array.field("metadata"), None)


def _set_header(columns: OutgoingColumns, name: str, array: pa.Array) -> None:
    if name == "JMSExpiration":
        columns.expirations = array.view(pa.int64()).to_pylist()  # microseconds
        return
    values = array.to_pylist()
    if name == "JMSPriority":
        columns.priorities = values
    elif name == "JMSDeliveryMode":
        columns.modes = values
    elif name == "JMSCorrelationID":
        columns.correlation_ids = values
    elif name == "JMSType":
        columns.types = values
    elif name == "JMSReplyTo":
        columns.reply_tos = values
    elif name == "JMSXGroupID":
        columns.groups = values
    elif name == "JMSXGroupSeq":
        columns.group_sequences = values


def _column_view(array: pa.Array, nulls: Nulls | None) -> ColumnView:
    """Return a view of a column of texts or octets in Arrow's buffers."""
    count = len(array)
    if not count:
        return ColumnView(NO_VALUES, b"")
    if array.type not in PLAIN_TYPES:
        array = array.cast(pa.binary())
    ends, octets = _ends(array), array.buffers()[2]
    view = ColumnView(ends, b"")
    size = view.start_of(count)
    return ColumnView(ends, octets.slice(view.first, size).to_pybytes() if size else b"", nulls)


def _ends(array: pa.Array) -> bytes:
    """Return the ends of the values or entries of each row."""
    octets: bytes = array.buffers()[1].slice(END_OCTETS * array.offset, END_OCTETS * (len(array) + 1)).to_pybytes()
    return octets


def _nulls(array: pa.Array) -> Nulls | None:
    if not array.null_count:
        return None
    first, bit = divmod(array.offset, BITS)
    size = (bit + len(array) + BITS - 1) // BITS
    return Nulls(array.buffers()[0].slice(first, size).to_pybytes(), bit)


def _property_views(array: pa.MapArray) -> PropertyViews:
    rows = ColumnView(_ends(array), b"", _nulls(array))
    count = rows.start_of(len(array))
    values = array.items.slice(rows.first, count)
    metadata: ColumnView | None = None
    nulls = _nulls(values)
    if pa.types.is_struct(values.type):
        metadata = _column_view(values.field("metadata"), None)
        values = values.field("value")
    return PropertyViews(
        rows, _column_view(array.keys.slice(rows.first, count), None), _column_view(values, nulls), metadata
    )


def _typed_maps(array: pa.MapArray) -> list[dict[str, object]]:
    """Return the properties of each row with the JMS type of the map's values."""
    kind = ARROW_NUMBERS.get(array.type.item_type)
    maps: list[dict[str, object]] = []
    for entries in array.to_pylist():
        if kind is None:
            maps.append(dict(entries or ()))
        else:
            maps.append({name: None if value is None else Typed(kind, value) for name, value in entries or ()})
    return maps
