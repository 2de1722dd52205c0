"""A Spark program that stops at points and goes on: from one broker to another, until every point was reached.

    SPANWIRE_FAULTS=FOLDER python -m tests.support.spark_once_victim FOLDER

FOLDER/plan.json has the options of ``source`` and ``sink``, and the ``master`` of a cluster, if any. A query that fails
is started again; when no point is left, a last query takes what there is, and the program ends with 0.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spanwire.pipeline.routes.route_runner import session_on
from spanwire.pipeline.session import local_session
from tests.support.spark_classes import QUICK_JAVA
from tests.support.spark_faults import FaultyDataSource, points, reached

ROWS_AT_ONCE = 20
PAUSE_S = 0.1
MAX_STARTS = 60
SMALL_RECORD_BATCHES = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_AT_ONCE)}
SETTINGS = {
    "spark.master": "local[2,4]",  # a task is tried four times
    **SMALL_RECORD_BATCHES,
    "spark.driver.extraJavaOptions": QUICK_JAVA,
}


def started(spark: SparkSession, folder: Path, is_last: bool) -> StreamingQuery:
    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    rows = spark.readStream.format("faulty").options(**plan["source"]).load().select("text", "properties")
    writer = rows.writeStream.format("faulty").options(**plan["sink"])
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(availableNow=True) if is_last else writer).start()


def ended(query: StreamingQuery, folder: Path, is_last: bool) -> bool:
    """Wait for the end, or until no point is left. False: it has failed."""
    try:
        while not query.awaitTermination(PAUSE_S):
            if not is_last and reached() >= len(points()):
                query.stop()
                return True
    except StreamingQueryException as error:
        with (folder / "failures").open("a", encoding="utf-8") as file:
            lines = [line for line in str(error).splitlines() if "Error: " in line] or str(error).splitlines()[:1]
            file.write(lines[-1] + "\n")
        time.sleep(PAUSE_S)
        return False
    return True


def session(folder: Path) -> AbstractContextManager[SparkSession]:
    master = json.loads((folder / "plan.json").read_text("utf-8")).get("master")
    if master is not None:  # with the settings of `SparkCluster.driver_environment`
        return session_on(master, "victim", log=folder / "spark.log")
    return local_session("victim", 2, {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")})


def main(folder: Path) -> None:
    with session(folder) as spark:
        (folder / "driver.pid").write_text(str(os.getpid()), "utf-8")
        (folder / "jvm.pid").write_text(str(spark.sparkContext._gateway.proc.pid), "utf-8")
        spark.dataSource.register(FaultyDataSource)
        for _ in range(MAX_STARTS):
            is_last = reached() >= len(points())
            if ended(started(spark, folder, is_last), folder, is_last) and is_last:
                return
        raise SystemExit("the query does not come to its end")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
