"""The stream reader of several sources at brokers of this process, without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.datasource.sources_reader import SourcesStreamReader
from spanwire.pipeline.source import retry_window
from spanwire.pipeline.source.offsets import changed, numbers_of, offset
from spanwire.testing.broker import Broker
from spanwire.testing.network import Network
from tests.support.queues import numbered, send, take_all

END_S = 60.0
COUNT = 30  # messages of each source

Offset = dict[str, object]


class Query:
    """What Spark does with a reader: batches that are noted before they are read, and read again after a restart."""

    def __init__(self, **given: str) -> None:
        self.given = {"receiveTimeoutMs": "50", **given}
        self.begun: list[tuple[Offset, Offset]] = []
        self.done = 0
        self.rows: dict[int, list[list[tuple[str, int]]]] = {}  # of each partition of each batch
        self.reader = SourcesStreamReader(self.given)

    def restart(self, **given: str) -> None:
        """Another process goes on from the checkpoint."""
        self.reader.stop()
        self.given |= given
        self.reader = SourcesStreamReader(self.given)

    def begin_batch(self) -> bool:
        """Note the next batch; False if there is none."""
        if not self.begun:
            first = self.reader.initialOffset()
            self.begun.append((first, first))
            self.done = 1
        start = self.begun[-1][1]
        end = self.reader.latestOffset(start, ReadAllAvailable())
        if end != start:
            self.begun.append((start, end))
        return end != start

    def work(self) -> None:
        """Read and commit the batches that are begun."""
        while self.done < len(self.begun):
            start, end = self.begun[self.done]
            task = SourcesStreamReader(self.given)
            self.rows[self.done] = [
                [
                    (row["JMSDestination"], int(row["text"].split()[1]))
                    for part in task.read(one)
                    for row in part.to_pylist()
                ]
                for one in self.reader.partitions(start, end)
            ]
            self.done += 1

    def run_until(self, count: int) -> None:
        deadline = time.monotonic() + END_S
        while len(self.numbers()) < count:
            assert time.monotonic() < deadline, (self.reader.reportLatestOffset(), len(self.numbers()))
            self.begin_batch()
            self.work()

    def run_to_the_end(self) -> None:
        self.reader.prepareForTriggerAvailableNow()
        while self.begin_batch():
            self.work()

    def numbers(self) -> list[int]:
        return [n for parts in self.rows.values() for part in parts for _, n in part]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[Broker]]:
    with Broker(directory=tmp_path / "a") as first, Broker(directory=tmp_path / "b") as second:
        yield [first, second]


def listed(brokers: list[Broker]) -> str:
    return ",".join(broker.url for broker in brokers)


def fill(brokers: list[Broker], *queues: str) -> int:
    """Put numbered messages into each queue of each broker; how many there are."""
    count = 0
    for broker in brokers:
        for queue in queues:
            count += send(broker.url, queue, numbered(COUNT, count))
    return count


@pytest.mark.parametrize("way", ["stagingDirectory", "cursor"])
def test_queues_of_two_brokers_are_read_once_each_in_a_partition_and_in_order(
    way: str, brokers: list[Broker], tmp_path: Path
) -> None:
    count = fill(brokers, "A", "B")
    query = Query(brokers=listed(brokers), destination="A,B", **{way: str(tmp_path / "s") if way != "cursor" else "c"})
    query.run_to_the_end()
    assert sorted(query.numbers()) == list(range(count))
    for parts in query.rows.values():
        for part in parts:
            assert len({destination for destination, _ in part}) == 1
            assert [n for _, n in part] == sorted(n for _, n in part)
            assert len({n // COUNT for _, n in part}) == 1
    assert sorted(numbers_of(query.begun[-1][1])) == sorted(
        f"{broker.url} queue://{queue}" for broker in brokers for queue in "AB"
    )
    query.reader.stop()
    assert [take_all(broker.url, queue) for broker in brokers for queue in "AB"] == [[]] * 4


def test_a_pattern_is_one_source_of_each_broker(brokers: list[Broker], tmp_path: Path) -> None:
    count = fill(brokers, "A.X", "A.Y")
    query = Query(brokers=listed(brokers), destination="A.>", stagingDirectory=str(tmp_path / "s"))
    query.run_to_the_end()
    assert sorted(query.numbers()) == list(range(count))
    assert len(numbers_of(query.begun[-1][1])) == 2
    query.reader.stop()


def test_a_pattern_with_a_cursor_finds_the_queues_of_each_broker_and_those_that_come_later(
    brokers: list[Broker],
) -> None:
    count = fill(brokers, "A.X", "A.Y", "B")
    query = Query(brokers=listed(brokers), destination="A.>", cursor="c")
    query.run_until(4 * COUNT)
    count += send(brokers[1].url, "A.LATE", numbered(COUNT, count))
    query.run_until(5 * COUNT)
    query.restart()
    send(brokers[0].url, "A.X", numbered(COUNT, count))
    while not query.begin_batch():  # noted, not read
        pass
    query.restart()
    query.work()
    query.run_to_the_end()
    found = [destination for parts in query.rows.values() for part in parts for destination, _ in part]
    assert {name: found.count(f"queue://{name}") for name in ("A.X", "A.Y", "A.LATE", "B")} == {
        "A.X": 3 * COUNT, "A.Y": 2 * COUNT, "A.LATE": COUNT, "B": 0,
    }  # fmt: skip
    assert len(set(query.numbers())) == len(query.numbers())
    query.reader.stop()
    assert [broker.queue(name).pending for broker in brokers for name in ("A.X", "A.Y")] == [0] * 4


def test_a_begun_batch_is_read_after_a_restart_while_another_broker_of_the_pattern_is_away(
    brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    away, other = brokers
    send(other.url, "A.X", numbered(COUNT, 0))
    query = Query(brokers=listed(brokers), destination="A.>", cursor="c")
    while not query.begin_batch() or not changed(*map(numbers_of, query.begun[-1])):
        pass  # noted, not read
    away.kill()
    monkeypatch.setattr(retry_window, "MAX_OUTAGE_S", 0.0)
    query.restart()
    query.work()
    assert sorted(query.numbers()) == list(range(COUNT))
    query.reader.stop()


def test_a_bounded_query_with_a_pattern_leaves_out_no_queue(brokers: list[Broker]) -> None:
    count = fill(brokers, "A.X", "A.Y")
    query = Query(brokers=listed(brokers), destination="A.>", cursor="c")
    query.run_to_the_end()
    assert sorted(query.numbers()) == list(range(count))
    count += send(brokers[1].url, "A.LATE", numbered(COUNT, count))
    query.restart()
    query.run_to_the_end()
    assert sorted(query.numbers()) == list(range(count))
    query.reader.stop()


def test_a_pattern_with_a_cursor_and_a_selector_takes_what_matches_and_leaves_the_rest_to_consumers(
    brokers: list[Broker],
) -> None:
    count = fill(brokers, "A.X", "A.Y")
    query = Query(brokers=listed(brokers), destination="A.>", cursor="c", selector="n >= 10 AND n <> 45")
    query.run_until(2)
    query.restart()
    query.begin_batch()
    brokers[0].kill()
    brokers[0].start()
    send(brokers[1].url, "A.LATE", numbered(COUNT, count))
    query.restart(brokers=listed(brokers))
    query.work()
    query.run_to_the_end()
    assert sorted(query.numbers()) == [n for n in range(10, count + COUNT) if n != 45]
    query.reader.stop()
    left = [
        message.properties["n"] for broker in brokers for name in "XY" for message in take_all(broker.url, f"A.{name}")
    ]
    assert left == [*range(10), 45]


def test_a_broker_that_is_away_stops_nobody_is_shown_and_comes_back(brokers: list[Broker], tmp_path: Path) -> None:
    query = Query(brokers=listed(brokers), destination="A", stagingDirectory=str(tmp_path / "s"))
    fill(brokers, "A")
    query.run_until(2 * COUNT)
    away, other = brokers
    away_url = away.url
    away.kill()
    send(other.url, "A", numbered(COUNT, 2 * COUNT))
    query.run_until(3 * COUNT)
    deadline = time.monotonic() + END_S
    while not query.reader.reportLatestOffset()["away"]:
        assert time.monotonic() < deadline
        query.begin_batch()
    report = query.reader.reportLatestOffset()
    assert list(report["away"]) == [f"{away_url} queue://A"]  # type: ignore[call-overload]
    assert set(report["lag"]) == {f"{broker} queue://A" for broker in (away_url, other.url)}  # type: ignore[call-overload]
    away.start()
    send(away.url, "A", numbered(COUNT, 3 * COUNT))
    query.run_until(4 * COUNT)
    assert sorted(query.numbers()) == list(range(4 * COUNT))
    assert query.reader.reportLatestOffset()["away"] == {}
    query.reader.stop()


def test_a_broker_joins_a_query_and_leaves_it_and_what_it_has_staged_is_read(
    brokers: list[Broker], tmp_path: Path
) -> None:
    count = fill(brokers, "A")
    query = Query(brokers=brokers[0].url, destination="A", stagingDirectory=str(tmp_path / "s"))
    query.run_until(COUNT)
    query.restart(brokers=listed(brokers))
    query.run_until(count)
    send(brokers[1].url, "A", numbered(COUNT, count))
    while not query.begin_batch():  # noted, not read
        pass
    query.restart(brokers=brokers[0].url)
    query.work()
    query.run_to_the_end()
    assert sorted(query.numbers()) == list(range(count + COUNT))
    query.reader.stop()


def test_the_cursor_of_a_broker_that_leaves_gives_up_what_is_committed_and_returns_the_rest(
    brokers: list[Broker],
) -> None:
    staying, leaving = brokers
    fill(brokers, "A")
    query = Query(brokers=listed(brokers), destination="A", cursor="c", maxRowsPerBatch="20")
    query.run_until(40)
    query.reader.latestOffset(query.begun[-1][1], ReadAllAvailable())  # reserved, and not noted in the checkpoint
    query.restart(brokers=staying.url)
    query.run_to_the_end()
    read = [n for n in query.numbers() if n >= COUNT]
    left = take_all(leaving.url, "A")
    assert 0 < len(read) < COUNT
    assert sorted([*read, *(int(str(message.properties["n"])) for message in left)]) == list(range(COUNT, 2 * COUNT))
    assert sorted(n for n in query.numbers() if n < COUNT) == list(range(COUNT))
    query.reader.stop()


def test_a_broker_that_has_left_and_is_gone_stops_no_query(brokers: list[Broker]) -> None:
    staying, leaving = brokers
    fill(brokers, "A")
    query = Query(brokers=listed(brokers), destination="A", cursor="c")
    query.run_until(2 * COUNT)
    leaving.stop()
    query.restart(brokers=staying.url)
    send(staying.url, "A", numbered(COUNT, 2 * COUNT))
    query.run_to_the_end()
    assert sorted(query.numbers()) == list(range(3 * COUNT))
    query.reader.stop()


@pytest.mark.parametrize("victim", ["A", "B", "C"])
def test_a_network_of_three_brokers_is_drained_once_whichever_is_killed(victim: str, tmp_path: Path) -> None:
    """The broker falls in each batch, and the query in every second one; both come back."""
    with Network("A<->B<->C<->A", directory=tmp_path) as network:
        names = ["A", "B", "C"]
        count = fill([network[name] for name in names], "Q", "R")
        query = Query(
            brokers=listed([network[name] for name in names]), destination="Q,R", cursor="drain", maxRowsPerBatch="35"
        )
        deadline = time.monotonic() + END_S
        while len(query.numbers()) < count:
            assert time.monotonic() < deadline, query.reader.reportLatestOffset()
            if query.begin_batch():
                network[victim].kill()
                if len(query.begun) % 2:
                    query.restart()
                network[victim].start()
                query.work()
        query.run_to_the_end()
        query.reader.stop()
        assert sorted(query.numbers()) == list(range(count))
        assert [network[name].queue(queue).pending for name in names for queue in "QR"] == [0] * 6


def test_a_checkpoint_of_one_source_and_its_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    reader = SourcesStreamReader({"brokers": "tcp://a:1", "destination": "A", "stagingDirectory": str(tmp_path)})
    with pytest.raises(ConfigurationError, match="belongs to a query without the option brokers"):
        reader.initialOffset()
    with pytest.raises(ConfigurationError, match="belongs to a query without the option brokers"):
        reader.latestOffset(dict(offset(3)), ReadAllAvailable())
