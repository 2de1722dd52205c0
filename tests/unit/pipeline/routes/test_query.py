from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.query import AVAILABLE_NOW, RouteQuery
from spanwire.pipeline.routes.route_state import open_state
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders

ROUTE = b"""
- from:
    uri: parquet:/missing
    steps:
      - to: json:/x
"""


class Reader:
    """A session, or its reader, for which every load fails."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure

    @property
    def read(self) -> Reader:
        return self

    def format(self, _: str) -> Reader:
        return self

    def options(self, **_: str) -> Reader:
        return self

    def load(self) -> None:
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (
            AnalysisException("[PATH_NOT_FOUND] Path does not exist: file:/missing.\nat x"),
            "r.yaml:3: Spark says: [PATH_NOT_FOUND] Path does not exist: file:/missing.",
        ),
        (
            Py4JError("An error occurred while calling o50.load.\n: java.io.IOException: Disk\n\tat x"),
            "r.yaml:3: Spark says: IOException: Disk",
        ),
    ],
)
def test_a_source_that_cannot_be_read_is_one_line_with_its_place(failure: Exception, line: str, tmp_path: Path) -> None:
    (route,) = read_routes(ROUTE, "r.yaml", Placeholders({}, {})).routes
    spark = cast(SparkSession, Reader(failure))
    with pytest.raises(ConfigurationError) as caught:
        RouteQuery(spark, route, open_state(tmp_path, route), {}, AVAILABLE_NOW).start()
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("endpoint", "is_left"), [("json:/y", False), ("jms:queue:A?qualityOfServiceMode=ONCE_AND_ONLY_ONCE", True)]
)
def test_kept_rows_are_removed_when_the_route_needs_none_any_more(endpoint: str, is_left: bool, tmp_path: Path) -> None:
    text = ROUTE + f"      - to: {endpoint}\n".encode()
    (route,) = read_routes(text, "r.yaml", Placeholders({}, {})).routes
    state = open_state(tmp_path, route)
    (state.batches / "7d1c-0000000003" / "8c1f").mkdir(parents=True)
    with pytest.raises(ConfigurationError):
        RouteQuery(cast(SparkSession, Reader(Py4JError("x"))), route, state, {}, AVAILABLE_NOW).start()
    assert state.batches.exists() is is_left


class Stream:
    """A session and all that comes of it up to a running query, which notes what is asked of it."""

    def __init__(self, query: str | None = None) -> None:
        self.asked: list[tuple[str, object]] = []
        self.columns = ["text"]
        self._query = query

    @property
    def readStream(self) -> Stream:  # noqa: N802
        return self

    @property
    def writeStream(self) -> Stream:  # noqa: N802
        return self

    @property
    def sparkContext(self) -> Stream:  # noqa: N802
        return self

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        self.asked.append(("property", name))
        return self._query

    def format(self, name: str) -> Stream:
        return self._noted("format", name)

    def options(self, **options: str) -> Stream:
        return self._noted("options", options)

    def option(self, name: str, value: object) -> Stream:
        return self._noted(name, value)

    def load(self) -> Stream:
        return self

    def limit(self, count: int) -> Stream:
        return self._noted("limit", count)

    def foreachBatch(self, _: object) -> Stream:  # noqa: N802
        return self

    def queryName(self, name: str) -> Stream:  # noqa: N802
        return self._noted("name", name)

    def trigger(self, **trigger: object) -> Stream:
        return self._noted("trigger", trigger)

    def start(self) -> str:
        return "a query"

    def _noted(self, name: str, value: object) -> Stream:
        self.asked.append((name, value))
        return self


@pytest.mark.parametrize(
    ("trigger", "asked"), [(AVAILABLE_NOW, {"availableNow": True}), ("5 seconds", {"processingTime": "5 seconds"})]
)
@pytest.mark.parametrize("cursor", [False, True])
def test_a_query_stages_what_it_takes_off_its_queue_and_ends_or_goes_on_as_it_was_told(
    trigger: str, asked: dict[str, object], cursor: bool, tmp_path: Path
) -> None:
    uri = "jms:queue:A" + ("?cursor=c" if cursor else "")
    text = f'- from: {{uri: "{uri}", id: r, steps: [{{to: "json:/x"}}, {{to: "json:/y"}}]}}'
    (route,) = read_routes(text.encode(), "r.yaml", Placeholders({}, {})).routes
    state, stream = open_state(tmp_path, route), Stream()
    query = RouteQuery(cast(SparkSession, stream), route, state, {}, trigger)
    assert cast(object, query.start()) == "a query"
    (options,) = [value for name, value in stream.asked if name == "options"]
    assert isinstance(options, dict) and options.get("stagingDirectory") == (None if cursor else state.staging)
    assert stream.asked[-3:] == [("name", "r"), ("checkpointLocation", state.checkpoint), ("trigger", asked)]


@pytest.mark.parametrize("query", [None, "", "7d1c"])
def test_a_batch_of_which_spark_does_not_tell_the_query_is_refused(query: str | None, tmp_path: Path) -> None:
    (route,) = read_routes(ROUTE, "r.yaml", Placeholders({}, {})).routes
    found = RouteQuery(cast(SparkSession, Stream(query)), route, open_state(tmp_path, route), {}, AVAILABLE_NOW)
    if query:
        assert found._query() == query
    else:
        with pytest.raises(ConfigurationError, match=r"^r\.yaml:3: this version of Spark does not pass the query"):
            found._query()
