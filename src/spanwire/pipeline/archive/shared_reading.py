"""Reads an archive on shared storage into a DataFrame.

PyArrow lists and reads the files, so no connector is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.parquet_files import is_file_name, read_file
from spanwire.pipeline.storage.arrow_files import open_files

SPARK_METADATA: Final = "_spark_metadata/"  # Spark's list of the files that count


def read_shared_archive(spark: SparkSession, address: str, ddl: str) -> DataFrame:
    """Return the rows of an archive with the columns ``ddl``.

    Raises:
        ConfigurationError: the directory is no archive.
        SharedStorageError: the file system refuses.
    """
    files = open_files(address)
    names = sorted(files.all_sizes())
    if any(name.startswith(SPARK_METADATA) for name in names):
        raise ConfigurationError(
            f"{files.address()} was written by a stream of Spark itself; read it with spark.read and Spark's connector"
        )
    names = [name for name in names if is_file_name(name)]
    if not names:
        raise ConfigurationError(f"{files.address()} is no archive; there is no destination=… in it")

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name in batch.column(0).to_pylist():
                yield from read_file(open_files(address), name)

    frame = spark.createDataFrame([(name,) for name in names], "name string")
    return frame.repartition(min(len(names), 4 * spark.sparkContext.defaultParallelism)).mapInArrow(read, ddl)
