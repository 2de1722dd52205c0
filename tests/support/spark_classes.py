"""The Java options of Spark in tests: quick to start, with the classes that Spark loads taken from an archive.

A start of Spark with a first stream takes 12 s of processor time, most of it for some 15,000 classes, and 7 s where
these come from an archive (application class data sharing, JEP 350). The tests start Spark some twenty times.
``python -m tests.support.spark_classes`` writes the archive beside PySpark, where there is none; `make` does so once.
Java passes over an archive of another Java or of other jars.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from spanwire.pipeline.session import local_session

ARCHIVE: Final = Path(pyspark.__file__).parent / "classes-of-tests.jsa"
# A Spark of the tests lives for a minute: quick to start matters more than quick at its best.
QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK_JAVA: Final = f"{QUICK_START} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else QUICK_START


def load_classes(spark: SparkSession, folder: Path) -> None:
    """Do a little of what the tests do: a stream, Python, Arrow, Parquet and JSON."""
    rows = spark.range(100).selectExpr("id % 3 AS key", "CAST(id AS STRING) AS text")
    rows.groupBy("key").count().write.parquet(str(folder / "parquet"))
    rows = spark.read.parquet(str(folder / "parquet"))
    rows.mapInArrow(lambda batches: batches, rows.schema).write.json(str(folder / "json"))
    stream = spark.readStream.schema(rows.schema).parquet(str(folder / "parquet"))
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "streamed")).awaitTermination()


def main() -> int:
    """Write the archive. The tests go on without one where Java cannot."""
    if ARCHIVE.exists():
        return 0
    begun = ARCHIVE.with_suffix(".part")
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "spark.driver.extraJavaOptions": f"{QUICK_START} -Xlog:disable -XX:ArchiveClassesAtExit={begun}",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
        }
        with local_session("classes", 2, options) as spark:
            load_classes(spark, Path(folder))
            java = spark.sparkContext._gateway.proc
        java.stdin.close()  # it ends, and writes
        java.wait()
    if begun.exists():
        begun.replace(ARCHIVE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
