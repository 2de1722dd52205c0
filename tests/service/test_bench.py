"""``spanwire bench`` against a real broker: everything arrives, and the figures say so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.started import Started, spanwire
from tests.support.ports import free_port


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with Started(tmp_path_factory.mktemp("bench")) as started:
        yield started


def test_all_messages_of_a_queue_arrive_once_and_are_reported(broker: Started, tmp_path: Path) -> None:
    chart, rows = tmp_path / "chart.svg", tmp_path / "rows.csv"
    answer = spanwire(
        "bench", broker.broker_url, "--messages", "300", "--rate", "1000", "--producers", "2", "--consumers", "2",
        "--json", "--svg", str(chart), "--csv", str(rows),
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    (shown,) = json.loads(answer.stdout)
    counts = [shown[name] for name in ("sent", "received", "lost", "duplicates", "redelivered", "foreign")]
    assert counts == [300, 300, 0, 0, 0, 0]
    assert 0 < shown["latency_ms"]["p50"] <= shown["latency_ms"]["p99"] <= shown["latency_ms"]["max"]
    assert shown["send_ms"]
    assert chart.read_text().startswith("<svg xmlns=") and rows.read_text().startswith("url,second,")


def test_two_runs_stand_beside_each_other_and_a_topic_gives_each_consumer_all(broker: Started) -> None:
    answer = spanwire(
        "bench", broker.broker_url, broker.broker_url, "--topic", "--consumers", "2", "--messages", "400",
        "--persistent", "false", "--quiet",
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    lines = {line[:20].strip(): line.split()[-2:] for line in answer.stdout.splitlines()[1:]}
    assert lines["received"] == ["800", "800"] and lines["lost"] == ["0", "0"]


def test_a_broker_that_is_not_there_is_one_line() -> None:
    answer = spanwire("bench", f"tcp://127.0.0.1:{free_port()}", "--quiet")
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1].startswith("spanwire bench: tcp://127.0.0.1:")
    assert "Traceback" not in answer.stderr
