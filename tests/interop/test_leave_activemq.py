"""An operator who follows the page leaves a real ActiveMQ Classic, and no message stays behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from spanwire.client import connect
from tests.support.broker_process import BrokerProcess
from tests.support.patience import SPARK_S
from tests.support.queues import numbered, send, take_all
from tests.support.tutorials import Tutorial

PAGE: Final = "coming-from/leave-activemq.md"
PENDING: Final = {"ORDERS": 2000, "ARCHIVE": 300, "ActiveMQ.DLQ": 5}


@pytest.mark.long
@pytest.mark.peers
@pytest.mark.timeout(3 * SPARK_S)
def test_an_operator_leaves_activemq_and_no_message_stays_behind(
    classic: BrokerProcess, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    old = classic.openwire_uri()
    for queue, count in PENDING.items():
        send(old, queue, numbered(count))
    begun = time.monotonic()
    with Tutorial(PAGE, tmp_path, {"61616": classic.openwire_port}) as tutorial:
        tutorial.follow()
        took_s = time.monotonic() - begun
        record_property("commands of the page, seconds", round(took_s, 1))
        print(f"{PAGE}: {took_s:.1f} s")
        new = tutorial.with_ports("tcp://127.0.0.1:61626")
        for queue in PENDING:
            assert take_all(old, queue) == []
        for queue, count in (("ARCHIVE", 300), ("OLD.DLQ", 5)):
            assert sorted(message.properties["n"] for message in take_all(new, queue)) == list(range(count))
        with connect(new) as connection, connection.session() as session:
            assert session.create_consumer("queue://ORDERS").receive(timeout=0.5) is None
