"""One batch to its endpoints, each write so that its repetition is known again.

| endpoint                      | known by                                                                  |
|-------------------------------|---------------------------------------------------------------------------|
| a broker that commits once    | a ledger of the endpoint, and the batch's number                          |
| a broker that does not        | the duplicate ids of the messages                                         |
| files                         | a directory of the batch (``route_run=…/route_batch=…``), written anew    |
| Delta                         | the table's own note of an application's last batch (``txnAppId``)        |
| jdbc, other formats           | nothing                                                                   |

Rows that a first attempt has sent here go elsewhere in the second one when the steps do not give the same rows, and
nothing of them may stay: a batch that has no rows for an endpoint is written to files all the same, over what the first
attempt left. To a broker that commits once it is written, too: a ledger begins with the first batch of its endpoint,
not with the first row.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final

from pyspark.sql import DataFrame

from spanwire.pipeline.options import write_options
from spanwire.pipeline.parquet import with_parquet_options
from spanwire.pipeline.routes.format_jars import report_missing_jars
from spanwire.routes.endpoints import FILE_FORMATS
from spanwire.routes.model import BROKER, Endpoint

DELTA: Final = "delta"
ENDPOINT_DIGITS: Final = 16  # of the hash of an endpoint in the name of its ledger


class BatchWriter:
    """Writes the parts of one batch; made anew for each."""

    def __init__(self, run: str, batch: int, first_batch: Callable[[str, int], int]) -> None:
        """``run`` names the state of the route; ``first_batch`` gives the batch that begins a ledger, which is the
        given one when the ledger was not heard of before.
        """
        self._run: Final = run
        self._batch: Final = batch
        self._first_batch: Final = first_batch
        self._count = 0  # of endpoints on the way; the same in every attempt
        self._counts: Final[dict[str, int]] = {}

    def write(self, frame: DataFrame, endpoint: Endpoint, is_rare: bool = False) -> None:
        """The rows for one endpoint. Those that are rare cost nothing when there are none and nobody has to know."""
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
        with report_missing_jars(endpoint):
            frame.write.format(endpoint.format).mode(mode).options(**options).save()

    def _ledger_name(self, name: str, nth: int) -> str:
        """The same when other endpoints come or go before this one, or its broker moves to another address."""
        digest = sha256(name.encode()).hexdigest()[:ENDPOINT_DIGITS]
        return f"{self._run}.{digest}.{nth}"


def is_committed_once(endpoint: Endpoint) -> bool:
    """Whether an endpoint that has had a batch takes no other rows for it."""
    if endpoint.kind == BROKER:
        return write_options(endpoint.options).is_committed_once
    return endpoint.format == DELTA


def _endpoint_key(endpoint: Endpoint) -> str:
    """What tells an endpoint from others: of Delta the table, which its URI does not name."""
    return f"{endpoint.uri}:{endpoint.destination}" if endpoint.format == DELTA else endpoint.uri
