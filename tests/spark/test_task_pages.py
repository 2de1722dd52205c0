"""The commands of the pages about tasks, run as they stand there. URLs and days are replaced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from spanwire.client import blocking
from spanwire.pipeline.link.control_client import Control
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.patience import SPARK_S
from tests.support.queues import Sent, numbered, send, take, take_all
from tests.support.task_pages import blocks

COUNT: Final = 300

pytestmark = [pytest.mark.long, pytest.mark.timeout(3 * SPARK_S)]


class Reader:
    """Somebody who types what pages say, in a directory of his own."""

    def __init__(self, folder: Path, replaced: dict[str, str]) -> None:
        self.folder: Final = folder
        self._replaced: Final = replaced
        self._processes: list[subprocess.Popen[str]] = []
        self._environment: Final = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def at(self, replaced: dict[str, str]) -> Reader:
        """The reader at another broker."""
        other = Reader(self.folder, replaced)
        other._processes = self._processes
        return other

    def text(self, page: str, title: str) -> str:
        text = blocks(page)[title]
        for before, after in self._replaced.items():
            text = text.replace(before, after)
        return text

    def writes(self, page: str, title: str) -> None:
        (self.folder / title).write_text(self.text(page, title), "utf-8")

    def begins(self, page: str, title: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c"] if "import " in self.text(page, title) else ["bash", "-euc"]
        process = subprocess.Popen(
            [*command, self.text(page, title)], cwd=self.folder, env=self._environment, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._processes.append(process)
        return process

    def ends(self) -> None:
        """Kill what a failed test has left."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def runs(self, page: str, title: str, status: int = 0) -> str:
        return ended(self.begins(page, title), status)


def ended(process: subprocess.Popen[str], status: int = 0) -> str:
    try:
        output, _ = process.communicate(timeout=SPARK_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == status, output
    return output


def waits(until: Callable[[], bool]) -> None:
    end = time.monotonic() + SPARK_S
    while not until():
        assert time.monotonic() < end
        time.sleep(0.5)


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(spanwire_command(), tmp_path_factory.mktemp("far")) as broker:
        yield broker


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, own_broker: BrokerProcess, far: BrokerProcess) -> Iterator[Reader]:
    today = datetime.now(UTC)
    replaced = {
        "tcp://127.0.0.1:61616": own_broker.openwire_uri(),
        "tcp://127.0.0.1:61626": far.openwire_uri(),
        "2026-01-31": f"{today - timedelta(days=1):%Y-%m-%d}",
        "2026-02-01": f"{today + timedelta(days=1):%Y-%m-%d}",
    }
    reading = Reader(tmp_path_factory.mktemp("reader"), replaced)
    yield reading
    reading.ends()


def test_a_queue_is_archived_and_a_day_of_it_is_sent_again(reader: Reader, own_broker: BrokerProcess) -> None:
    url = own_broker.openwire_uri()
    send(url, "ORDERS", numbered(COUNT))
    reader.runs("archive-a-queue", "archive")
    assert take_all(url, "ORDERS") == []
    assert f"queue://ORDERS: {COUNT} messages would be replayed, sent from " in reader.runs("archive-a-queue", "count")
    assert reader.runs("archive-a-queue", "look") == f"{COUNT} messages\n"
    assert f"queue://ORDERS: {COUNT} messages" in reader.runs("replay-a-day", "count")
    assert f"replay: sent {COUNT} messages\n" in reader.runs("replay-a-day", "replay")
    assert Counter(message.properties["n"] for message in take_all(url, "ORDERS.AGAIN")) == Counter(range(COUNT))


def test_two_brokers_are_bridged_over_a_kill(reader: Reader, own_broker: BrokerProcess, far: BrokerProcess) -> None:
    url, page = own_broker.openwire_uri(), "bridge-two-brokers"
    send(url, "ORDERS", numbered(COUNT))
    reader.writes(page, "bridge.yaml")
    assert "route orders\n" in reader.runs(page, "plan")
    killed = reader.begins(page, "bridge")
    waits(lambda: "batch" in reader.runs(page, "watch"))
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    send(url, "ORDERS", numbered(COUNT, COUNT))
    bridge = reader.begins(page, "bridge")
    found = take(far.openwire_uri(), "ORDERS", 2 * COUNT)
    assert "bridge.yaml has ended" in reader.runs(page, "stop")
    ended(bridge)
    found += take_all(far.openwire_uri(), "ORDERS")
    with blocking.connect(url) as connection:
        (cursor,) = Control(connection).cursors()
        assert Control(connection).release(cursor.name, cursor.epoch) == 0  # other pages read the queue
    assert Counter(message.properties["n"] for message in found) == Counter(range(2 * COUNT))


def test_json_messages_become_rows_of_a_table(reader: Reader, own_broker: BrokerProcess) -> None:
    url, page = own_broker.openwire_uri(), "feed-a-table"
    reader.writes(page, "table.yaml")
    for first in (0, 10):
        orders = [{"item": f"i{number}", "price": number / 2} for number in range(first, first + 10)]
        send(url, "ORDERS", [Sent(json.dumps(order)) for order in orders])
        reader.runs(page, "feed")
    assert reader.runs(page, "read") == f"20 rows, {sum(number / 2 for number in range(20))}\n"


def test_a_report_knows_what_became_of_each_message(
    reader: Reader, tmp_path_factory: pytest.TempPathFactory, own_broker: BrokerProcess
) -> None:
    page = "find-lost-messages"
    entries = blocks(page)["policy"]
    inside = f"<destinationPolicy><policyMap><policyEntries>{entries}</policyEntries></policyMap></destinationPolicy>"
    with BrokerProcess(spanwire_command(), tmp_path_factory.mktemp("told"), inside=inside) as broker:
        url = broker.openwire_uri()
        asking = reader.at({"tcp://127.0.0.1:61616": url})
        record = asking.begins(page, "record")
        with blocking.connect(url) as connection, connection.session() as session:
            producer = session.create_producer("queue://PROBE")  # until the record has begun, its advisory is archived
            while not any((reader.folder / "told").glob("destination=*")):
                assert record.poll() is None
                producer.send("x")
                time.sleep(0.5)
        send(url, "ORDERS", numbered(20))
        assert len(take(url, "ORDERS", 15)) == 15
        waits(lambda: bool(list((reader.folder / "told").glob("destination=*MessageConsumed*"))))
        assert "told has ended" in asking.runs(page, "stop")
        ended(record)
        shown = asking.runs(page, "compare")
    assert "The ledger holds" in shown and "queue://ORDERS" in shown
    (row,) = [
        row
        for row in json.loads((reader.folder / "report/report.json").read_text("utf-8"))["tables"]["ledger"]["rows"]
        if row["queue"] == "queue://ORDERS"
    ]
    assert (row["sent"], row["delivered"], row["pending"]) == (20, 15, 5)
