"""Rates, tables, and texts of strangers on a terminal."""

from __future__ import annotations

import pytest

from spanwire.cli.endpoint import rate
from spanwire.cli.main import main
from spanwire.cli.messages.dstat import table
from spanwire.testing import Broker


def test_a_rate_of_no_time_is_told() -> None:
    assert rate(1000, 0.31) == "0.31 s (3226/s)"
    assert rate(0, 0.0) == "0.00 s (0/s)"


def test_the_table_has_a_line_for_each_destination() -> None:
    row = {
        "destination": "queue://ORDERS",
        "pending": 5,
        "producers": 1,
        "consumers": 2,
        "enqueued": 10,
        "dequeued": 5,
        "in_flight": 3,
        "memory_bytes": 2048,
    }
    heading, line = table([row]).splitlines()
    assert " ".join(heading.split()) == ("Name Queue Size Producer # Consumer # Enqueue # Dequeue # In Flight Memory B")
    assert line.split() == ["queue://ORDERS", "5", "1", "2", "10", "5", "3", "2048"]


@pytest.mark.parametrize("tool", ["producer", "consumer", "browse"])
def test_a_broker_with_users_has_its_tools_ask_for_a_user(
    tool: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPANWIRE_PASSWORD", raising=False)
    with Broker(users={"orders": "wonderland"}) as broker:
        words = [tool, "--brokerUrl", broker.url, *(["A"] if tool == "browse" else ["--messageCount", "1"])]
        assert main(words) == 1
        advice = "password is invalid; give --user NAME, and the password in SPANWIRE_PASSWORD"
        assert advice in capsys.readouterr().err
        assert main([*words, "--user", "orders"]) == 1
        assert advice not in capsys.readouterr().err
