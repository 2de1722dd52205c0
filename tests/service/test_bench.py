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


@pytest.mark.parametrize("words", [(), ("--topic", "--persistent", "false", "--ack-mode", "dups_ok")])
def test_stomp_and_openwire_are_compared_in_one_table(broker: Started, tmp_path: Path, words: tuple[str, ...]) -> None:
    chart, rows = tmp_path / "chart.svg", tmp_path / "rows.csv"
    stomp = f"stomp://127.0.0.1:{broker.ports['stomp']}"
    answer = spanwire(
        "bench", stomp, broker.broker_url, "--messages", "300", "--rate", "1000", "--producers", "2",
        "--consumers", "2", "--json", "--svg", str(chart), "--csv", str(rows), *words,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    for shown in json.loads(answer.stdout):
        counts = [shown[name] for name in ("sent", "received", "lost", "duplicates", "redelivered", "foreign")]
        assert counts == [300, 600 if words else 300, 0, 0, 0, 0]
        assert 0 < shown["latency_ms"]["p50"] <= shown["latency_ms"]["p99"]
        assert bool(shown["send_ms"]) == (not words)
    assert stomp in chart.read_text() and f"\n{stomp},0," in rows.read_text()


@pytest.mark.parametrize("scheme", ["tcp", "stomp"])
def test_a_broker_that_is_not_there_is_one_line(scheme: str) -> None:
    answer = spanwire("bench", f"{scheme}://127.0.0.1:{free_port()}", "--quiet")
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1].startswith(f"spanwire bench: {scheme}://127.0.0.1:")
    assert "Traceback" not in answer.stderr
