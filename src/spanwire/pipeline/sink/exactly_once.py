"""Chooses the exactly-once sink for a broker, and runs the steps of a batch.

Spanwire has a control destination; any other OpenWire broker gets a ledger. The option exactlyOnceBy overrides the
choice.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence
from typing import Final

from spanwire.client import blocking
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.protocol.producer import SendDefaults
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.link.connections import connect_for_redelivery
from spanwire.pipeline.link.control_client import Control
from spanwire.pipeline.options import AUTO, CONTROL, WriteOptions
from spanwire.pipeline.sink.batch_sink import Batch, BatchSink, StagedPart
from spanwire.pipeline.sink.control_sink import ControlSink
from spanwire.pipeline.sink.xa_ledger_link import BlockingBranchSession, BlockingLedger
from spanwire.pipeline.sink.xa_ledger_sink import BranchSession, LedgerLink, LedgerSink
from spanwire.protocols.openwire.codec.wire_format import PROVIDER_NAME

UNIQUE_DIGITS: Final = 12  # random hexadecimal digits; distinguish attempts of one partition


def batch_sink(options: WriteOptions) -> BatchSink:
    """Connect to the broker and return the sink for the options.

    Raises:
        JmsError: the broker is lost or refuses the login.
        ConfigurationError: the URL is invalid.
    """
    connection = connect_for_redelivery(options.login, None)
    method = options.exactly_once_by
    if method == CONTROL or (method == AUTO and is_spanwire(connection)):
        defaults = SendDefaults(options.persistent, options.priority, options.time_to_live_ms)
        control = Control(connection, defaults=defaults)
        return ControlSink(control, _target(options), options.first_ledger_batch, lambda: _close(connection))
    _close(connection)
    return ledger_sink(options)


def ledger_sink(options: WriteOptions) -> LedgerSink:
    """Return the sink for any broker; it connects when necessary."""

    def open_branch_session() -> BranchSession:
        return BlockingBranchSession(options)

    def open_ledger(query: str) -> LedgerLink:
        return BlockingLedger(options, query)

    return LedgerSink(_target(options), options.first_ledger_batch, open_branch_session, open_ledger, _unique_text)


def stage_part(
    options: WriteOptions, batch: Batch, partition: int, attempt: int, rows: Iterable[Outgoing]
) -> StagedPart:
    """Stage one attempt of a partition.

    Raises:
        JmsError: staging failed.
        ConfigurationError: the query cannot go on.
    """
    sink = batch_sink(options)
    try:
        return sink.stage(batch, partition, attempt, rows)
    finally:
        sink.close()


def commit_parts(options: WriteOptions, batch: Batch, parts: Sequence[StagedPart]) -> bool:
    """Commit the whole batch; return False if the batch was committed before.

    Raises:
        JmsError: the outcome is unknown.
        ConfigurationError: the query cannot go on.
    """
    sink = batch_sink(options)
    try:
        return sink.commit(batch, parts)
    finally:
        sink.close()


def batch_of_stream(query: str | None, run: str | None, number: str | None) -> Batch:
    """Return the batch from the properties of a Spark task.

    Raises:
        ConfigurationError: Spark does not pass query, run and batch.
    """
    if not query or not run or not number or not number.isdecimal():
        raise ConfigurationError(
            "spanwire: this version of Spark does not pass query and batch to a sink, so exactly-once delivery is "
            'impossible; use another version, or .option("qualityOfServiceMode", "DUPLICATES_OK")'
        )
    return Batch(query, run, int(number))


def is_spanwire(connection: blocking.Connection) -> bool:
    """Return True if the broker's provider name is Spanwire's."""
    link = connection.shared.core.correlator.link
    return link is not None and link.wire_format.provider_name == PROVIDER_NAME


def _target(options: WriteOptions) -> str:
    """Return the destination of the rows; empty if each row names a destination."""
    return "" if options.destination is None else str(options.destination)


def _close(connection: blocking.Connection) -> None:
    with contextlib.suppress(JmsError):
        connection.close()


def _unique_text() -> str:
    return uuid.uuid4().hex[:UNIQUE_DIGITS]
