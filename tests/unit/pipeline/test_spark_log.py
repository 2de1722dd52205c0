"""Where Spark's own log goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.spark.spark_log import CHOICE, CONFIGURATION, FILE, has_own_log, log_into, log_of_commands


@pytest.mark.parametrize(
    "environment",
    [
        {CHOICE: "mine.xml"},
        {"PYSPARK_SUBMIT_ARGS": "--driver-java-options -Dlog4j2.configurationFile=mine.xml pyspark-shell"},
        {"SPARK_CONF_DIR": "{folder}"},
        {"SPARK_HOME": "{folder}/home"},
    ],
)
def test_a_log4j_configuration_of_somebody_s_own_is_noticed(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "home/conf").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "home/conf"):
        (folder / "log4j2.properties").touch()
    given = {name: value.format(folder=tmp_path) for name, value in environment.items()}
    assert has_own_log(given, tmp_path / "package")


def test_examples_that_come_with_spark_are_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/log4j2.properties.template").touch()
    assert not has_own_log({"PYSPARK_SUBMIT_ARGS": "--driver-memory 4g pyspark-shell"}, tmp_path)


def test_what_begins_meanwhile_is_told_the_file_and_what_begins_later_is_not(tmp_path: Path) -> None:
    before = dict(os.environ)
    with log_into(tmp_path / "new/spark.log"):
        assert os.environ[CHOICE] == str(CONFIGURATION)
        assert os.environ[FILE] == str(tmp_path / "new/spark.log")
        assert (tmp_path / "new").is_dir()
    assert dict(os.environ) == before


def test_a_log_that_cannot_be_written_is_told_before_spark_begins(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"file/spark\.log: "), log_into(tmp_path / "file/spark.log"):
        pass


def test_commands_without_a_state_write_beside_other_things_that_can_be_made_again(tmp_path: Path) -> None:
    assert log_of_commands({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "spanwire/spark.log"


def test_the_configuration_comes_with_the_package_and_asks_for_the_file() -> None:
    assert f"fileName = ${{env:{FILE}}}" in CONFIGURATION.read_text()
