"""``spanwire bench`` loads ActiveMQ Classic over OpenWire as it loads Spanwire."""

from __future__ import annotations

import json

import pytest

from tests.service.started import spanwire
from tests.support.broker_process import BrokerProcess


@pytest.mark.parametrize("words", [(), ("--topic", "--consumers", "2", "--persistent", "false")])
def test_all_messages_arrive_at_activemq(classic: BrokerProcess, words: tuple[str, ...]) -> None:
    answer = spanwire(
        "bench",
        f"tcp://127.0.0.1:{classic.openwire_port}",
        "--messages",
        "200",
        "--rate",
        "500",
        "--json",
        "--quiet",
        *words,
    )
    assert answer.returncode == 0, answer.stderr
    (shown,) = json.loads(answer.stdout)
    assert (shown["sent"], shown["received"]) == (200, 400 if words else 200)
    assert shown["lost"] == shown["duplicates"] == 0 and shown["latency_ms"]["p99"] > 0
