"""The question to executors, and the line that is made of Spark's answer."""

from __future__ import annotations

import pytest

from spanwire.pipeline.executors import MAX_CAUSE, cause_of, probe

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


def test_an_interpreter_with_all_packages_lacks_nothing() -> None:
    _, _, missing = probe(0)
    assert missing == ""
