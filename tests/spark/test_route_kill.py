"""``spanwire pipeline run`` killed in the middle of its work, and its broker, too: files hold every message once, a
queue every message, and doubles there have the id of the first.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.test_route_batches import CHANCE
from tests.support.broker_process import COMMAND, BrokerProcess, spanwire_command
from tests.support.queues import numbered, send, take_all

END_S = 240.0
COUNT = 300  # twice; two batches, then two more
FUNCTION = """
import time
def slowly(text, properties):
    time.sleep(0.002)
    return text
"""
ROUTE = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: kept
    deadLetter: shop:queue:KILL.DEAD
    from:
      uri: "shop:queue:KILL.IN"
      parameters: {maxRowsPerBatch: 150}
      steps:
        - transform: {function: slow.slowly}
        - wireTap: "parquet:{{files}}"
        - to: "shop:queue:KILL.OUT"
"""


DICE = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: kept
    deadLetter: "shop:queue:DICE.DEAD?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
    from:
      uri: "shop:queue:DICE.IN"
      steps:
        - transform: {function: chance.heads}
        - wireTap: "shop:queue:DICE.ALL?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
        - choice:
            when:
              - sql: "rand() < 0.5"
                steps: [{to: "shop:queue:DICE.ODD?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"}]
            otherwise:
              steps: [{to: "parquet:{{files}}"}]
"""


class Told:
    """What a running command tells, one JSON object a line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def rows(self, count: int) -> int:
        """Until so many rows more are through, or some more; how many."""
        assert self.process.stdout is not None
        found = 0
        while found < count:
            line = self.process.stdout.readline()
            assert line, "the command has ended"
            if line.startswith("{"):
                news = json.loads(line)
                found += news["rows"]
        return found


@contextmanager
def command(url: str, folder: Path, *more: str) -> Iterator[Told]:
    """The command with all its processes in a group of its own."""
    words = [f"-Durl={url}", f"-Dfiles={folder}/files", "--functions", str(folder), "--state", str(folder / "state")]
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            [*COMMAND, "pipeline", "run", str(folder / "kept.yaml"), *words, "--master=local[2]", "--json", *more],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            yield Told(process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.timeout(3 * END_S)
def test_a_route_goes_on_after_a_kill_of_its_process_and_of_its_broker_and_drains_when_told(tmp_path: Path) -> None:
    (tmp_path / "kept.yaml").write_text(ROUTE)
    (tmp_path / "slow.py").write_text(FUNCTION)
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        url = broker.openwire_uri()
        send(url, "KILL.IN", numbered(COUNT))
        with command(url, tmp_path) as first:
            first.rows(1)
            os.killpg(first.process.pid, signal.SIGKILL)
        done = committed(tmp_path)
        with command(url, tmp_path) as second:
            through = second.rows(1)
            broker.kill()
            broker.start()
            send(url, "KILL.IN", numbered(COUNT, COUNT))
            second.rows(2 * COUNT - done - through)
            second.process.send_signal(signal.SIGTERM)
            assert second.process.wait(END_S) == 0, (tmp_path / "log").read_text()[-3000:]
        assert sorted(files(tmp_path)) == list(range(2 * COUNT))
        by_id: dict[object, int] = {}
        for message in take_all(url, "KILL.OUT"):
            n = int(str(message.properties["n"]))
            assert by_id.setdefault(message.properties["_AMQ_DUPL_ID"], n) == n
        assert sorted(by_id.values()) == list(range(2 * COUNT))


@pytest.mark.timeout(3 * END_S)
@pytest.mark.parametrize("kept", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_kill_between_two_endpoints_leaves_them_in_agreement_though_steps_throw_dice(
    kept: int, tmp_path: Path
) -> None:
    (tmp_path / "kept.yaml").write_text(DICE)
    (tmp_path / "chance.py").write_text(CHANCE)
    (tmp_path / "files").write_text("a file where a directory is to be: the batch cannot end before the kill")
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        url = broker.openwire_uri()
        send(url, "DICE.IN", numbered(COUNT))
        with command(url, tmp_path) as first:
            wait_for_kept(tmp_path / "state/kept/batches", kept, first)
            os.killpg(first.process.pid, signal.SIGKILL)
            first.process.wait()
        assert not (tmp_path / "state/kept/checkpoint/commits/0").exists()  # so the batch is repeated
        (tmp_path / "files").unlink()
        with command(url, tmp_path, "--trigger=available-now") as second:
            assert second.process.wait(END_S) == 0, (tmp_path / "log").read_text()[-3000:]
        everything, dead, odd = (bodies(url, f"DICE.{name}") for name in ("ALL", "DEAD", "ODD"))
        even = [str(text) for path in tmp_path.glob("files/*/*/*.parquet") for text in texts(path)]
        heads = [text.rpartition(" ")[0] for text in everything]
        assert sorted([*heads, *dead]) == sorted(f"text {n}" for n in range(COUNT))
        assert sorted([*odd, *even]) == sorted(everything)


def wait_for_kept(batches: Path, count: int, told: Told) -> None:
    """Until rows are kept at so many places of a batch: the first is before any endpoint, the second between them."""
    deadline = time.monotonic() + END_S
    while sum(path.suffix != ".tmp" for path in batches.glob("*/*")) < count:
        assert told.process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


def bodies(url: str, queue: str) -> list[str]:
    return [str(message.body) for message in take_all(url, queue)]


def texts(path: Path) -> list[object]:
    found: list[object] = pq.read_table(path, columns=["text"])["text"].to_pylist()
    return found


def committed(folder: Path) -> int:
    """The rows of the batches that Spark has committed."""
    batches = [int(path.name) for path in (folder / "state/kept/checkpoint/commits").iterdir() if path.name.isdigit()]
    return sum(len(files(folder, f"files/*/route_batch={batch:010}")) for batch in batches)


def files(folder: Path, pattern: str = "files/*/*") -> list[int]:
    """The numbers in the files, from the texts."""
    paths = list(folder.glob(f"{pattern}/*.parquet"))
    texts = [text for path in paths for text in pq.read_table(path, columns=["text"])["text"].to_pylist()]
    return [int(text.removeprefix("text ")) for text in texts]
