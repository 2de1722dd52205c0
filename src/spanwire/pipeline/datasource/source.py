"""What Spark knows as ``format("spanwire")``."""

from __future__ import annotations

from pathlib import Path
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

PATH_NAMES: Final = frozenset(name.lower() for name in PATHS)


class SpanwireDataSource(DataSource):
    """Queues and topics of a broker that speaks OpenWire. Every fault of options or columns is an error of one line,
    here.
    """

    def __init__(self, options: dict[str, str]) -> None:
        """Make paths absolute. Spark calls this where the program runs, and sends the object to executors."""
        super().__init__(options)
        for name, value in options.items():
            if name.lower() in PATH_NAMES and value:
                options[name] = str(Path(value).absolute())

    @classmethod
    def name(cls) -> str:
        """The word after ``format``."""
        return "spanwire"

    def schema(self) -> str:
        """The columns of a message, whatever is read."""
        read_options(self.options)
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """Messages as they are in the queue now."""
        _check_schema(schema)
        options = read_options(self.options)
        if options.cursor is not None:
            raise ConfigurationError("spanwire: a cursor is for a stream; spark.readStream can end with availableNow")
        if options.mode != BROWSE:
            check_batch(options)
            staging_directory(options)
            return SpanwireReader(dict(self.options))
        check_browsable(options)
        return FilteringReader(dict(self.options)) if options.filter_pushdown else SpanwireReader(dict(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of messages as they come; what is wrong is raised by its first method. PySpark replaces an
        error that is raised here by one of its own.
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
        if options.cursor is not None:
            return CursorStreamReader(dict(self.options))
        staging_directory(options)
        return SpanwireStreamReader(dict(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Rows as messages, once."""
        self._check_write(schema, overwrite)
        option_map = dict(self.options)
        options = write_options(option_map)
        if options.is_committed_once:
            return ExactWriter(option_map)
        return SpanwireWriter(option_map)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Rows as messages, batch for batch."""
        self._check_write(schema, overwrite)
        option_map = dict(self.options)
        return (
            ExactStreamWriter(option_map)
            if write_options(option_map).is_committed_once
            else SpanwireStreamWriter(option_map)
        )

    def _check_write(self, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigurationError('spanwire: what is in a queue cannot be overwritten; use the mode "append"')
        columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        check_columns(columns, write_options(self.options))


def _check_schema(schema: StructType) -> None:
    if [(field.name, field.dataType.simpleString()) for field in schema.fields] != list(COLUMNS):
        raise ConfigurationError(
            "spanwire: the columns of a message are fixed; leave .schema(…) out and select from them"
        )
