"""A Spark program on a cluster that names every path relative to its own working directory.

    python -m tests.support.spark_cluster_program MASTER URL

A stream of its own, an archive and a route, one after the other on one session, each from a queue into files.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from spanwire.pipeline.archive.archive_query import ArchiveQuery
from spanwire.pipeline.routes.query import AVAILABLE_NOW
from spanwire.pipeline.routes.route_runner import run_routes, session_on
from spanwire.pipeline.routes.supervisor import SupervisedRoute, run_all
from spanwire.routes.model import Patience
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders

ROUTES = b"""
- route:
    id: one
    from:
      uri: "activemq:queue:ROUTED"
      steps:
        - to: "json:routed"
"""


def own_stream(spark: SparkSession, url: str) -> None:
    """As a user writes it."""
    stream = spark.readStream.format("spanwire").options(url=url, destination="OWN", stagingDirectory="own/staging")
    writer = stream.load().writeStream.format("spanwire").options(url=url, destination="OWN.OUT")
    writer = writer.option("checkpointLocation", "own/checkpoint").trigger(availableNow=True)
    writer.start().awaitTermination()


def main(master: str, url: str) -> None:
    with session_on(master, "relative paths") as spark:
        own_stream(spark, url)
        query = ArchiveQuery(spark, {"url": url, "destination": "queue://ARCHIVED"}, Path("archive"), AVAILABLE_NOW)
        stop = threading.Event()
        assert run_all([SupervisedRoute("archive", query, Patience(), print)], stop, time.monotonic)
        file = read_routes(ROUTES, "routes.yaml", Placeholders({}, {}), {"activemq": url})
        assert run_routes(spark, file, Path("routes.state"), AVAILABLE_NOW, {}, print, stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
