"""Gathered messages as an Arrow record batch of the announced columns."""

from __future__ import annotations

import pyarrow as pa

from spanwire.pipeline import schema
from spanwire.pipeline.gathering import Gathered


def record_batch(gathered: Gathered) -> pa.RecordBatch:
    """One row for each message, in order."""
    modes = [schema.PERSISTENT if persistent else schema.NON_PERSISTENT for persistent in gathered.persistent]
    arrays = [
        pa.array(gathered.ids, pa.string()),
        pa.array(gathered.destinations, pa.string()),
        pa.array(gathered.timestamps, schema.TIMESTAMP),
        pa.array(gathered.expirations, schema.TIMESTAMP),
        pa.array(gathered.priorities, pa.int8()),
        pa.array(modes, pa.string()),
        pa.array(gathered.correlation_ids, pa.string()),
        pa.array(gathered.reply_tos, pa.string()),
        pa.array(gathered.types, pa.string()),
        pa.array(gathered.redelivered, pa.bool_()),
        pa.array(gathered.groups, pa.string()),
        pa.array(gathered.group_sequences, pa.int32()),
        pa.array(gathered.delivery_counts, pa.int32()),
        _properties(gathered),
        pa.array(gathered.body_types, pa.string()),
        pa.array(gathered.texts, pa.string()),
        pa.array(gathered.bytes, pa.binary()),
        _variants(
            gathered.body_values, gathered.body_metadata, pa.array([not v for v in gathered.body_values], pa.bool_())
        ),
        pa.array(gathered.sequences, pa.int64()),
        pa.array(gathered.broker_paths, schema.BROKERS),
        pa.array(gathered.in_times, schema.TIMESTAMP),
        pa.array(gathered.out_times, schema.TIMESTAMP),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow_schema())


def _properties(gathered: Gathered) -> pa.Array:
    values = _variants(gathered.property_values, gathered.property_metadata, None)
    names = pa.array(gathered.property_names, pa.string())
    return pa.MapArray.from_arrays(pa.array(gathered.property_ends, pa.int32()), names, values, type=schema.PROPERTIES)


def _variants(values: list[bytes], metadata: list[bytes], mask: pa.Array | None) -> pa.Array:
    arrays = [pa.array(values, pa.binary()), pa.array(metadata, pa.binary())]
    return pa.StructArray.from_arrays(arrays, fields=list(schema.VARIANT), mask=mask)
