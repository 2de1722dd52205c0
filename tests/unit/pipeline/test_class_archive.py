"""The file with Spark's classes: who uses it, who writes it, and what is left alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from spanwire.pipeline.spark.class_archive import (
    MAX_ARCHIVES,
    OPTIONS,
    STALE_S,
    adopt,
    archive_of,
    shared_classes,
    sharing_options,
)

WRITTEN = b"\xa8\xab\x0b\xf0 and the classes"


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The variables of a machine with a Java and a Spark of empty files."""
    for name in ("java/lib/server/classes.jsa", "spark/jars/spark-core.jar", "spark/jars/spark-sql.jar"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return {"JAVA_HOME": str(tmp_path / "java"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def archive(machine: dict[str, str]) -> Path:
    java = Path(machine["JAVA_HOME"])
    found = archive_of(Path(machine["XDG_CACHE_HOME"]) / "spanwire", java, java.parent / "spark")
    assert found is not None
    return found


def options(machine: dict[str, str], is_recording: bool = True, settings: dict[str, str] | None = None) -> str:
    return sharing_options(machine, Path(machine["JAVA_HOME"]).parent / "spark", settings or {}, is_recording)


def test_the_first_stream_lets_java_write_the_file_and_the_next_start_uses_it(machine: dict[str, str]) -> None:
    first = options(machine)
    assert "-XX:ArchiveClassesAtExit=" in first
    Path(first.split("=")[-1]).write_bytes(WRITTEN)
    assert options(machine).endswith(f"-XX:SharedArchiveFile={archive(machine)}")
    assert archive(machine).read_bytes() == WRITTEN


def test_a_session_without_a_stream_uses_the_file_and_does_not_write_it(machine: dict[str, str]) -> None:
    assert options(machine, is_recording=False) == ""
    archive(machine).parent.mkdir(parents=True)
    archive(machine).write_bytes(WRITTEN)
    assert "SharedArchiveFile" in options(machine, is_recording=False)


def test_a_file_that_java_has_not_written_to_its_end_is_not_used(machine: dict[str, str]) -> None:
    part = Path(options(machine).split("=")[-1])
    part.write_bytes(bytes(1000))  # the head is written last
    assert "ArchiveClassesAtExit" in options(machine)
    assert part.exists()
    os.utime(part, (0.0, time.time() - STALE_S - 10))
    assert "ArchiveClassesAtExit" in options(machine)
    assert not part.exists()


@pytest.mark.parametrize("changed", ["java/lib/server/classes.jsa", "spark/jars/spark-core.jar", "spark/jars/new.jar"])
def test_another_java_or_spark_has_a_file_of_its_own(changed: str, machine: dict[str, str], tmp_path: Path) -> None:
    before = archive(machine)
    (tmp_path / changed).write_bytes(b"changed")
    assert archive(machine) != before


@pytest.mark.parametrize(
    "variables",
    [
        {"PYSPARK_SUBMIT_ARGS": "--driver-java-options -XX:+UseSerialGC pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.driver.extraClassPath=/mine pyspark-shell"},
        {"HADOOP_CONF_DIR": "/etc/hadoop"},
        {"SPARK_CONF_DIR": "{folder}/configuration"},
        {"JAVA_TOOL_OPTIONS": "-javaagent:agent.jar"},
        {"SPARK_SUBMIT_OPTS": "-Xshare:off"},
    ],
)
def test_a_java_that_somebody_has_configured_is_left_as_it_is(
    variables: dict[str, str], machine: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "configuration").mkdir()
    (tmp_path / "configuration/spark-defaults.conf").touch()
    given = {name: value.format(folder=tmp_path) for name, value in variables.items()}
    assert options({**machine, **given}) == ""


def test_settings_of_a_session_with_options_of_java_are_left_as_they_are(machine: dict[str, str]) -> None:
    assert options(machine, settings={"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}) == ""
    assert options(machine, settings={"spark.ui.enabled": "false"}) != ""


def test_a_java_without_classes_of_its_own_in_a_file_is_left_as_it_is(machine: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "java/lib/server/classes.jsa").unlink()
    assert options(machine) == ""


def test_without_java_home_no_file_of_the_working_directory_counts(
    machine: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(machine["JAVA_HOME"])
    without = {name: value for name, value in machine.items() if name != "JAVA_HOME"}
    spark = Path(machine["JAVA_HOME"]).parent / "spark"
    assert sharing_options(machine, spark, {}, True) != ""
    assert sharing_options(without, spark, {}, True) == ""


def test_a_cache_that_cannot_be_written_stops_no_start(machine: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert options(machine) == ""


def test_the_files_of_long_ago_are_removed(tmp_path: Path) -> None:
    kept = [tmp_path / f"classes-{number}.jsa" for number in range(MAX_ARCHIVES)]
    old = tmp_path / "classes-old.jsa"
    for path in (*kept, old):
        path.touch()
    os.utime(old, (0.0, 0.0))
    adopt(kept[0])
    assert sorted(tmp_path.iterdir()) == kept


def test_only_a_java_that_starts_inside_has_the_options(
    machine: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for before in ("-Dmine=1", None):
        if before is None:
            monkeypatch.delenv(OPTIONS)
        else:
            monkeypatch.setenv(OPTIONS, before)
        with shared_classes(machine, tmp_path / "spark", {}, True):
            assert os.environ[OPTIONS].endswith(before or ".part")
            assert "ArchiveClassesAtExit" in os.environ[OPTIONS]
        assert os.environ.get(OPTIONS) == before
