"""Decoded messages as an Arrow record batch with the columns of `spanwire.pipeline.arrow.schema`.

`DecodedColumns` have Arrow's layout already. The other columns are laid out in this module, because the first call of
``pa.array`` or ``pa.scalar`` in a process imports pandas, which takes a quarter of a second.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from spanwire.pipeline.arrow import schema
from spanwire.pipeline.columns.column_builder import OctetColumn, TimeColumn, text_column, valid_bits
from spanwire.pipeline.columns.column_decoder import CommonHeaders, DecodedColumns
from spanwire.pipeline.columns.property_columns import PropertyColumns
from spanwire.pipeline.columns.variant import NO_NAMES

SCHEMA: Final = schema.arrow_schema()
CODES: Final = {pa.int8(): "b", pa.int32(): "i"}  # type codes of the standard library's arrays


def record_batch(columns: DecodedColumns) -> pa.RecordBatch:
    """Return a batch with one row for each message, in order."""
    rows = len(columns.ids)
    commons = columns.commons
    indexes = None
    if len(commons) != rows:
        indexes = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(columns.common_indexes.getvalue())])
    arrays = [
        _texts(columns.ids),
        _texts([common.destination for common in commons], indexes),
        _times(columns.timestamps, rows),
        _times(columns.expirations, rows),
        _numbers([common.priority for common in commons], indexes, pa.int8()),
        _texts([schema.PERSISTENT if common.persistent else schema.NON_PERSISTENT for common in commons], indexes),
        _texts([common.correlation_id for common in commons], indexes),
        _texts([common.reply_to for common in commons], indexes),
        _texts([common.type for common in commons], indexes),
        _redelivered_flags(commons, indexes),
        _texts([common.group for common in commons], indexes),
        _numbers([common.group_sequence for common in commons], indexes, pa.int32()),
        _numbers([common.delivery_count for common in commons], indexes, pa.int32()),
        _properties(columns.properties, rows),
        _texts([common.body_type for common in commons], indexes),
        _octets(columns.texts, rows, pa.string()),
        _octets(columns.bytes, rows, pa.binary()),
        _bodies(columns.bodies, rows),
        pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(columns.sequences.getvalue())]),
        _paths(commons, indexes),
        _times(columns.in_times, rows),
        _times(columns.out_times, rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _of_rows(values: pa.Array, indexes: pa.Array | None) -> pa.Array:
    """Return the value of each row from one value for each entry of ``commons``."""
    return values if indexes is None else values.take(indexes)


def _texts(texts: Sequence[str | None], indexes: pa.Array | None = None) -> pa.Array:
    return _of_rows(_octets(text_column(texts), len(texts), pa.string()), indexes)


def _numbers(numbers: Sequence[int | None], indexes: pa.Array | None, kind: pa.DataType) -> pa.Array:
    octets = array(CODES[kind], [number or 0 for number in numbers]).tobytes()
    nulls = [row for row, number in enumerate(numbers) if number is None]
    count = len(numbers)
    return _of_rows(pa.Array.from_buffers(kind, count, [_valid(nulls, count), pa.py_buffer(octets)]), indexes)


def _redelivered_flags(commons: list[CommonHeaders], indexes: pa.Array | None) -> pa.Array:
    count = len(commons)
    firsts = [row for row, common in enumerate(commons) if common.delivery_count == 1]
    bits = pa.py_buffer(b"\xff" * count) if not firsts else _valid(firsts, count)
    return _of_rows(pa.Array.from_buffers(pa.bool_(), count, [None, bits]), indexes)


def _paths(commons: list[CommonHeaders], indexes: pa.Array | None) -> pa.Array:
    count = len(commons)
    brokers: list[str] = []
    ends = array("i", [0])
    for common in commons:
        brokers += common.broker_path or ()
        ends.append(len(brokers))
    nulls = [row for row, common in enumerate(commons) if common.broker_path is None]
    buffers = [_valid(nulls, count), pa.py_buffer(ends.tobytes())]
    return _of_rows(pa.Array.from_buffers(schema.BROKERS, count, buffers, children=[_texts(brokers)]), indexes)


def _times(times: TimeColumn, rows: int) -> pa.Array:
    if len(times.nulls) == rows:
        return pa.nulls(rows, schema.TIMESTAMP)
    return pa.Array.from_buffers(schema.TIMESTAMP, rows, [_valid(times.nulls, rows), pa.py_buffer(times.octets())])


def _octets(column: OctetColumn, rows: int, kind: pa.DataType) -> pa.Array:
    if not column.parts:
        return pa.nulls(rows, kind)
    column.fill(rows)
    valid = _valid(column.nulls, rows)
    return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(column.ends()), pa.py_buffer(column.octets())])


def _valid(nulls: list[int], rows: int) -> pa.Buffer | None:
    bits = valid_bits(nulls, rows)
    return None if bits is None else pa.py_buffer(bits)


def _properties(properties: PropertyColumns, rows: int) -> pa.Array:
    count = properties.count
    names = _from_buffers(properties.names(), count, pa.string())
    values = _from_buffers(properties.values(), count, pa.binary())
    metadata = _repeat(NO_NAMES, count)
    if properties.metadata:
        column = OctetColumn()
        for row in range(count):
            column.put(row, properties.metadata.get(row, NO_NAMES))
        metadata = _octets(column, count, pa.binary())
    variants = pa.StructArray.from_arrays([values, metadata], fields=list(schema.VARIANT))
    ends = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(properties.row_ends())])
    return pa.MapArray.from_arrays(ends, names, variants, type=schema.PROPERTIES)


def _from_buffers(octets: tuple[bytes, bytes], count: int, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(octets[0]), pa.py_buffer(octets[1])])


def _bodies(bodies: dict[int, tuple[bytes, bytes]], rows: int) -> pa.Array:
    """Return the column of bodies; a null row has a value and metadata without octets."""
    values, names = _repeat(b"", rows), _repeat(b"", rows)
    if bodies:
        columns = OctetColumn(), OctetColumn()
        for row in range(rows):
            value, metadata = bodies.get(row, (b"", b""))
            columns[0].put(row, value)
            columns[1].put(row, metadata)
        values, names = _octets(columns[0], rows, pa.binary()), _octets(columns[1], rows, pa.binary())
    valid = _valid([row for row in range(rows) if row not in bodies], rows)
    return pa.Array.from_buffers(schema.VARIANT, rows, [valid], children=[values, names])


def _repeat(octets: bytes, count: int) -> pa.Array:
    size = len(octets)
    ends = array("i", range(0, size * count + 1, size)) if size else array("i", [0]) * (count + 1)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(octets * count)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)
