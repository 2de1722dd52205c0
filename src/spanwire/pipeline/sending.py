"""The rows of one partition into the broker, transaction by transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable

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
