"""The stream reader of a cursor at a broker, without Spark: what it has open there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from spanwire.client import blocking
from spanwire.pipeline.columns.column_decoder import MAX_CHUNK_BYTES
from spanwire.pipeline.datasource.cursor_reader import CursorStreamReader
from spanwire.pipeline.source.offsets import number_of
from spanwire.testing.broker import Broker

COUNT = 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(directory=tmp_path) as found:
        with blocking.connect(found.url) as connection, connection.session() as session:
            producer = session.create_producer("queue://ORDERS")
            for number in range(COUNT):
                producer.send(f"m{number}", wait=True)
        yield found


def reader_of(broker: Broker) -> CursorStreamReader:
    given = {"url": broker.url, "destination": "ORDERS", "cursor": "c", "maxRowsPerBatch": "1"}
    return CursorStreamReader(given)


def held(broker: Broker) -> list[tuple[int, int]]:
    """Consumers and producers of each connection."""
    return [(view.consumers, view.producers) for view in broker.connections()]


def test_a_query_has_as_much_open_after_many_batches_as_after_one(broker: Broker) -> None:
    reader = reader_of(broker)
    offset = reader.initialOffset()
    before = held(broker), len(broker.destinations())
    for number in range(1, COUNT + 1):
        offset = reader.latestOffset(offset, ReadAllAvailable())
        assert number_of(offset, "c") == number
    assert (held(broker), len(broker.destinations())) == before
    reader.stop()


@pytest.mark.large
def test_a_task_waits_for_its_broker_and_goes_on_behind_the_last_row(tmp_path: Path) -> None:
    with Broker(directory=tmp_path) as broker:
        with blocking.connect(broker.url) as connection, connection.session() as session:
            producer = session.create_producer("queue://ORDERS")
            for number in range(4):
                producer.send(bytes([number]) * (MAX_CHUNK_BYTES + 1), wait=True)  # one record batch for each
        reader = CursorStreamReader({"url": broker.url, "destination": "ORDERS", "cursor": "c", "numPartitions": "1"})
        start = reader.initialOffset()
        (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
        task = reader.read(partition)
        firsts = [next(task).column("bytes")[0].as_py()[0]]
        broker.kill()
        restart = threading.Timer(0.2, broker.start)
        restart.start()
        firsts += [batch.column("bytes")[0].as_py()[0] for batch in task]
        restart.join()
        assert firsts == [0, 1, 2, 3]
        reader.stop()


@pytest.mark.large
def test_a_query_that_lost_its_broker_asks_over_a_new_connection(broker: Broker) -> None:
    reader = reader_of(broker)
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    broker.restart()
    offset = first
    while offset == first:
        offset = reader.latestOffset(first, ReadAllAvailable())
    assert (number_of(first, "c"), number_of(offset, "c")) == (1, 2)
    assert len(held(broker)) == 1
    reader.stop()
