"""The question to executors, and the line that is made of Spark's answer."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.executors import MAX_CAUSE, NEEDED, cause_of, check_machine, prepare_executors, probe

VERSIONS = (
    "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n: org.apache.spark."
    "SparkException: Job aborted\npyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python "
    "in worker has different version: 3.9 than that in driver: 3.11, PySpark cannot run with different minor versions."
)
NO_PROGRAM = (
    "An error occurred.\n: org.apache.spark.SparkException: Job aborted due to stage failure: java.io.IOException: "
    'Cannot run program "/opt/python": Exec failed, error=2, No such file or directory\n\tat java.base/java.lang.X'
)

NOT_THERE = 'Cannot run program "/opt/python": No such file or directory'


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (VERSIONS, "Python in worker has different version: 3.9 than that in driver: 3.11"),
        (NO_PROGRAM, NOT_THERE),
        (NO_PROGRAM.replace("error=2, No such file or directory", "error: 2 (No such file or directory)"), NOT_THERE),
        ("something else\nin two lines", "something else"),
        ("x" * 1000, "x" * MAX_CAUSE),
        ("", "no reason is given"),
    ],
)
def test_the_cause_is_one_line(text: str, cause: str) -> None:
    assert cause_of(text) == cause


def test_what_spanwire_needs_besides_itself_is_looked_for() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
    dependencies = {re.split(r"[^\w-]", entry)[0] for entry in project["dependencies"]}
    assert dependencies <= set(NEEDED)


def test_an_interpreter_with_all_packages_lacks_nothing() -> None:
    _, _, missing = probe(0)
    assert missing == ""


def test_a_python_that_only_executors_have_is_told_before_a_task_runs() -> None:
    java = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=SimpleNamespace(getenv={}.get))))
    context = SimpleNamespace(pythonExec="./environment/bin/python", _jvm=java)
    with pytest.raises(
        ConfigurationError, match=r"^this machine cannot run \./environment/bin/python, with which Spark"
    ):
        prepare_executors(cast(SparkSession, SimpleNamespace(sparkContext=context, _jvm=java)))


def test_a_python_of_this_machine_needs_the_packages_in_the_path_that_java_has(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    with pytest.raises(
        ConfigurationError, match="has no spanwire and no librt and no mypy_extensions and no pyarrow; "
    ):
        check_machine(str(program), {"PYTHONPATH": ""})
    for name in NEEDED:
        (tmp_path / f"{name}.py").touch()
    check_machine(str(program), {"PYTHONPATH": str(tmp_path)})
