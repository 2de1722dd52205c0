"""The data source before it reads: its paths, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.datasource.source import SpanwireDataSource
from spanwire.pipeline.options import PATHS


def source(**options: str) -> SpanwireDataSource:
    return SpanwireDataSource(CaseInsensitiveDict(options))


@pytest.mark.parametrize("name", PATHS)
def test_relative_paths_of_options_are_those_of_the_working_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert source(**{name: "some/where"}).options[name] == str(tmp_path / "some/where")
    assert source(**{name.upper(): "/abs"}).options[name] == "/abs"
    assert source(**{name: ""}).options[name] == ""


def test_a_refused_stream_says_why_in_whatever_spark_asks_first() -> None:
    reader = source(destination="Q").streamReader(StructType())
    for ask in (
        reader.initialOffset,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: reader.partitions({}, {}),
        lambda: reader.read(InputPartition(None)),
    ):
        with pytest.raises(ConfigurationError, match="the columns of a message are fixed"):
            ask()
