"""Writes one batch to its endpoints, so that a repetition of each write is recognised.

| endpoint                      | recognised by                                                             |
|-------------------------------|---------------------------------------------------------------------------|
| a broker that commits once    | a ledger of the endpoint, and the number of the batch                     |
| any other broker              | the duplicate ids of the messages                                         |
| files                         | a directory of the batch (``route_run=…/route_batch=…``), overwritten     |
| Delta                         | the table's record of an application's last batch (``txnAppId``)          |
| jdbc that commits once        | the number of the batch in the ledger of the database (`write_once`)      |
| other jdbc, other formats     | not recognised                                                            |

If the steps return other rows in a second attempt, rows may go to another endpoint than before, and the first attempt
must leave no trace. So a batch without rows for an endpoint is still written to files, over the rows of the first
attempt. An empty batch is written to a broker that commits once, too: its ledger begins with the first batch of the
endpoint, not with the first row.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final

from pyspark.sql import DataFrame

from spanwire.pipeline.jdbc import write_once
from spanwire.pipeline.options import DUPLICATES_OK, QUALITY, write_options
from spanwire.pipeline.parquet import with_parquet_options
from spanwire.pipeline.routes.format_jars import report_missing_jars
from spanwire.routes.endpoints import FILE_FORMATS, JDBC
from spanwire.routes.model import BROKER, Endpoint

DELTA: Final = "delta"
ENDPOINT_DIGITS: Final = 16  # hexadecimal digits of an endpoint's hash in the name of its ledger


class BatchWriter:
    """Writes the parts of one batch; created for each batch."""

    def __init__(self, run: str, batch: int, first_batch: Callable[[str, int], int]) -> None:
        """Write the batch number ``batch``.

        Args:
            run: the name of the run in the state of the route.
            first_batch: returns the first batch of a ledger, the given batch for a new ledger.
        """
        self._run: Final = run
        self._batch: Final = batch
        self._first_batch: Final = first_batch
        self._count = 0  # endpoints written so far; equal in every attempt
        self._counts: Final[dict[str, int]] = {}

    def write(self, frame: DataFrame, endpoint: Endpoint, is_rare: bool = False) -> None:
        """Write the rows for one endpoint.

        With ``is_rare`` an empty frame is skipped if the endpoint needs no empty batches.
        """
        self._count += 1
        key = _endpoint_key(endpoint)
        nth = self._counts[key] = self._counts.get(key, 0) + 1
        options = with_parquet_options(endpoint.format, endpoint.options)
        mode = "append"
        if endpoint.kind == BROKER and is_committed_once(endpoint):
            ledger = self._ledger_name(key, nth)
            options.setdefault("firstLedgerBatch", str(self._first_batch(ledger, self._batch)))
            options |= {"ledger": ledger, "ledgerBatch": str(self._batch)}
        elif endpoint.format in FILE_FORMATS:
            mode = "overwrite"
            options["path"] = f"{options['path']}/route_run={self._run}/route_batch={self._batch:010}"
        elif is_rare and frame.isEmpty():
            return
        elif endpoint.kind == BROKER:
            options["duplicateIdPrefix"] = f"{self._run}/{self._batch}/{self._count}"
        elif endpoint.format == DELTA:
            options |= {"txnAppId": self._ledger_name(key, nth), "txnVersion": str(self._batch)}
        if endpoint.format == JDBC:
            quality = options.pop(QUALITY, DUPLICATES_OK)
            if quality != DUPLICATES_OK:
                write_once(frame, self._batch, options, self._ledger_name(key, nth))
                return
        with report_missing_jars(endpoint):
            frame.write.format(endpoint.format).mode(mode).options(**options).save()

    def _ledger_name(self, name: str, nth: int) -> str:
        """Return a name that survives other endpoints and another address of the broker."""
        digest = sha256(name.encode()).hexdigest()[:ENDPOINT_DIGITS]
        return f"{self._run}.{digest}.{nth}"


def is_committed_once(endpoint: Endpoint) -> bool:
    """Return True if an endpoint accepts no other rows for a committed batch."""
    if endpoint.kind == BROKER:
        return write_options(endpoint.options).is_committed_once
    return endpoint.format == DELTA or endpoint.options.get(QUALITY, DUPLICATES_OK) != DUPLICATES_OK


def _endpoint_key(endpoint: Endpoint) -> str:
    """Return the identity of an endpoint: its URI, for Delta with the table; that of JDBC has the table."""
    return f"{endpoint.uri}:{endpoint.destination}" if endpoint.format == DELTA else endpoint.uri
