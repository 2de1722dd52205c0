"""Messages near the largest that a broker takes, through `spanwire pipeline run`: `make soak-spark` runs it.

Java's heap of 1 GiB is too small for some of them at a time. The command then says so in one line, and loses nothing.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from tests.support.broker_process import COMMAND, BrokerProcess, spanwire_command
from tests.support.patience import SPARK_S
from tests.support.queues import Sent, send, take_all

COUNT = 4
SIZE = 99 * 1024 * 1024
ROUTE = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: large
    from:
      uri: "shop:queue:LARGE"
      parameters: {maxBytesPerBatch: 1073741824}
      steps:
        - wireTap: "parquet:{{files}}"
        - to: "shop:queue:LARGE.OUT?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
"""


@pytest.mark.timeout(3 * SPARK_S)
def test_messages_of_99_mib_arrive_once_though_java_is_short_of_memory_at_first(tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_text(ROUTE)
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        url = broker.openwire_uri()
        for number in range(COUNT):
            send(url, "LARGE", [Sent(body_of(number), {"n": number})])
        short = command(tmp_path, url, "512m")
        assert short.returncode == 1
        assert "its Java process has ended" in short.stderr and "--driver-memory" in short.stderr
        assert "Traceback" not in short.stdout + short.stderr
        enough = command(tmp_path, url, "6g")
        assert enough.returncode == 0, enough.stdout + enough.stderr
        arrived = take_all(url, "LARGE.OUT")
    assert {message.properties["n"] for message in arrived} == set(range(COUNT)) and len(arrived) == COUNT
    assert all(message.body == body_of(message.properties["n"]) for message in arrived)
    kept = [octets for path in tmp_path.glob("files/*/*/*.parquet") for octets in bodies(path)]
    assert sorted(map(hash, kept)) == sorted(hash(body_of(number)) for number in range(COUNT))


def body_of(number: object) -> bytes:
    return Random(str(number)).randbytes(SIZE)


def bodies(path: Path) -> list[bytes]:
    found: list[bytes] = pq.read_table(path, columns=["bytes"])["bytes"].to_pylist()
    return found


def command(folder: Path, url: str, memory: str) -> subprocess.CompletedProcess[str]:
    words = [f"-Durl={url}", f"-Dfiles={folder}/files", "--state", str(folder / "state"), "--master=local[2]"]
    return subprocess.run(
        [*COMMAND, "pipeline", "run", str(folder / "large.yaml"), *words, "--trigger=available-now"],
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"--driver-memory {memory} pyspark-shell"},
        capture_output=True, text=True, timeout=SPARK_S, check=False,
    )  # fmt: skip
