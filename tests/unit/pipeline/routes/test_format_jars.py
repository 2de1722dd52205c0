from __future__ import annotations

import pytest

from spanwire.pipeline.routes.format_jars import jar_fault

LOGICAL_RDD = "'void org.apache.spark.sql.execution.LogicalRDD.<init>(scala.collection.immutable.Seq)'"


@pytest.mark.parametrize(
    ("name", "failure", "words"),
    [
        ("delta", "SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] no delta", "--packages io.delta:delta-spark_"),
        ("kafka", "[KAFKA_DATA_SOURCE_NOT_ENABLED] Failed", "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:"),
        ("avro2", "[DATA_SOURCE_NOT_FOUND] Failed", "--jars /path/of/its.jar"),
    ],
)
def test_a_format_that_spark_has_not_names_the_jar_to_add(name: str, failure: str, words: str) -> None:
    found = jar_fault(name, failure, "4.2.0")
    assert found is not None
    assert found.startswith(f"Spark 4.2.0 has no format {name}; give it the jar before it starts: export PYSPARK_SUBMI")
    assert words in found


@pytest.mark.parametrize(("name", "newest"), [("delta", "4.2"), ("iceberg", "4.1")])
def test_a_jar_that_would_not_work_with_this_spark_is_not_what_is_asked_for(name: str, newest: str) -> None:
    found = jar_fault(name, "[DATA_SOURCE_NOT_FOUND]", "4.3.0")
    assert found is not None and "--packages" not in found and len(found) < 350
    assert "give it a jar for it (that of " in found and f" works up to Spark {newest}) before it starts" in found


def test_a_jar_for_another_spark_is_told_with_what_java_misses() -> None:
    failure = f"An error occurred while calling o60.save.\n: java.lang.NoSuchMethodError: {LOGICAL_RDD}\n\tat x"
    assert jar_fault("delta", failure, "4.3.0") == (
        "a jar of the format delta was built for another version of Spark than 4.3.0; take one for it "
        f"(NoSuchMethodError: {LOGICAL_RDD})"
    )
    assert "(NoClassDefFoundError)" in str(jar_fault("x", "java.lang.NoClassDefFoundError", "4.3.0"))


def test_the_settings_that_delta_lacks_are_in_its_line() -> None:
    failure = (
        "[DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG] This Delta operation requires the\nSparkSession"
    )
    found = str(jar_fault("delta", failure, "4.2.0"))
    assert "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension --conf spark.sql.catalog." in found
    assert len(found) < 350


@pytest.mark.parametrize("failure", ["java.io.IOException: Disk", "[PATH_NOT_FOUND] Path does not exist", ""])
def test_no_jar_is_to_blame_for_other_failures(failure: str) -> None:
    assert jar_fault("delta", failure, "4.2.0") is None
