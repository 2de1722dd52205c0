"""``spanwire bench`` loads ActiveMQ Classic over OpenWire and STOMP as it loads Spanwire."""

from __future__ import annotations

import json

import pytest

from tests.service.started import spanwire
from tests.support.broker_process import BrokerProcess

TOPIC = ("--topic", "--consumers", "2", "--persistent", "false")


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        ("tcp", ()),
        ("stomp", ()),
        pytest.param("tcp", TOPIC, marks=pytest.mark.long),
        pytest.param("stomp", TOPIC, marks=pytest.mark.long),
        pytest.param("stomp", ("--ack-mode", "dups_ok", "--wait", "never"), marks=pytest.mark.long),
    ],
)
def test_all_messages_arrive_at_activemq(classic: BrokerProcess, scheme: str, words: tuple[str, ...]) -> None:
    port = classic.openwire_port if scheme == "tcp" else classic.stomp_port
    answer = spanwire(
        "bench",
        f"{scheme}://127.0.0.1:{port}",
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
    assert (shown["sent"], shown["received"]) == (200, 400 if "--topic" in words else 200)
    assert shown["lost"] == shown["duplicates"] == 0 and shown["latency_ms"]["p99"] > 0


@pytest.mark.long
@pytest.mark.parametrize("words", [(), TOPIC])
def test_all_messages_arrive_at_artemis_over_stomp(artemis: BrokerProcess, words: tuple[str, ...]) -> None:
    address = f"stomp://127.0.0.1:{artemis.openwire_port}"
    answer = spanwire("bench", address, "--messages", "200", "--rate", "500", "--json", "--quiet", *words)
    assert answer.returncode == 0, answer.stderr
    (shown,) = json.loads(answer.stdout)
    assert (shown["sent"], shown["received"]) == (200, 400 if words else 200)
    assert shown["lost"] == shown["duplicates"] == 0
