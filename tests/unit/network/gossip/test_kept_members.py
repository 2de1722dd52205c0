"""Addresses of linked members in the store: what is kept, how often, and what of it is believed at the next start."""

from __future__ import annotations

import json

import pytest

from spanwire.broker.metadata import MAX_VALUE_BYTES, NETWORK_MEMBERS
from spanwire.network.gossip.kept_members import (
    KEEP_S,
    KEY,
    MAX_KEPT,
    STEP_S,
    KeptMembers,
    Linked,
    logger,
    recalled,
)
from spanwire.network.reports.known_brokers import MAX_TEXT
from tests.support.dialogue.broker_dialogue import Stage

B, C = "tcp://10.0.0.2:61616", "ssl://c.example.org:61617"


def linked(members: dict[str, str], age_s: float = 0.0) -> dict[str, Linked]:
    return {name: Linked(uri, age_s) for name, uri in members.items()}


class Run:
    """One run of a broker with a store."""

    def __init__(self, stage: Stage | None = None) -> None:
        self.stage = Stage() if stage is None else stage
        self.woken = 0
        self.kept = KeptMembers(self.stage.broker.assembly.network_members, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def record(self) -> bytes | None:
        return self.stage.store.metadata.get(NETWORK_MEMBERS, {}).get(KEY)

    def restarts(self) -> Run:
        self.stage.settle()
        return Run(self.stage.restarts())


def test_what_was_linked_is_known_after_a_restart() -> None:
    run = Run()
    assert run.kept.recall() == {}
    run.kept.keep(linked({"b": B, "c": C}), 0.0)
    assert run.woken == 1
    again = run.restarts()
    assert again.kept.recall() == linked({"b": B, "c": C}, STEP_S)
    again.kept.keep(linked({}), 0.0)
    assert again.restarts().kept.recall() == {}


def test_the_same_addresses_are_written_once_and_others_after_a_while() -> None:
    run = Run()
    run.kept.keep(linked({"b": B}), 0.0)
    run.kept.keep(linked({"b": B}), 100.0)
    run.kept.keep(linked({"b": C}), 101.0)
    run.kept.keep(linked({"b": B}), 101.0 + KEEP_S / 2)
    assert run.woken == 2
    assert run.record() == json.dumps({"b": C}, separators=(",", ":")).encode()
    run.kept.keep(linked({"b": B}), 101.0 + KEEP_S)
    assert run.woken == 3


def test_a_connector_that_starts_late_recalls_the_last_run_though_another_has_kept_its_own() -> None:
    run = Run()
    run.kept.keep(linked({"b": B, "c": C}), 0.0)
    again = run.restarts()
    again.kept.keep(linked({"b": B}), 0.0)
    assert again.kept.recall() == {"b": Linked(B, 0.0), "c": Linked(C, STEP_S)}
    assert again.restarts().kept.recall() == linked({"b": B}, STEP_S)


def test_each_start_makes_a_member_that_is_gone_older() -> None:
    run = Run()
    run.kept.keep(linked({"b": B, "c": C}), 0.0)
    for start in range(1, 4):
        run = run.restarts()
        assert run.kept.recall()["b"] == Linked(B, start * STEP_S)
        run.kept.keep({**run.kept.recall(), "c": Linked(C, 0.0)}, 0.0)
    assert run.record() == json.dumps({"b": [B, 3], "c": C}, separators=(",", ":")).encode()


def test_a_member_that_is_linked_in_each_short_run_does_not_grow_older() -> None:
    run = Run()
    run.kept.keep(linked({"b": B}), 0.0)
    for _ in range(3):
        run = run.restarts()
        run.kept.keep(run.kept.recall(), 0.0)
        run.kept.keep(linked({"b": B}), KEEP_S)
    assert run.record() == json.dumps({"b": B}, separators=(",", ":")).encode()


def test_time_alone_is_written_once_in_a_step() -> None:
    run = Run()
    for second in range(0, int(3 * STEP_S), 10):
        run.kept.keep({str(number): Linked(B, second + number) for number in range(0, 600, 30)}, second)
    assert run.woken <= 4


@pytest.mark.parametrize("steps", ["-1", "null", "1e3", "99999999999", '"1"', "[]"])
def test_an_age_that_is_none_is_left_out(steps: str) -> None:
    assert recalled(f'{{"b": ["{B}", {steps}], "c": "{C}"}}'.encode()) == {"c": (C, 0)}


def test_a_broker_without_a_store_keeps_nothing() -> None:
    kept = KeptMembers(None, lambda: pytest.fail("there is nothing to write"))
    kept.keep(linked({"b": B}), 0.0)
    assert kept.recall() == {}


def test_the_longest_record_fits_into_the_store_and_is_read_whole() -> None:
    run = Run()
    longest = {f"{number:03}{'😀' * (MAX_TEXT - 3)}": "tcp://" + "h" * 200 + ":61616" for number in range(2 * MAX_KEPT)}
    run.kept.keep(linked(longest), 0.0)
    record = run.record()
    assert record is not None
    assert len(record) < MAX_VALUE_BYTES
    assert run.restarts().kept.recall() == linked(dict(list(longest.items())[:MAX_KEPT]), STEP_S)


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b'"x"', b"[" * 100_000])
def test_a_damaged_record_is_a_line_in_the_log(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert recalled(value) == {}
    lines = [record.getMessage() for record in caplog.records if record.name == logger.name]
    assert lines == ["gossip: the kept addresses of members cannot be read: only the seeds are asked"]


def test_what_is_no_address_of_a_broker_is_not_taken() -> None:
    written = {"b": B, "c": "file:///etc/passwd", "d": 7, "e": "tcp://10.0.0.5:0", "x" * (MAX_TEXT + 1): C}
    assert recalled(json.dumps(written).encode()) == {"b": (B, 0)}
