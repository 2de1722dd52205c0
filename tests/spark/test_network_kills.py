"""kill -9 of each broker of a network while one query drains all of them: every message comes through once.

Some minutes long: `make soak-spark` runs it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.linked_brokers import linked_brokers
from tests.support.spark_kills import CONTROL_SINK, CURSOR, TIMEOUT_S, KilledSpark

pytestmark = pytest.mark.long

POINTS = [
    "reserved:in",
    "read:in2",
    "staged:in3",
    "read:self",
    "commit:jvm",
    "reserved:in2",
    "committed:out",
    "read:in",
]


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_network_is_drained_by_one_query_once_whichever_broker_is_killed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(broker) for name, broker in linked_brokers(tmp_path).items()}
        brokers["out"] = stack.enter_context(BrokerProcess(spanwire_command(), tmp_path / "out"))
        outcome = KilledSpark(tmp_path / "drain", brokers, POINTS, CURSOR, CONTROL_SINK).run()
    assert outcome.is_complete and outcome.is_exact, outcome.told()
