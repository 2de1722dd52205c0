"""The example that joins requests and replies of two queues, with time-outs: by itself, on Spark, and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.tws_tester import TwsTester

from examples.spark import pair_requests
from spanwire.client import blocking
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.spark_faults import FOLDER

ROOT: Final = Path(__file__).resolve().parents[2]
END_S: Final = 600.0
PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
RESULTS: Final = ("PAIRS", "REQUESTS.UNPAIRED", "REPLIES.UNPAIRED")
KILLED_TIMEOUT_MS: Final = 5000
# The state has changed; the sink has not committed; the sink has, and Spark does not know; timers fire.
POINTS: Final = ["paired:driver", "staged:jvm", "commit:driver", "committed:jvm", "expired:jvm"]
COUNT: Final = 60
MAX_STARTS: Final = 20


def row(key: str, is_request: bool, text: str) -> Row:
    return Row(id=key, is_request=is_request, text=text)


def test_the_first_message_waits_for_the_other_one_and_the_time_ends_it() -> None:
    tester = TwsTester(pair_requests.Pairing(1000), timeMode="processingTime")
    assert tester.test("a", [row("a", True, "q")]) == []
    (pair,) = tester.test("a", [row("a", False, "r")])
    assert (pair.queue, json.loads(pair.text), pair.cause) == ("queue://PAIRS", {"request": "q", "reply": "r"}, None)
    (pair, letter) = tester.test("b", [row("b", False, "r"), row("b", True, "q")]) + tester.test(
        "c", [row("c", True, "one"), row("c", True, "two")]
    )
    assert json.loads(pair.text) == {"request": "q", "reply": "r"}
    assert (letter.queue, letter.text) == ("queue://REQUESTS.UNPAIRED", "two")
    assert tester.setProcessingTime(999) == []
    (letter,) = tester.setProcessingTime(1001)
    assert (letter.queue, letter.id, letter.text, letter.cause) == (
        "queue://REQUESTS.UNPAIRED", "c", "one", "no reply within 1000 ms"
    )  # fmt: skip


def send(url: str, requests: Iterable[int], replies: Iterable[int]) -> None:
    """In one transaction, so that no batch has the requests long before their replies."""
    with blocking.connect(url) as connection, connection.session(acknowledge="transacted") as session:
        for queue, numbers in (("REQUESTS", requests), ("REPLIES", replies)):
            producer = session.create_producer(f"queue://{queue}")
            for number in numbers:
                producer.send(f"{queue} {number}", correlation_id=str(number))
        session.commit()


@pytest.fixture
def rocks(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, pair_requests.ROCKS)
    cloudpickle.register_pickle_by_value(pair_requests)
    yield spark
    cloudpickle.unregister_pickle_by_value(pair_requests)
    spark.conf.set(PROVIDER, str(before))


def test_requests_and_replies_become_pairs_and_the_others_dead_letters(
    rocks: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    send(url, range(6), range(2, 8))
    query = pair_requests.start(rocks, url, tmp_path, 1000, "0 seconds")
    found = Found(url)
    found.read_until(lambda: sum(found.counts.values()) >= 8)
    wait_for_commit(tmp_path / "checkpoint")
    query.stop()
    waiting = rocks.read.format("statestore").option("stateVarName", "waiting").load(str(tmp_path / "checkpoint"))
    assert waiting.where("value IS NOT NULL").count() == 0
    assert sorted(found.pairs) == ["2", "3", "4", "5"]
    assert Counter(found.letters) == Counter(
        [("REQUESTS", key, "no reply within 1000 ms") for key in "01"]
        + [("REPLIES", key, "no request within 1000 ms") for key in "67"]
    )


class Found:
    """What the program has sent, taken from its queues meanwhile."""

    def __init__(self, url: str) -> None:
        self.counts: Final[Counter[tuple[str, str]]] = Counter()
        self.pairs: Final[list[str]] = []
        self.letters: Final[list[tuple[str, str, str]]] = []
        self._url = url

    def read_until(self, is_enough: Callable[[], bool], tend: Callable[[], None] = lambda: None) -> None:
        deadline = time.monotonic() + END_S
        with blocking.connect(self._url) as connection, connection.session(acknowledge="auto") as session:
            consumers = [session.create_consumer(f"queue://{queue}") for queue in RESULTS]
            while not is_enough():
                assert time.monotonic() < deadline, self.counts
                tend()
                for queue, consumer in zip(RESULTS, consumers, strict=True):
                    while (message := consumer.receive(timeout=0.05)) is not None:
                        self._take(queue, str(message.correlation_id), str(message.body), message.properties)

    def _take(self, queue: str, key: str, text: str, properties: object) -> None:
        self.counts[queue, key] += 1
        if queue == "PAIRS":
            assert json.loads(text) == {"request": f"REQUESTS {key}", "reply": f"REPLIES {key}"}
            self.pairs.append(key)
            return
        assert isinstance(properties, dict)
        kind = queue.partition(".")[0]
        assert text == f"{kind} {key}"
        self.letters.append((kind, key, str(properties["dlqDeliveryFailureCause"])))


def wait_for_commit(checkpoint: Path) -> None:
    """Wait until the newest batch is committed: what it sent arrives before its state counts."""
    newest = max(int(batch.name) for batch in (checkpoint / "offsets").iterdir() if batch.name.isdecimal())
    deadline = time.monotonic() + END_S
    while not (checkpoint / "commits" / str(newest)).exists():
        assert time.monotonic() < deadline, newest
        time.sleep(0.05)


class Victim:
    """The program, started again whenever it has been killed."""

    def __init__(self, folder: Path, url: str) -> None:
        self.starts = 0
        self._folder: Final = folder
        self._url: Final = url
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "points.json").write_text(json.dumps(POINTS), "utf-8")

    def reached(self) -> int:
        return len(list(self._folder.glob("hit-*")))

    def tend(self) -> None:
        """Start it unless it runs; what is left of a killed one ends first."""
        if self._process is not None and self._process.poll() is None and self._has_jvm():
            return
        self.end()
        assert self.starts < MAX_STARTS, (self._folder / "log").read_text("utf-8", errors="replace")[-4000:]
        self.starts += 1
        (self._folder / "jvm.pid").unlink(missing_ok=True)
        with (self._folder / "log").open("ab") as log:
            command = [sys.executable, "-m", "tests.support.pairing_victim", str(self._folder), self._url]
            self._process = subprocess.Popen(
                [*command, str(KILLED_TIMEOUT_MS)], cwd=ROOT, env={**os.environ, FOLDER: str(self._folder)},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _has_jvm(self) -> bool:
        pid = self._folder / "jvm.pid"
        return not pid.exists() or Path(f"/proc/{pid.read_text('utf-8') or 'self'}").exists()

    def end(self) -> None:
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._process.wait()
            self._process = None


@pytest.mark.long
@pytest.mark.timeout(2 * END_S)
def test_each_pair_and_each_time_out_comes_once_through_kills_at_every_point(tmp_path: Path) -> None:
    folder = tmp_path / "pairs"
    folder.mkdir()
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        url, victim = broker.openwire_uri(), Victim(folder, broker.openwire_uri())
        found = Found(url)
        try:
            # Every third request stays without a reply. More messages come while the program is down.
            for first in range(0, COUNT, 20):
                numbers = range(first, first + 20)
                send(url, numbers, (number for number in numbers if number % 3))
                found.read_until(lambda last=first + 20: len(found.counts) >= last, victim.tend)  # type: ignore[misc]
            extra = COUNT
            while victim.reached() < len(POINTS):  # the last points want further batches
                send(url, range(extra, extra + 2), range(extra, extra + 1))
                extra += 2
                found.read_until(lambda last=extra: len(found.counts) >= last, victim.tend)  # type: ignore[misc]
            # What comes behind everything else shows that nothing else was on its way.
            send(url, range(extra, extra + 1), range(extra, extra + 1))
            found.read_until(lambda: ("PAIRS", str(extra)) in found.counts, victim.tend)
        finally:
            victim.end()
    told = (victim.starts, victim.reached(), found.counts.most_common(5), found.letters[:5])
    assert set(found.counts.values()) == {1}, told
    assert {key for _, key in found.counts} == {str(number) for number in range(extra + 1)}, told
    pairs = {int(key) for key in found.pairs}
    assert {number for number in pairs if number < COUNT} == {number for number in range(COUNT) if number % 3}, told
    assert {(kind, cause) for kind, _, cause in found.letters} == {
        ("REQUESTS", f"no reply within {KILLED_TIMEOUT_MS} ms")
    }, told
    assert victim.starts > len(POINTS), told
