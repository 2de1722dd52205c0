"""The load of ``spanwire bench``: percentiles, lost and doubled messages, and a schedule that no pause moves."""

from __future__ import annotations

import asyncio
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from math import ceil
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.cli.bench import command
from spanwire.cli.bench.consuming import Arrivals
from spanwire.cli.bench.latencies import MAX_US, Latencies
from spanwire.cli.bench.marks import Marks
from spanwire.cli.bench.plan import STAMP, Plan
from spanwire.cli.bench.producing import Sent, send_all
from spanwire.cli.bench.reports import as_csv, as_svg, figures, remarks, table
from spanwire.cli.bench.running import Result, Row
from spanwire.cli.main import main
from spanwire.client.messages.message import Message
from spanwire.model.errors import SpanwireError

PLAN = Plan(
    b"12345678", "tcp://b:1", "queue://Q", False, 2, 1, 100, True, 0.0, 10, 10.0, 0.0, 0, None, "auto", 1.0
)  # fmt: skip


@given(st.lists(st.integers(0, MAX_US), min_size=1, max_size=300), st.sampled_from([50.0, 90.0, 99.0, 99.9, 100.0]))
def test_a_percentile_is_at_most_a_hundredth_above_the_exact_one(times: list[int], percent: float) -> None:
    latencies = Latencies()
    for one in times:
        latencies.add(one)
    exact = sorted(times)[max(1, ceil(len(times) * percent / 100)) - 1]
    assert exact <= latencies.percentile(percent) <= exact * 1.01 + 1


@given(st.lists(st.integers(-5, MAX_US + 5), max_size=50), st.lists(st.integers(0, 5000), max_size=50))
def test_times_of_two_processes_are_those_of_one(first: list[int], second: list[int]) -> None:
    parts, whole = [Latencies(), Latencies()], Latencies()
    for part, times in zip(parts, (first, second), strict=True):
        for one in times:
            part.add(one)
            whole.add(one)
    parts[0].merge(parts[1].pairs(), parts[1].longest_us)
    assert (parts[0].pairs(), parts[0].longest_us) == (whole.pairs(), whole.longest_us)
    whole.clear()
    assert (whole.total, whole.pairs(), whole.percentile(99)) == (0, [], 0)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=80), st.integers(0, 45))
def test_lost_and_doubled_messages_are_counted(taken: list[tuple[int, int]], sent: int) -> None:
    marks = Marks()
    for producer, sequence in taken:
        marks.take(producer, sequence)
    assert marks.received == len(set(taken)) and marks.duplicates == len(taken) - len(set(taken))
    expected = {(producer, sequence) for producer in range(3) for sequence in range(sent)}
    assert marks.lost(dict.fromkeys(range(3), sent)) == len(expected - set(taken))


def test_marks_grow_with_the_messages() -> None:
    marks = Marks()
    marks.take(0, 1_000_000)
    assert 125_000 < marks.size < 250_000 and marks.lost({0: 1_000_001}) == 1_000_000


class Stalling:
    """A producer whose third send takes a while."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def send(self, body: bytes, *, wait: bool | None = None) -> None:
        self.bodies.append(body)
        if len(self.bodies) == 3:
            await asyncio.sleep(0.1)


def test_a_pause_of_the_broker_moves_no_message_of_the_schedule() -> None:
    plan = replace(PLAN, rate=200.0, producers=1)
    producer, sent, begin = Stalling(), Sent(), time.monotonic_ns()
    asyncio.run(send_all(plan, producer, 0, begin, lambda: 0, sent))
    due = [STAMP.unpack_from(body)[3] for body in producer.bodies]
    assert due == [begin + number * 5_000_000 for number in range(10)]
    assert sent.by_producer == {0: 10}
    # The messages that were due in the pause are charged with the rest of it: from 100 ms down in steps of 5 ms.
    assert sent.answers.percentile(50) >= 50_000


def test_producers_take_turns_in_the_schedule_and_share_the_messages() -> None:
    plan = replace(PLAN, rate=1000.0, messages=7)
    assert [plan.due_ns(producer, sequence, 0) for sequence in (0, 1) for producer in (0, 1)] == [
        0, 1_000_000, 2_000_000, 3_000_000,
    ]  # fmt: skip
    assert [plan.share(0), plan.share(1)] == [4, 3]


def test_a_producer_waits_for_room_and_gives_up_when_nothing_arrives() -> None:
    plan = replace(PLAN, window=5, messages=1000, producers=1, patience_s=0.05)
    producer = Stalling()
    with pytest.raises(SpanwireError, match=r"no message has arrived for 0.05 s, and 5 are on their way"):
        asyncio.run(send_all(plan, producer, 0, time.monotonic_ns(), lambda: 0, Sent()))
    assert len(producer.bodies) == 50


def arrived(arrivals: Arrivals, consumer: int, body: object, redelivered: bool = False) -> None:
    arrivals.take(consumer, cast(Message, SimpleNamespace(body=body, redelivered=redelivered)), 5_000_000)


def test_latency_counts_from_the_schedule_and_not_in_the_warm_up() -> None:
    arrivals = Arrivals(PLAN)
    arrivals.warm_ns = 2_000_000
    arrived(arrivals, 0, PLAN.body(0, 0, 1_999_999))
    arrived(arrivals, 0, PLAN.body(0, 1, 2_000_000), redelivered=True)
    assert (arrivals.received, arrivals.interval.total, arrivals.interval.longest_us) == (2, 1, 3000)
    assert arrivals.redelivered == 1
    assert arrivals.row(0)[:3] == ("row", 0, 2) and arrivals.interval.total == 0


@pytest.mark.parametrize("body", ["text", b"short", b"87654321" + bytes(100), PLAN.body(2, 0, 0)])
def test_messages_of_others_are_counted_apart(body: object) -> None:
    arrivals = Arrivals(PLAN)
    arrived(arrivals, 0, body)
    assert (arrivals.foreign, arrivals.received) == (1, 0)


def test_each_consumer_of_a_topic_has_to_get_each_message() -> None:
    arrivals = Arrivals(replace(PLAN, is_topic=True, consumers=2))
    for consumer in (0, 1, 1):
        arrived(arrivals, consumer, PLAN.body(0, 0, 0))
    assert (arrivals.received, arrivals.duplicates, arrivals.lost({0: 1, 1: 0})) == (2, 1, 0)
    assert arrivals.lost({0: 2, 1: 1}) == 4


def test_too_many_messages_to_mark_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    arrivals = Arrivals(PLAN)
    arrived(arrivals, 0, PLAN.body(0, 0, 0))
    monkeypatch.setattr("spanwire.cli.bench.consuming.MAX_MARK_BYTES", 100)
    with pytest.raises(SpanwireError, match="make it shorter"):
        arrivals.check_size()


def result(url: str = "tcp://b:1", **changes: Any) -> Result:
    made = Result(url, sent=100, received=100, seconds=2.0, producer_cpu_s=1.0, consumer_cpu_s=0.5, **changes)
    for one in range(100):
        made.latencies.add(one * 1000)
    made.rows += [Row(0, 50, 40, 1000, 2000, 3000, True), Row(1, 50, 60)]
    return made


def test_the_reports_have_all_figures() -> None:
    both = [result(), result("tcp://c:2")]
    text = table(both)
    assert "messages/s" in text and " 50 " in text and "latency p99 ms" in text and "tcp://c:2" in text
    shown = cast(dict[str, Any], figures(both[0]))
    assert shown["latency_ms"]["p50"] == pytest.approx(49.0, rel=0.01) and shown["latency_ms"]["max"] == 99.0
    assert as_csv(both).splitlines()[:3] == [
        "url,second,sent,received,p50_ms,p99_ms,max_ms", "tcp://b:1,0,50,40,1.0,2.0,3.0", "tcp://b:1,1,50,60,,,",
    ]  # fmt: skip
    root = ElementTree.fromstring(as_svg(both, "queue & <topic>"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall("{http://www.w3.org/2000/svg}svg")) == 3


def test_busy_clients_and_messages_of_others_are_remarked() -> None:
    made = result(foreign=3, redelivered=2)
    made.producer_cpu_s = 1.9
    assert [line.partition(": ")[2][:20] for line in remarks(made)] == [
        "the producers used a", "3 messages of others", "2 messages were deli",
    ]  # fmt: skip


@pytest.mark.parametrize(("lost", "duplicates", "status"), [(0, 0, 0), (1, 0, 1), (0, 1, 1)])
def test_a_lost_or_doubled_message_is_an_exit_status(
    lost: int, duplicates: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run_plan", lambda plan, on_row: result(lost=lost, duplicates=duplicates))
    assert main(["bench", "tcp://b:1"]) == status


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--producers", "0"], "--producers is at least 1"),
        (["--consumers", "1001"], "--consumers is at most 1000"),
        (["--warm-up", "10"], "--warm-up is shorter than --seconds"),
        (["--destination", "queue://A.>"], "name one queue or topic"),
        (["--topic", "--consumers", "1000", "--messages", "1000000000"], "times the consumers of a topic"),
    ],
)
def test_what_cannot_be_run_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
