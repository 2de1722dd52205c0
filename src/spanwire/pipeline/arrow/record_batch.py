"""Gathered messages as an Arrow record batch of the announced columns.

What was gathered is laid out as Arrow has it already. The rest is laid out here and not by ``pa.array`` or
``pa.scalar``: the first call of either loads pandas, just to see that it got nothing of it, a quarter of a second in
each process.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from spanwire.pipeline.arrow import schema
from spanwire.pipeline.columns.column_builder import OctetColumn, TimeColumn, text_column, valid_bits
from spanwire.pipeline.columns.column_decoder import Common, Gathered
from spanwire.pipeline.columns.property_columns import PropertyColumns
from spanwire.pipeline.columns.variant import NO_NAMES

SCHEMA: Final = schema.arrow_schema()
CODES: Final = {pa.int8(): "b", pa.int32(): "i"}  # of the standard library's arrays


def record_batch(gathered: Gathered) -> pa.RecordBatch:
    """One row for each message, in order."""
    rows = len(gathered.ids)
    commons = gathered.commons
    which = None
    if len(commons) != rows:
        which = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(gathered.which.getvalue())])
    arrays = [
        _texts(gathered.ids),
        _texts([one.destination for one in commons], which),
        _times(gathered.timestamps, rows),
        _times(gathered.expirations, rows),
        _numbers([one.priority for one in commons], which, pa.int8()),
        _texts([schema.PERSISTENT if one.persistent else schema.NON_PERSISTENT for one in commons], which),
        _texts([one.correlation_id for one in commons], which),
        _texts([one.reply_to for one in commons], which),
        _texts([one.type for one in commons], which),
        _redelivered(commons, which),
        _texts([one.group for one in commons], which),
        _numbers([one.group_sequence for one in commons], which, pa.int32()),
        _numbers([one.delivery_count for one in commons], which, pa.int32()),
        _properties(gathered.properties, rows),
        _texts([one.body_type for one in commons], which),
        _octets(gathered.texts, rows, pa.string()),
        _octets(gathered.bytes, rows, pa.binary()),
        _bodies(gathered.bodies, rows),
        pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(gathered.sequences.getvalue())]),
        _paths(commons, which),
        _times(gathered.in_times, rows),
        _times(gathered.out_times, rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _of_rows(found: pa.Array, which: pa.Array | None) -> pa.Array:
    """The value of each row, from one for each `Common`."""
    return found if which is None else found.take(which)


def _texts(texts: Sequence[str | None], which: pa.Array | None = None) -> pa.Array:
    return _of_rows(_octets(text_column(texts), len(texts), pa.string()), which)


def _numbers(numbers: Sequence[int | None], which: pa.Array | None, kind: pa.DataType) -> pa.Array:
    octets = array(CODES[kind], [number or 0 for number in numbers]).tobytes()
    nulls = [row for row, number in enumerate(numbers) if number is None]
    count = len(numbers)
    return _of_rows(pa.Array.from_buffers(kind, count, [_valid(nulls, count), pa.py_buffer(octets)]), which)


def _redelivered(commons: list[Common], which: pa.Array | None) -> pa.Array:
    count = len(commons)
    firsts = [row for row, one in enumerate(commons) if one.delivery_count == 1]
    bits = pa.py_buffer(b"\xff" * count) if not firsts else _valid(firsts, count)
    return _of_rows(pa.Array.from_buffers(pa.bool_(), count, [None, bits]), which)


def _paths(commons: list[Common], which: pa.Array | None) -> pa.Array:
    count = len(commons)
    brokers: list[str] = []
    ends = array("i", [0])
    for one in commons:
        brokers += one.broker_path or ()
        ends.append(len(brokers))
    nulls = [row for row, one in enumerate(commons) if one.broker_path is None]
    buffers = [_valid(nulls, count), pa.py_buffer(ends.tobytes())]
    return _of_rows(pa.Array.from_buffers(schema.BROKERS, count, buffers, children=[_texts(brokers)]), which)


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
    names = _run(properties.names(), count, pa.string())
    values = _run(properties.values(), count, pa.binary())
    metadata = _repeated(NO_NAMES, count)
    if properties.metadata:
        column = OctetColumn()
        for row in range(count):
            column.put(row, properties.metadata.get(row, NO_NAMES))
        metadata = _octets(column, count, pa.binary())
    variants = pa.StructArray.from_arrays([values, metadata], fields=list(schema.VARIANT))
    ends = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(properties.row_ends())])
    return pa.MapArray.from_arrays(ends, names, variants, type=schema.PROPERTIES)


def _run(octets: tuple[bytes, bytes], count: int, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(octets[0]), pa.py_buffer(octets[1])])


def _bodies(bodies: dict[int, tuple[bytes, bytes]], rows: int) -> pa.Array:
    """Below a null stand a value and names without octets."""
    values, names = _repeated(b"", rows), _repeated(b"", rows)
    if bodies:
        found = OctetColumn(), OctetColumn()
        for row in range(rows):
            value, metadata = bodies.get(row, (b"", b""))
            found[0].put(row, value)
            found[1].put(row, metadata)
        values, names = _octets(found[0], rows, pa.binary()), _octets(found[1], rows, pa.binary())
    valid = _valid([row for row in range(rows) if row not in bodies], rows)
    return pa.Array.from_buffers(schema.VARIANT, rows, [valid], children=[values, names])


def _repeated(octets: bytes, count: int) -> pa.Array:
    size = len(octets)
    ends = array("i", range(0, size * count + 1, size)) if size else array("i", [0]) * (count + 1)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(octets * count)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)
