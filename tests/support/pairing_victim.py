"""The example that pairs requests and replies, stopped at points (`tests.support.spark_faults`).

    SPANWIRE_FAULTS=FOLDER python -m tests.support.pairing_victim FOLDER URL TIMEOUT_MS

Two points more: ``paired``, in a task that has changed the state of an id, and ``expired``, in one whose timers fire.
The program runs until it is stopped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from examples.spark import pair_requests
from spanwire.pipeline.session import local_session
from tests.support.spark_classes import QUICK_JAVA
from tests.support.spark_faults import FaultyDataSource, at

SETTINGS = {**pair_requests.SETTINGS, "spark.master": "local[2,4]", "spark.driver.extraJavaOptions": QUICK_JAVA}


class StoppedPairing(pair_requests.Pairing):
    """Pairs as the example does, until a point is reached."""

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        for row in super().handleInputRows(key, rows, timerValues):
            yield row
            at("paired")

    def handleExpiredTimer(  # noqa: N802
        self,
        key: tuple[str],
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        yield from super().handleExpiredTimer(key, timerValues, expiredTimerInfo)
        at("expired")


def main(folder: Path, url: str, timeout_ms: int) -> None:
    pair_requests.FORMAT = FaultyDataSource.name()
    pair_requests.Pairing = StoppedPairing  # type: ignore[misc]
    with local_session("pairs", settings={**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")}) as spark:
        (folder / "driver.pid").write_text(str(os.getpid()), "utf-8")
        (folder / "jvm.pid").write_text(str(spark.sparkContext._gateway.proc.pid), "utf-8")
        spark.dataSource.register(FaultyDataSource)
        pair_requests.start(spark, url, folder, timeout_ms, "0 seconds").awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
