"""kill -9 of whatever takes part, at named points: every message comes through once.

What the points are stands in `tests.support.spark_faults`. Each kill takes a quarter of a minute: a run of the suite
tries some, `make soak-spark` (SPANWIRE_SPARK_POINTS=all) the others as well, and many more at random
(`tests.soak.spark_kills`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.peers import require
from tests.support.spark_kills import (
    CONTROL_SINK,
    CURSOR,
    LEDGER_SINK,
    NAIVE_SINK,
    STAGING,
    TIMEOUT_S,
    WITHOUT_IDS,
    KilledSpark,
)

ALL_POINTS: Final = os.environ.get("SPANWIRE_SPARK_POINTS") == "all"
MORE_INTO_SPANWIRE: Final = (
    "acknowledged:self",
    "receiving:in+disk",
    "write:self",
    "receiving:out+disk",
    "commit:self",
)
MORE_INTO_CLASSIC: Final = ("reserved:in", "staged:self")


@pytest.mark.long
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_from_classic_to_spanwire_with_staging_and_the_control_destination(tmp_path: Path) -> None:
    require("activemq-broker")
    points = ["received:self", "staged:out", "committed:jvm", *(MORE_INTO_SPANWIRE if ALL_POINTS else ())]
    with classic_broker(tmp_path / "in") as source, BrokerProcess(spanwire_command(), tmp_path / "out") as target:
        outcome = KilledSpark(tmp_path / "staging", {"in": source, "out": target}, points, STAGING, CONTROL_SINK).run()
    assert outcome.is_complete and outcome.is_exact, outcome.told()


@pytest.mark.long
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_from_spanwire_to_classic_with_a_cursor_and_a_ledger(tmp_path: Path) -> None:
    require("activemq-broker")
    points = [*(MORE_INTO_CLASSIC if ALL_POINTS else ()), "decided:self", "commit:zombie"]
    with BrokerProcess(spanwire_command(), tmp_path / "in") as source, classic_broker(tmp_path / "out") as target:
        outcome = KilledSpark(tmp_path / "cursor", {"in": source, "out": target}, points, CURSOR, LEDGER_SINK).run()
    assert outcome.is_complete and outcome.is_exact, outcome.told()
    assert outcome.zombies == 1, outcome.told()


@pytest.mark.long
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_the_counting_finds_what_a_sink_doubles_that_sends_at_once(spanwire: BrokerProcess, tmp_path: Path) -> None:
    with BrokerProcess(spanwire_command(), tmp_path / "out", inside=WITHOUT_IDS) as target:
        brokers = {"in": spanwire, "out": target}
        outcome = KilledSpark(tmp_path / "naive", brokers, ["staged:self"], STAGING, NAIVE_SINK).run()
    assert outcome.is_complete and outcome.lost == [], outcome.told()
    assert outcome.doubled, outcome.told()


@pytest.mark.long
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_broker_that_knows_the_ids_drops_what_such_a_sink_sends_again(
    spanwire: BrokerProcess, tmp_path: Path
) -> None:
    brokers = {"in": spanwire, "out": spanwire}
    outcome = KilledSpark(tmp_path / "naive", brokers, ["staged:self"], STAGING, NAIVE_SINK).run()
    assert outcome.is_complete and outcome.is_exact, outcome.told()
