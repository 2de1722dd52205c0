"""The data source of ``format("spanwire")``."""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.arrow.rows import check_columns
from spanwire.pipeline.arrow.schema import COLUMNS, DDL
from spanwire.pipeline.datasource.cursor_reader import CursorStreamReader
from spanwire.pipeline.datasource.exact_writer import ExactStreamWriter, ExactWriter
from spanwire.pipeline.datasource.filtering_reader import FilteringReader
from spanwire.pipeline.datasource.reader import SpanwireReader
from spanwire.pipeline.datasource.sources_reader import SourcesStreamReader
from spanwire.pipeline.datasource.stream_reader import RefusedStreamReader, SpanwireStreamReader
from spanwire.pipeline.datasource.stream_writer import SpanwireStreamWriter
from spanwire.pipeline.datasource.writer import SpanwireWriter
from spanwire.pipeline.options import (
    BROWSE,
    PATHS,
    check_batch,
    check_browsable,
    read_options,
    staging_directory,
    write_options,
)
from spanwire.pipeline.storage.location import absolute

PATH_NAMES: Final = frozenset(name.lower() for name in PATHS)


class SpanwireDataSource(DataSource):
    """Queues and topics of an OpenWire broker.

    Every fault of options or columns raises an error of one line.
    """

    def __init__(self, options: dict[str, str]) -> None:
        """Make paths absolute, because Spark sends this object from the program to executors."""
        super().__init__(options)
        for name, value in options.items():
            if name.lower() in PATH_NAMES and value:
                options[name] = absolute(value)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "spanwire"

    def schema(self) -> str:
        """Return the columns of a message, which do not depend on the source."""
        read_options(self.options)
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the messages that are in the queue now."""
        _check_schema(schema)
        options = read_options(self.options)
        if options.brokers:
            raise ConfigurationError(
                "spanwire: the option brokers is for a stream; a batch read names one broker by url"
            )
        if options.cursor is not None:
            raise ConfigurationError("spanwire: a cursor is for a stream; spark.readStream can end with availableNow")
        if options.mode != BROWSE:
            check_batch(options)
            staging_directory(options)
            return SpanwireReader(dict(self.options))
        check_browsable(options)
        return FilteringReader(dict(self.options)) if options.filter_pushdown else SpanwireReader(dict(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of messages as they arrive.

        The first method of the reader raises a fault of the options, because PySpark hides errors raised here.
        """
        try:
            return self._stream_reader(schema)
        except ConfigurationError as error:
            return RefusedStreamReader(error)

    def _stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        _check_schema(schema)
        options = read_options(self.options)
        if options.mode == BROWSE and "mode" in self.options:
            raise ConfigurationError("spanwire: a stream consumes what it reads; leave the option mode out")
        if options.cursor is None:
            staging_directory(options)
        if options.brokers:
            return SourcesStreamReader(dict(self.options))
        if options.cursor is not None:
            return CursorStreamReader(dict(self.options))
        return SpanwireStreamReader(dict(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer of a DataFrame."""
        self._check_write(schema, overwrite)
        option_map = dict(self.options)
        options = write_options(option_map)
        if options.is_committed_once:
            return ExactWriter(option_map)
        return SpanwireWriter(option_map)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return a writer of a stream's batches."""
        self._check_write(schema, overwrite)
        option_map = dict(self.options)
        return (
            ExactStreamWriter(option_map)
            if write_options(option_map).is_committed_once
            else SpanwireStreamWriter(option_map)
        )

    def _check_write(self, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigurationError('spanwire: messages in a queue cannot be overwritten; use the mode "append"')
        columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        check_columns(columns, write_options(self.options))


def _check_schema(schema: StructType) -> None:
    if [(field.name, field.dataType.simpleString()) for field in schema.fields] != list(COLUMNS):
        raise ConfigurationError(
            "spanwire: the columns of a message are fixed; leave .schema(…) out and select from them"
        )
