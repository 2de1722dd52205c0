"""Steps of a route as operations on a DataFrame; nothing is executed in this module.

In a route with dead letters, failed rows get the reason in the column `ERROR` and leave the route.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.arrow.rows import BODY_COLUMNS, COLUMN_TYPES, check_columns, row_errors
from spanwire.pipeline.columns.body_types import BYTES_BODY, TEXT_BODY, UNREADABLE
from spanwire.pipeline.options import write_options
from spanwire.pipeline.routes.format_jars import report_missing_jars
from spanwire.pipeline.routes.functions import TextFunction
from spanwire.pipeline.selector_column import selector_column
from spanwire.pipeline.selectors.selector_evaluation import property_entry
from spanwire.routes.masking import mask
from spanwire.routes.model import (
    BROKER,
    CONSTANT,
    SELECTOR,
    Aggregate,
    CallFunction,
    Deduplicate,
    Endpoint,
    Expression,
    Filter,
    Join,
    RemoveHeader,
    SetHeader,
    Split,
    Step,
    To,
    Transform,
)
from spanwire.routes.readers.nodes import Location

ERROR: Final = "_spanwire_error"
REASON: Final = "_spanwire_reason"  # the reason of a failed row while its other columns are checked
CALLED: Final = "_spanwire_called"
KEY: Final = "_spanwire_key"
CAUSE: Final = "dlqDeliveryFailureCause"  # ActiveMQ's property with the cause of a dead letter
MAX_CAUSE: Final = 500  # characters
PROPERTIES: Final = "map<string,variant>"
EMPTY: Final = f"cast(map() AS {PROPERTIES})"
HEADER_TYPES: Final = {
    name: kinds[0] for name, kinds in COLUMN_TYPES.items() if name.startswith("JMS") and name != "JMSDestination"
}


class StepBuilder:
    """Applies steps; errors of SQL name the line of the step."""

    def __init__(self, spark: SparkSession, functions: Mapping[tuple[str, str], TextFunction]) -> None:
        self._spark: Final = spark
        self._functions: Final = functions

    def apply(self, frame: DataFrame, step: Step, sets_watermark: bool = True) -> DataFrame:
        """Return the rows after a step without branches.

        Without ``sets_watermark`` an earlier step has set the watermark of the route: Spark lets nobody set it again.

        Raises:
            ConfigurationError: Spark refuses the step.
        """
        location = location_of(step)
        try:
            return self._build(frame, step, sets_watermark)
        except (AnalysisException, ParseException) as error:
            raise location.error(f"Spark says: {first_line(error)}") from None

    def call_function(self, frame: DataFrame, step: CallFunction, keep_errors: bool) -> DataFrame:
        """Return the rows with the column `CALLED`: the function's text and its error.

        Without ``keep_errors`` an error ends the query.
        """
        return call_column(frame, self._functions[step.module, step.name], step, keep_errors)

    def split_sendable(self, frame: DataFrame, endpoint: Endpoint) -> tuple[DataFrame, DataFrame, DataFrame]:
        """Return the rows that make a message, the other rows with their reasons, and both together.

        The caller must unpersist the third frame.
        """
        marked = mark_unsendable(frame, endpoint).persist()
        good = marked.where(F.col(ERROR).isNull()).drop(ERROR)
        return good, marked.where(F.col(ERROR).isNotNull()), marked

    def condition(self, frame: DataFrame, expression: Expression) -> Column:
        """Return a column that is true where the condition is true.

        Raises:
            ConfigurationError: Spark refuses the condition.
        """
        try:
            column = selector_column(expression.text) if expression.language == SELECTOR else F.expr(expression.text)
            frame.where(column)
        except (AnalysisException, ParseException) as error:
            raise expression.location.error(f"Spark says: {first_line(error)}") from None
        return F.coalesce(column, F.lit(False))

    def _build(self, frame: DataFrame, step: Step, sets_watermark: bool) -> DataFrame:
        if sets_watermark and isinstance(step, (Aggregate, Deduplicate)):
            frame = frame.withWatermark(step.time, step.watermark)
        if isinstance(step, Filter):
            return frame.where(self.condition(frame, step.condition))
        if isinstance(step, SetHeader):
            return set_header(frame, step.name, value_of(step.value))
        if isinstance(step, RemoveHeader):
            return remove_header(frame, step.name)
        if isinstance(step, Transform):
            return transform(frame, step)
        if isinstance(step, CallFunction):
            called = self.call_function(frame, step, keep_errors=False)
            return with_body(called, "text", F.col(f"{CALLED}.text")).drop(CALLED)
        if isinstance(step, Split):
            return with_body(frame, "text", F.explode(F.expr(step.sql).cast("array<string>")))
        if isinstance(step, Aggregate):
            return aggregate(frame, step)
        if isinstance(step, Deduplicate):
            keyed = frame.withColumn(KEY, F.expr(step.key))
            return keyed.dropDuplicatesWithinWatermark([KEY]).drop(KEY)
        assert isinstance(step, Join)
        return self._join(frame, step)

    def _join(self, frame: DataFrame, step: Join) -> DataFrame:
        table = read_table(self._spark, step.table)
        joined = frame.alias("message").join(table.alias("table"), F.expr(step.on), "left" if step.is_left else "inner")
        added = [F.expr(sql).alias(name) for name, sql in step.columns]
        return joined.select("message.*", *added)


def location_of(step: Step) -> Location:
    """Return the location of a step in its file."""
    if isinstance(step, Filter):
        return step.condition.location
    return step.endpoint.location if isinstance(step, To) else step.location


def read_table(spark: SparkSession, endpoint: Endpoint) -> DataFrame:
    """Return the table of a join, read again for each batch."""
    with report_missing_jars(endpoint):
        return spark.read.format(endpoint.format).options(**endpoint.options).load()


def value_of(expression: Expression) -> Column:
    """Return the column of a value."""
    return F.lit(expression.text) if expression.language == CONSTANT else F.expr(expression.text)


def set_header(frame: DataFrame, name: str, value: Column) -> DataFrame:
    """Set a header, or a property with the type of the value."""
    if name in HEADER_TYPES:
        return frame.withColumn(name, value.cast(HEADER_TYPES[name]))
    remaining = F.map_filter(F.coalesce(F.col("properties"), F.expr(EMPTY)), lambda key, _: key != name)
    added = F.create_map(F.lit(name), value.cast("variant"))
    return frame.withColumn("properties", F.map_concat(remaining, added))


def remove_header(frame: DataFrame, name: str) -> DataFrame:
    """Remove a header or properties; a trailing ``*`` matches any rest of a name."""
    if name in HEADER_TYPES:
        return frame.withColumn(name, F.lit(None).cast(HEADER_TYPES[name]))
    beginning = name[:-1] if name.endswith("*") else None

    def is_kept(key: Column, _: Column) -> Column:
        return key != name if beginning is None else ~key.startswith(beginning)

    return frame.withColumn("properties", F.map_filter(F.col("properties"), is_kept))


def with_body(frame: DataFrame, column: str, value: Column) -> DataFrame:
    """Set a body in one body column and clear the other body columns."""
    frame = frame.withColumn(column, value)
    kind = {"text": TEXT_BODY, "bytes": BYTES_BODY}.get(column)
    for name in BODY_COLUMNS:
        if name != column and name in frame.columns:
            frame = frame.withColumn(name, F.lit(None).cast(COLUMN_TYPES[name][0]))
    return frame.withColumn("body_type", F.lit(kind)) if "body_type" in frame.columns else frame


def transform(frame: DataFrame, step: Transform) -> DataFrame:
    """Add or select columns; a new body replaces the old one."""
    if step.only:
        return frame.select(*[F.expr(sql).alias(name) for name, sql in step.columns])
    for name, sql in step.columns:
        value = F.expr(sql)
        frame = with_body(frame, name, value) if name in BODY_COLUMNS else frame.withColumn(name, value)
    return frame


def aggregate(frame: DataFrame, step: Aggregate) -> DataFrame:
    """Return one row for each group of each completed window."""
    window = F.window(step.time, step.window, step.slide) if step.slide else F.window(step.time, step.window)
    groups = [F.expr(sql).alias(name) for name, sql in step.by]
    columns = [F.expr(sql).alias(name) for name, sql in step.columns]
    aggregated = frame.groupBy(window.alias("window"), *groups).agg(*columns)
    names = [name for name, _ in [*step.by, *step.columns]]
    return aggregated.select(
        F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), *names
    )


def call_column(frame: DataFrame, function: TextFunction, step: CallFunction, keep_errors: bool) -> DataFrame:
    """Add the column `CALLED` with the result of a function for each row."""
    origin = f"{step.location.file}:{step.location.line}: {step.module}.{step.name}"

    def call(rows: pa.Array) -> pa.Array:
        answers: list[dict[str, str | None]] = []
        for row in rows.to_pylist():
            text, error = answer_of(function, row["text"], plain_properties(row["properties"]))
            if error is not None:
                error = f"{origin}: {error}"[:MAX_CAUSE]
                if not keep_errors:
                    raise RuntimeError(f"spanwire: {error}")
            answers.append({"text": text, "error": error})
        return pa.array(answers, pa.struct([("text", pa.string()), ("error", pa.string())]))

    arguments = F.struct(F.col("text").alias("text"), F.col("properties").alias("properties"))
    return frame.withColumn(CALLED, F.arrow_udf(call, "struct<text: string, error: string>")(arguments))


def answer_of(function: TextFunction, text: str | None, properties: dict[str, object]) -> tuple[str | None, str | None]:
    """Return the text of a function, or the error."""
    try:
        answer: object = function(text, properties)
    except Exception as failure:  # noqa: BLE001 - a function of the operator may raise anything
        return None, f"{type(failure).__name__}: {failure}"
    if answer is not None and not isinstance(answer, str):
        return None, f"it gave a {type(answer).__name__}, not a text"
    return answer, None


def split_by_answer(answered: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the rows with their new text, and the unchanged rows of failed calls."""
    error = F.col(f"{CALLED}.error")
    failed = answered.where(error.isNotNull()).withColumn(ERROR, error).drop(CALLED)
    good = with_body(answered.where(error.isNull()), "text", F.col(f"{CALLED}.text")).drop(CALLED)
    return good, failed


def plain_properties(items: list[tuple[str, dict[str, bytes] | None]] | None) -> dict[str, object]:
    """Return properties as plain Python values."""
    values: dict[str, object] = {}
    for name, variant in items or []:
        entry = property_entry(variant)
        values[name] = None if entry is None else entry[1]
    return values


def mark_unsendable(frame: DataFrame, endpoint: Endpoint) -> DataFrame:
    """Add the column `ERROR`: the reason why a row makes no message for an endpoint, or null.

    Sending the row would fail for the same reason.
    """
    options = dict(endpoint.options)  # Spark pickles the function; compiled destinations cannot be pickled

    def reasons(rows: pa.Array) -> pa.Array:
        return pa.array(row_errors(pa.RecordBatch.from_struct_array(rows), write_options(options)), pa.string())

    columns = message_columns(frame, endpoint.location).columns
    arguments = F.struct(*[F.col(f"`{name}`") for name in columns])
    return frame.withColumn(ERROR, F.arrow_udf(reasons, "string")(arguments))


def dead_letters(frame: DataFrame, endpoint: Endpoint) -> DataFrame:
    """Return failed rows with their cause in a property.

    An unreadable body is sent as octets. If a row makes no message, all its columns are sent as JSON in a text.
    """
    failed = frame
    if "properties" not in failed.columns:
        failed = failed.withColumn("properties", F.expr(EMPTY))
    if failed.schema["properties"].dataType.simpleString() != PROPERTIES:
        failed = failed.withColumn(
            "properties", F.transform_values("properties", lambda _, value: value.cast("variant"))
        )
    cause = F.substring(F.col(ERROR), 1, MAX_CAUSE)
    failed = set_header(failed, CAUSE, cause)
    if "body_type" in failed.columns:
        is_octets = F.col("body_type") == UNREADABLE
        failed = failed.withColumn("body_type", F.when(is_octets, F.lit(BYTES_BODY)).otherwise(F.col("body_type")))
    if endpoint.kind != BROKER:
        return failed.drop(ERROR)
    failed = failed.withColumnRenamed(ERROR, REASON)
    for name in ("text", "body_type"):
        if name not in failed.columns:
            failed = failed.withColumn(name, F.lit(None).cast("string"))
    return replace_unsendable(mark_unsendable(failed, endpoint), [name for name in frame.columns if name != ERROR])


def replace_unsendable(marked: DataFrame, names: list[str]) -> DataFrame:
    """Replace rows with an `ERROR` by JSON of the columns of these names."""
    is_good = F.col(ERROR).isNull()
    replaced: dict[str, Column] = {
        "text": F.to_json(F.struct(*[F.col(f"`{name}`") for name in names])),
        "body_type": F.lit(TEXT_BODY),
        "properties": F.create_map(F.lit(CAUSE), F.substring(F.col(REASON), 1, MAX_CAUSE).cast("variant")),
    }
    columns = [
        F.when(is_good, F.col(f"`{name}`")).otherwise(replaced.get(name, F.lit(None))).alias(name)
        for name in marked.columns
        if name not in (ERROR, REASON)
    ]
    return marked.select(*columns)


def message_columns(frame: DataFrame, location: Location) -> DataFrame:
    """Return the columns of messages.

    Raises:
        ConfigurationError: no column has a body.
    """
    names = [name for name in frame.columns if name in COLUMN_TYPES]
    if not set(names) & set(BODY_COLUMNS):
        raise location.error(
            f"a message needs one of the columns {', '.join(BODY_COLUMNS)}; write before this step "
            'transform: {select: {text: "to_json(struct(*))"}}'
        )
    return frame.select(*names)


def endpoint_rows(frame: DataFrame, endpoint: Endpoint) -> DataFrame:
    """Return the rows in the form for an endpoint."""
    return message_columns(frame, endpoint.location) if endpoint.kind == BROKER else frame


def check_endpoint(frame: DataFrame, endpoint: Endpoint) -> None:
    """Check the columns for an endpoint before the first row.

    Raises:
        ConfigurationError: the endpoint does not accept a column.
    """
    if endpoint.kind != BROKER:
        return
    fields = message_columns(frame, endpoint.location).schema.fields
    try:
        check_columns(
            [(field.name, field.dataType.simpleString()) for field in fields], write_options(endpoint.options)
        )
    except ConfigurationError as error:
        raise endpoint.location.error(str(error).removeprefix("spanwire: ")) from None


def first_line(error: Exception) -> str:
    """Return the first line of Spark's message, without secrets of addresses."""
    return mask(str(error).strip().splitlines()[0])[:300]
