"""Batches of a stream in a Delta table, each once and only once.

    table = {"path": "/data/orders"}
    query = rows.writeStream.foreachBatch(lambda batch, number: write_once(batch, number, table)).start()

A Delta table notes in each commit the last batch of an application (``txnAppId``, ``txnVersion``) and skips a batch
that it has. The commit is one file of the table's log, so a kill leaves the table without the batch or with all of it.

A query of its own, ``rows.writeStream.format("delta")``, notes its batches in the same way without this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.jdbc import QUERY
from spanwire.pipeline.routes.format_jars import jar_fault

FORMAT: Final = "delta"
APPLICATION: Final = "txnAppId"
VERSION: Final = "txnVersion"
PATH: Final = "path"
TABLE: Final = "table"


def write_once(batch: DataFrame, number: int, options: Mapping[str, str], name: str = "") -> None:
    """Append the rows of a batch to a Delta table, unless the table has the batch.

    Call the function in ``foreachBatch``. Several tables may get one batch, each by a call of its own. Two calls for
    the same table need two names.

    Args:
        batch: the rows. A table that does not exist is made.
        number: the number of the batch.
        options: ``path`` of the table or ``table``, its name in the catalog; further ones are for Delta's writer.
        name: the application that the table notes; by default the id of the query, which belongs to its checkpoint.

    Raises:
        ConfigurationError: an option is missing or not for the caller, or Spark has no suitable Delta.
    """
    application = name or _query(batch)
    rest = {option: value for option, value in options.items() if option.lower() not in (PATH, TABLE)}
    taken = [option for option in rest if option.lower() in (APPLICATION.lower(), VERSION.lower())]
    if taken:
        raise ConfigurationError(f"write_once sets {taken[0]} itself; give the application as the argument name")
    places = {option.lower(): value for option, value in options.items() if option not in rest}
    if len(places) != 1:
        raise ConfigurationError("write_once for Delta needs the path of the table, or its name as the option table")
    writer = batch.write.format(FORMAT).mode("append").options(**rest, txnAppId=application, txnVersion=str(number))
    try:
        if TABLE in places:
            writer.saveAsTable(places[TABLE])
        else:
            writer.save(places[PATH])
    except (PySparkException, Py4JError) as error:
        fault = jar_fault(FORMAT, str(error), pyspark.__version__)
        if fault is None:
            raise
        raise ConfigurationError(fault) from None


def _query(batch: DataFrame) -> str:
    """Return the id of the query to which a batch belongs.

    Raises:
        ConfigurationError: the batch belongs to none, or the session is one of Spark Connect, which does not tell.
    """
    try:
        query = batch.sparkSession.sparkContext.getLocalProperty(QUERY)
    except PySparkException:
        query = None
    if not query:
        raise ConfigurationError(
            "write_once knows no query: call it in foreachBatch of a classic session, or give it a name that belongs "
            "to the checkpoint"
        )
    return str(query)
