"""`spanwire drain`: a broker is emptied into another one, also if it is killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.client.blocking import connect
from tests.service.started import TIMEOUT_S, Started
from tests.service.test_moves import asked, received, sends
from tests.support.broker_process import COMMAND

COUNT = 3_000


class Other(Started):
    """The broker that gets the messages."""

    def text(self) -> str:
        return super().text().replace('"tested"', '"other"')


def pending(broker: Started) -> int:
    rows = asked(broker, "destinations")
    assert isinstance(rows, list)
    return sum(row["pending"] for row in rows if row["destination"].startswith("queue://"))


def test_a_drained_broker_is_empty_and_the_other_has_all_messages_once(tmp_path: Path) -> None:
    with Started(tmp_path / "a") as first, Other(tmp_path / "b") as second:
        for queue in ("ORDERS", "BILLS"):
            sends(first, queue, 20)
        sends(first, "KEPT", 1)
        words = ["drain", second.broker_url, "--queue", "ORDERS", "--queue", "BILLS", "--data-directory"]
        assert main([*words, str(first.data)]) == 0
        assert pending(first) == 1
        assert [sorted(received(second, queue)) for queue in ("ORDERS", "BILLS")] == [list(range(20))] * 2
        assert first.network("network_connectors") == []


@pytest.mark.long
def test_a_broker_that_is_killed_while_it_is_drained_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with Started(tmp_path / "a") as first, Other(tmp_path / "b") as second:
        with connect(first.broker_url) as connection, connection.session("transacted") as session:
            producer = session.create_producer("queue://ORDERS")
            for number in range(COUNT):
                producer.send(f"{number}")
            session.commit()
        words = ["drain", second.broker_url, "--data-directory", str(first.data)]
        drain = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + TIMEOUT_S
        while pending(second) < COUNT // 20 and time.monotonic() < deadline:
            time.sleep(0.005)
        os.kill(first.pid, signal.SIGKILL)
        assert 0 < pending(second)
        _, errors = drain.communicate(timeout=TIMEOUT_S)
        assert drain.returncode == 1
        assert "Traceback" not in errors
        first.ended()
        first.start()
        assert main(words) == 0
        assert pending(first) == 0
        assert Counter(received(second, "ORDERS")) == Counter(range(COUNT))
