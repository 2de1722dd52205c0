"""What happens inside the network namespace of `test_discovery.py` with a query: ``python -m … SCENARIO DIRECTORY``.

A module of its own, because it loads PySpark.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from spanwire.client import blocking
from spanwire.pipeline.datasource.sources_reader import SourcesStreamReader
from spanwire.pipeline.source.offsets import numbers_of
from tests.service.discovery_scenarios import Announced

TIMEOUT_S: Final = 60.0


def a_query_reads_all_brokers_of_a_group_and_one_that_joins(directory: Path) -> None:
    given = {"brokers": "discovery:(multicast://default)", "destination": "ORDERS", "cursor": "c"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spanwire.pipeline.link.broker_finder.SEARCH_INTERVAL_S", 0.2)
        with Announced(directory / "a", "A") as a, Announced(directory / "b", "B") as b:
            for broker in (a, b):
                _send(broker)
            reader = SourcesStreamReader(given)
            offset = reader.initialOffset()
            assert len(numbers_of(offset)) == 2
            offset = _read(reader, offset, [1, 1])
            with Announced(directory / "c", "C") as c:
                _send(c)
                offset = _read(reader, offset, [1, 1, 1])
                reader.stop()
        assert sorted(numbers_of(offset).values()) == [1, 1, 1]


def _send(broker: Announced) -> None:
    with blocking.connect(broker.broker_url) as connection, connection.session() as session:
        session.create_producer("queue://ORDERS").send("one", wait=True)


def _read(reader: SourcesStreamReader, offset: dict[str, object], wanted: list[int]) -> dict[str, object]:
    deadline = time.monotonic() + TIMEOUT_S
    while list(numbers_of(offset).values()) != wanted:
        assert time.monotonic() < deadline, (offset, reader.reportLatestOffset())
        offset = reader.latestOffset(offset, ReadAllAvailable())
    return offset


SCENARIOS: Final = (a_query_reads_all_brokers_of_a_group_and_one_that_joins,)

if __name__ == "__main__":
    {scenario.__name__: scenario for scenario in SCENARIOS}[sys.argv[1]](Path(sys.argv[2]))
