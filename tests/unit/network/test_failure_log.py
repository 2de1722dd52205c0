"""An outage is told at its start, for each new reason, and every ten minutes."""

from __future__ import annotations

from spanwire.network.connector.failure_log import MAX_REASONS, FailureLog


def lines(log: FailureLog, reason: str, times: range) -> list[str]:
    return [line for line in (log.line_for(reason, float(now)) for now in times) if line]


def test_a_repeated_failure_is_told_every_ten_minutes_with_a_count() -> None:
    assert lines(FailureLog(), "connection refused", range(0, 1_801, 30)) == [
        "connection refused",
        "connection refused; 21 failures in 10 min",
        "connection refused; 41 failures in 20 min",
        "connection refused; 61 failures in 30 min",
    ]


def test_each_new_reason_is_told_at_once() -> None:
    log = FailureLog()
    told = [log.line_for(reason, now) for now, reason in enumerate(("refused", "no route", "refused", "no route"))]
    assert told == ["refused", "no route", "", ""]


def test_the_next_outage_is_told_anew() -> None:
    log = FailureLog()
    assert lines(log, "refused", range(3)) == ["refused"]
    log.reset()
    assert lines(log, "refused", range(3, 6)) == ["refused"]


def test_a_peer_that_makes_up_reasons_does_not_fill_the_log() -> None:
    log = FailureLog()
    told = [log.line_for("x" * number, 1.0) for number in range(1, 10 * MAX_REASONS)]
    assert len([line for line in told if line]) == MAX_REASONS


def test_a_reason_that_differs_in_a_number_alone_is_the_same() -> None:
    log = FailureLog()
    told = [log.line_for(f"too many failed logins: try again in {seconds} s", 1.0) for seconds in (2, 4, 8, 16)]
    assert told == ["too many failed logins: try again in 2 s", "", "", ""]
