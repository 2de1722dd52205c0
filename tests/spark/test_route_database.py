"""A route from a queue into a table of PostgreSQL, killed on the way: every message is there, and what is there twice
is of the batch at hand.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.broker_process import COMMAND, BrokerProcess, spanwire_command
from tests.support.postgres import PostgresProcess, driver, require_postgres
from tests.support.queues import numbered, send

END_S = 600.0  # of one run of a route, which takes a minute on an idle machine: 240 ended it on a loaded one
COUNT = 10_000
BATCH = 1_000
ROUTE = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: table
    from:
      uri: "shop:queue:TABLE"
      parameters: {maxRowsPerBatch: "{{rows}}", numPartitions: 1}
      steps:
        - transform: {select: {n: "properties['n']::int", text: "text"}}
        - to: {uri: "{{database}}", parameters: {dbtable: moved, driver: org.postgresql.Driver}}
"""


@pytest.mark.timeout(3 * END_S)
def test_a_table_gets_every_message_though_the_route_is_killed(tmp_path: Path) -> None:
    require_postgres()
    (tmp_path / "table.yaml").write_text(ROUTE)
    with (
        BrokerProcess(spanwire_command(), tmp_path / "broker") as broker,
        PostgresProcess(tmp_path / "postgres.log") as database,
    ):
        database.answer("CREATE TABLE moved (n int, text varchar)")
        url = broker.openwire_uri()
        send(url, "TABLE", numbered(COUNT))
        first = route(url, database.url, tmp_path)
        wait_for_rows(database, first, 1)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        second = route(url, database.url, tmp_path, "--trigger=available-now")
        assert second.wait(END_S) == 0, (tmp_path / "log").read_text()[-3000:]
        assert database.answer("SELECT count(DISTINCT n), min(n), max(n) FROM moved") == [f"{COUNT}|0|{COUNT - 1}"]
        assert database.answer("SELECT count(*) FROM moved WHERE text = 'text ' || n") == database.answer(
            "SELECT count(*) FROM moved"
        )
        doubled = int(database.answer("SELECT count(*) - count(DISTINCT n) FROM moved")[0])
        assert 0 <= doubled <= BATCH


def route(url: str, database: str, folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """The command with all its processes in a group of its own."""
    given = [f"-Durl={url}", f"-Ddatabase={database}", f"-Drows={BATCH}", "--master=local[2]", *words]
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--driver-class-path {driver()} pyspark-shell"}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [*COMMAND, "pipeline", "run", str(folder / "table.yaml"), *given],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def wait_for_rows(database: PostgresProcess, process: subprocess.Popen[bytes], count: int) -> None:
    deadline = time.monotonic() + END_S
    while int(database.answer("SELECT count(*) FROM moved")[0]) < count:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
