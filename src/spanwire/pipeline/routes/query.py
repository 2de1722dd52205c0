"""A route as one streaming query.

A route with a single endpoint at its end, a queue or files, is a plain query: files are written exactly once, and
messages of a repeated batch have the same ids. Any other route delivers batch by batch (`delivery`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spanwire.pipeline.parquet import with_parquet_options
from spanwire.pipeline.routes.batch_rows import BatchRows, unstorable_column
from spanwire.pipeline.routes.batch_writer import BatchWriter
from spanwire.pipeline.routes.delivery import Delivery, is_deterministic, must_agree, must_keep
from spanwire.pipeline.routes.format_jars import report_missing_jars
from spanwire.pipeline.routes.functions import TextFunction
from spanwire.pipeline.routes.route_state import RouteState
from spanwire.pipeline.routes.step_builder import StepBuilder, check_endpoint, endpoint_rows, location_of
from spanwire.pipeline.routes.supervisor import failure_text
from spanwire.pipeline.watch.batch_traces import observed
from spanwire.routes.endpoints import FILE_FORMATS
from spanwire.routes.model import (
    BROKER,
    Aggregate,
    CallFunction,
    Choice,
    Deduplicate,
    Endpoint,
    Filter,
    Route,
    Step,
    To,
    branches_of,
    is_branching,
)
from spanwire.routes.readers.nodes import Location

AVAILABLE_NOW: Final = "available-now"
QUERY_PROPERTY: Final = "sql.streaming.queryId"  # Spark's property with the query of a batch


class RouteQuery:
    """Starts the query of a route, as often as necessary."""

    def __init__(
        self,
        spark: SparkSession,
        route: Route,
        state: RouteState,
        functions: Mapping[tuple[str, str], TextFunction],
        trigger: str,
        is_traced: bool = False,
    ) -> None:
        """Use ``trigger``, `AVAILABLE_NOW` or an interval such as ``1 second``.

        With ``is_traced`` each batch gathers the contexts of its messages.
        """
        self.route: Final = route
        self._spark: Final = spark
        self._state: Final = state
        self._builder: Final = StepBuilder(spark, functions)
        self._trigger: Final = trigger
        self._is_traced: Final = is_traced

    def start(self) -> StreamingQuery:
        """Start a query and return it.

        Raises:
            ConfigurationError: Spark does not understand or find a part of the route.
        """
        if not must_agree(self.route):  # an earlier version of the route may have kept rows
            shutil.rmtree(self._state.batches, ignore_errors=True)
        with report_errors_at(self.route.source.location):
            frame = source_frame(self._spark, self.route.source, self._state)
            if self._is_traced and self.route.source.kind == BROKER:
                frame = observed(frame)
            on_stream, on_batch = split_steps(self.route)
            has_watermark = False
            for step in on_stream:
                frame = self._builder.apply(frame, step, sets_watermark=not has_watermark)
                has_watermark = has_watermark or isinstance(step, (Aggregate, Deduplicate))
        endpoint = only_endpoint(self.route, on_batch)
        with report_errors_at(self.route.location if endpoint is None else endpoint.location):
            return self._start_stream(frame, endpoint, on_batch)

    def _start_stream(self, frame: DataFrame, endpoint: Endpoint | None, on_batch: list[Step]) -> StreamingQuery:
        if endpoint is not None:
            frame = endpoint_rows(frame, endpoint)
            options = with_parquet_options(endpoint.format, endpoint.options)
            if endpoint.format in FILE_FORMATS:
                options["path"] = qualify_path(self._spark, options["path"])
            writer = frame.writeStream.format(endpoint.format).options(**options)
        else:
            self._check(frame.limit(0), on_batch)
            writer = frame.writeStream.foreachBatch(self._deliver)
        writer = writer.queryName(self.route.name).option("checkpointLocation", self._state.checkpoint)
        if self._trigger == AVAILABLE_NOW:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=self._trigger).start()

    def _deliver(self, batch: DataFrame, number: int) -> None:
        before, steps = split_steps(self.route)
        query = self._query()
        writer = BatchWriter(self._state.run_of(query), number, self._state.first_batch)
        keeper = self._open_keeper(query, number) if must_agree(self.route) else None
        delivery = Delivery(self._builder, self.route.dead_letters, writer, keeper)
        delivery.deliver(batch, before, steps, is_repeatable=self.route.source.kind == BROKER)

    def _query(self) -> str:
        query = self._spark.sparkContext.getLocalProperty(QUERY_PROPERTY)
        if not query:
            raise self.route.location.error(
                "this version of Spark does not pass the query of a batch, so exactly-once delivery is impossible; use "
                "another version"
            )
        return str(query)

    def _open_keeper(self, query: str, number: int) -> BatchRows:
        keeper = BatchRows(self._spark, self._state.batches, query, number)
        keeper.sweep()
        return keeper

    def _check(self, frame: DataFrame, steps: list[Step]) -> None:
        """Report errors of steps after the first endpoint now, not in the first batch."""
        before, _ = split_steps(self.route)
        is_repeatable = self.route.source.kind == BROKER and all(is_deterministic(step) for step in before)
        for index, step in enumerate(steps):
            if is_dividing(self.route, step) and must_keep(self.route, is_repeatable, index, steps):
                fault = unstorable_column(frame.schema)
                if fault is not None:
                    raise location_of(step).error(fault)
                is_repeatable = True
            is_repeatable = is_repeatable and (is_branching(step) or is_deterministic(step))
            frame = self._check_step(frame, step)

    def _check_step(self, frame: DataFrame, step: Step) -> DataFrame:
        """Return the rows after a step, tried with all branches."""
        if not is_branching(step):
            return self._builder.apply(frame, step)
        if isinstance(step, To):
            check_endpoint(frame, step.endpoint)
        conditions = [step.condition] if isinstance(step, Filter) else []
        if isinstance(step, Choice):
            conditions = [condition for condition, _ in step.branches]
        for condition in conditions:
            self._builder.condition(frame, condition)
        for branch in branches_of(step):
            rows = frame
            for inner in branch:
                rows = self._check_step(rows, inner)
        return frame


@contextmanager
def report_errors_at(location: Location) -> Iterator[None]:
    """Turn errors of Spark inside the context into a `ConfigurationError` of one line at the location."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise location.error(f"Spark says: {failure_text(error)}") from None


def split_steps(route: Route) -> tuple[list[Step], list[Step]]:
    """Return the steps of the stream, and the steps that need whole batches.

    The second list begins with the first branch, or with the first function whose failures are dead letters.
    """
    for index, step in enumerate(route.steps):
        if is_dividing(route, step):
            return route.steps[:index], route.steps[index:]
    return route.steps, []


def is_dividing(route: Route, step: Step) -> bool:
    """Return True if rows take several paths from the step on."""
    return is_branching(step) or (isinstance(step, CallFunction) and route.dead_letters is not None)


def only_endpoint(route: Route, on_batch: list[Step]) -> Endpoint | None:
    """Return the endpoint of a route with one endpoint at the end, for a stream, or ``None``."""
    if route.dead_letters is not None or len(on_batch) != 1 or not isinstance(on_batch[0], To):
        return None
    endpoint = on_batch[0].endpoint
    return endpoint if endpoint.kind == BROKER or endpoint.format in FILE_FORMATS else None


def qualify_path(spark: SparkSession, path: str) -> str:
    """Return the path with its file system and directory as seen by this program.

    Spark qualifies all paths except streams into files, where each executor would use a working directory of its own.
    """
    jvm, context = spark.sparkContext._jvm, spark.sparkContext._jsc
    assert jvm is not None and context is not None
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
    return str(hadoop_path.getFileSystem(context.hadoopConfiguration()).makeQualified(hadoop_path).toString())


def source_frame(spark: SparkSession, source: Endpoint, state: RouteState) -> DataFrame:
    """Return the stream of a source.

    Files are read with their columns at the start of the route.
    """
    with report_missing_jars(source):
        return _load_source(spark, source, state)


def _load_source(spark: SparkSession, source: Endpoint, state: RouteState) -> DataFrame:
    options = dict(source.options)
    if source.kind == BROKER:
        if "cursor" not in options:  # a cursor leaves the messages at the broker
            options["stagingDirectory"] = state.staging
        return spark.readStream.format(source.format).options(**options).load()
    if source.format in FILE_FORMATS:
        columns = spark.read.format(source.format).options(**options).load().schema
        return spark.readStream.format(source.format).schema(columns).options(**options).load()
    return spark.readStream.format(source.format).options(**options).load()
