"""The rows of one partition into the broker, transaction by transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.options import WriteOptions
from spanwire.pipeline.rows import MessageSink, OutgoingRow


def send_all(
    options: WriteOptions, connect: Callable[[], MessageSink], partition: str, rows: Iterable[OutgoingRow]
) -> int:
    """Send every row with the id ``partition/index``; gives their number. Nothing is connected for no row.

    Raises `JmsError` when the broker does not take them; the last transaction is not committed then.
    """
    count = 0
    sink: MessageSink | None = None
    try:
        for row in rows:
            if sink is None:
                sink = connect()
            if options.duplicate_id_property is not None:
                row.properties[options.duplicate_id_property] = f"{partition}/{count}"
            sink.send(row)
            count += 1
            if count % options.max_transaction_rows == 0:
                sink.commit()
        if sink is not None and count % options.max_transaction_rows:
            sink.commit()
    finally:
        if sink is not None:
            sink.close()
    return count


def batch_name(query: str | None, batch: str | None) -> str:
    """What the ids of a stream's batch begin with, from what Spark tells the task of it.

    Raises `ConfigurationError` when Spark tells nothing: all batches would have the same ids, and a consumer that drops
    doubles would drop messages.
    """
    if not query or not batch:
        raise ConfigurationError(
            "spanwire: this version of Spark does not tell a sink which batch it writes; "
            'use another one, or .option("duplicateIdProperty", "") and consumers that stand doubles'
        )
    return f"{query}/{batch}"
