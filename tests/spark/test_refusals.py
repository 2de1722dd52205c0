"""What is wrong is said in one line, early; a password is said nowhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.support.broker_process import BrokerProcess
from tests.support.canary import CANARY
from tests.support.streams import run_to_the_end


def told(action: Callable[[], object]) -> str:
    """The line of a failed action that is meant for people."""
    with pytest.raises(Exception, match=r"Error: ") as caught:
        action()
    text = str(caught.value)
    lines = [line for line in text.splitlines() if "spanwire: " in line or "JmsError: " in line]
    assert lines, f"no line of ours in {text}"
    return lines[-1].partition("Error: ")[2]


def reading(spark: SparkSession, **options: str) -> Callable[[], object]:
    return lambda: spark.read.format("spanwire").options(**options).load()


def test_an_option_that_nobody_knows_is_named_with_the_closest(spark: SparkSession) -> None:
    assert told(reading(spark, destination="Q", selektor="a = 1")) == (
        "spanwire: there is no option 'selektor'; did you mean selector?"
    )


def test_a_topic_without_a_subscription_is_refused_by_name(spark: SparkSession) -> None:
    line = told(reading(spark, destination="topic://PRICES"))
    assert line.startswith("spanwire: topic://PRICES keeps messages for a durable subscription only")


def test_a_stream_without_a_staging_directory_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("spanwire").option("destination", "Q")

    def start() -> object:
        writer = stream.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        query = writer.trigger(availableNow=True).start()
        return query.awaitTermination(60)

    with pytest.raises(StreamingQueryException) as caught:
        start()
    assert told(start).startswith('spanwire: set .option("stagingDirectory", …)')
    assert "During handling" not in str(caught.value) and "UnboundLocalError" not in str(caught.value)


def test_a_schema_of_ones_own_is_refused(spark: SparkSession) -> None:
    frame = spark.read.format("spanwire").schema("text STRING").option("destination", "Q")
    assert told(lambda: frame.load().count()).startswith("spanwire: the columns of a message are fixed")


@pytest.mark.parametrize(
    ("columns", "mode", "line"),
    [
        (["1 AS text"], "append", "spanwire: the column text is int; it must be string"),
        (
            ["'x' AS txt"],
            "append",
            "spanwire: a message has no column 'txt', drop it or rename it; did you mean text?",
        ),
        (["'x' AS text"], "overwrite", 'spanwire: messages in a queue cannot be overwritten; use the mode "append"'),
    ],
)
def test_columns_that_make_no_message_are_refused(
    spark: SparkSession, columns: list[str], mode: str, line: str
) -> None:
    frame = spark.range(1).selectExpr(*columns)
    assert told(lambda: frame.write.format("spanwire").mode(mode).option("destination", "Q").save()) == line


def test_a_broker_that_is_not_there_is_one_line(spark: SparkSession) -> None:
    frame = spark.read.format("spanwire").options(destination="Q", url="tcp://127.0.0.1:1").load()
    assert "127.0.0.1:1" in told(lambda: frame.count())


def test_the_password_is_in_no_plan_progress_checkpoint_or_segment(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    login = {"url": spanwire.openwire_uri(), "destination": "SECRETS", "user": "u", "password": CANARY}
    frame = spark.read.format("spanwire").options(**login).load()
    frame.explain("extended")
    frame.count()
    plan = frame._jdf.queryExecution().toString()
    stream = spark.readStream.format("spanwire").options(**login, stagingDirectory=str(tmp_path / "staging")).load()
    writer = stream.writeStream.format("spanwire").options(**login | {"destination": "SECRETS.OUT"})
    query = run_to_the_end(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    bad = spark.read.format("spanwire").options(**login, selektor="x")
    line = told(lambda: bad.load())
    out = capfd.readouterr()
    texts = [
        plan,
        line,
        out.out,
        out.err,
        str(query.lastProgress),
        repr(frame),
        stream._jdf.queryExecution().toString(),
    ]
    texts += [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    assert [text for text in texts if CANARY in text] == []
