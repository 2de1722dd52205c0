"""Spark streams that take what there is and end, on a machine that may be busy."""

from __future__ import annotations

from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

TIMEOUT_S: Final = 200
# Spark gives a Python process that it starts ten seconds to call back, and no setting changes that.
LATE: Final = "Python worker failed to connect back"
ATTEMPTS: Final = 4


def run_to_the_end(writer: DataStreamWriter) -> StreamingQuery:
    """Take what there is; the query that has ended. One whose Python process was late has not begun, and is started
    again from its checkpoint; raises whatever else ends it.
    """
    for attempt in range(1, ATTEMPTS + 1):
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(TIMEOUT_S), "the stream does not end"
            return query
        except StreamingQueryException as error:
            if LATE not in str(error) or attempt == ATTEMPTS:
                raise
    raise AssertionError("every attempt returns or raises")
