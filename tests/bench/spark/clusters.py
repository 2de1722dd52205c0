"""One broker with one worker of a cluster, beside two with two.

    python -m tests.bench.spark.clusters MASTER CORES ROOT FOLDER COUNT QUEUE URL…

The program is the driver of one measured run on a standalone cluster. It prints rows per second and the microseconds of
CPU a row, of all processes below ROOT: brokers, master, workers, executors, driver and Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from spanwire.pipeline.routes.route_runner import session_on
from tests.bench.spark import runs
from tests.bench.spark.processes import cpu_seconds
from tests.support.spark_cluster import SparkCluster

WARM = "WARM"


def measured(
    cluster: SparkCluster, cores: int, folder: Path, count: int, queue: str, urls: list[str]
) -> tuple[float, float]:
    """Rows per second and microseconds of CPU a row of ``count`` messages in the queue of that name at each broker."""
    folder.mkdir()
    command = [sys.executable, "-m", "tests.bench.spark.clusters", cluster.url, str(cores), str(os.getpid())]
    environment = cluster.driver_environment({"spark.cores.max": str(cores)})
    done = subprocess.run(
        [*command, str(folder), str(count), queue, *urls],
        env=environment, capture_output=True, text=True, check=False, timeout=2 * runs.END_S,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"bench: the run on the cluster failed: {done.stderr.strip()[-1000:]}")
    rate, cpu = json.loads(done.stdout.splitlines()[-1])
    return rate, cpu


def main(master: str, cores: str, root: str, folder: str, count: str, queue: str, *urls: str) -> None:
    place, rows = Path(folder), int(count) * len(urls)
    given = {"url": urls[0]} if len(urls) == 1 else {"brokers": ",".join(urls)}
    with session_on(master, "bench", log=place / "spark.log") as spark:
        spark.sparkContext.setLogLevel("FATAL")
        for name in (WARM, queue):
            own = place / name
            own.mkdir()
            frame = runs.source(spark, "", name, own, {**given, "numPartitions": cores})
            began, before = time.monotonic(), cpu_seconds(int(root))
            runs.to_parquet(frame, own)
            seconds, cpu = time.monotonic() - began, cpu_seconds(int(root)) - before
        runs.check_files(spark, own, rows)
    print(json.dumps([rows / seconds, cpu / rows * 1e6]))


if __name__ == "__main__":
    main(*sys.argv[1:])
