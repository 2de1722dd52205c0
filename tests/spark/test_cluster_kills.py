"""kill -9 of an executor, of a worker with its executor, and of the driver's Java: every message comes through once.

What the points are stands in `tests.support.spark_faults`. A task whose executor is gone is done again on the other
worker, while its Python may go on for a moment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.spark_cluster import SparkCluster
from tests.support.spark_kills import (
    CONTROL_SINK,
    CURSOR,
    LEDGER_SINK,
    NAIVE_SINK,
    STAGING,
    TIMEOUT_S,
    WITHOUT_IDS,
    KilledSpark,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * TIMEOUT_S)]


@pytest.mark.parametrize(
    ("source", "sink", "points"),
    [
        pytest.param(STAGING, CONTROL_SINK, ["read:executor", "staged:worker", "committed:jvm"], id="control"),
        pytest.param(CURSOR, LEDGER_SINK, ["staged:executor", "decided:self", "read:worker"], id="ledger"),
    ],
)
def test_a_sink_that_commits_once_outlives_executors_and_workers(
    source: dict[str, str], sink: dict[str, str], points: list[str], spanwire: BrokerProcess, tmp_path: Path
) -> None:
    brokers = {"in": spanwire, "out": spanwire}
    (tmp_path / "cluster").mkdir()
    with SparkCluster(tmp_path / "cluster") as cluster:
        outcome = KilledSpark(tmp_path / "once", brokers, points, source, sink, cluster=cluster).run()
    assert outcome.is_complete and outcome.is_exact, outcome.told()


def test_the_counting_finds_what_a_sink_doubles_whose_executor_is_killed(
    spanwire: BrokerProcess, tmp_path: Path
) -> None:
    (tmp_path / "cluster").mkdir()
    with (
        BrokerProcess(spanwire_command(), tmp_path / "out", inside=WITHOUT_IDS) as target,
        SparkCluster(tmp_path / "cluster") as cluster,
    ):
        brokers = {"in": spanwire, "out": target}
        outcome = KilledSpark(
            tmp_path / "naive", brokers, ["staged:executor"], STAGING, NAIVE_SINK, cluster=cluster
        ).run()
    assert outcome.is_complete and outcome.lost == [], outcome.told()
    assert outcome.doubled, outcome.told()
