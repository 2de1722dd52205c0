"""The check for two masters reads logs and answers; it finds a second master that is planted."""

from __future__ import annotations

from tests.soak.masters import Answer, faults, reigns, with_a_second_master

LINE = "{}+00:00 INFO    spanwire.service.standby: this broker owns the store with epoch {}"
LOGS = {
    "a": [LINE.format("2026-11-26T10:00:00.000", 1), "other", LINE.format("2026-11-26T10:00:20.000", 3)],
    "b": [LINE.format("2026-11-26T10:00:10.500", 2)],
}
START = 1795687200.0  # 26 November 2026, 10:00 UTC
GOOD = [
    Answer("a", START + 1, START + 2, "1"),
    Answer("a", START + 10, START + 12, "2"),  # asked before the other was master, answered late: true of its store
    Answer("b", START + 11, START + 12, "3"),
    Answer("a", START + 21, START + 22, "4"),
]


def test_masters_that_follow_one_another_are_no_fault() -> None:
    masters = reigns(LOGS)
    assert [(reign.broker, reign.epoch) for reign in masters] == [("a", 1), ("b", 2), ("a", 3)]
    assert masters[0].since == START
    assert faults(masters, GOOD) == []


def test_an_answer_of_a_former_master_is_found() -> None:
    masters = reigns(LOGS)
    assert faults(masters, with_a_second_master(masters, GOOD)) == [
        "b answered planted, which was asked 0.001 s after a became master with epoch 3"
    ]
    assert faults(masters, [Answer("b", START - 1, START, "0")]) == ["b answered 0 before any broker was master"]


def test_an_epoch_that_does_not_rise_is_found() -> None:
    again = {**LOGS, "c": [LINE.format("2026-11-26T10:00:30.000", 3)]}
    assert faults(reigns(again), GOOD) == ["c became master with epoch 3 behind epoch 3"]
