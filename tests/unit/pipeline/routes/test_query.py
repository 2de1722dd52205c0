from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.parsing import read_routes
from spanwire.pipeline.routes.placeholders import Placeholders
from spanwire.pipeline.routes.query import AVAILABLE_NOW, RouteQuery
from spanwire.pipeline.routes.route_state import open_state

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
