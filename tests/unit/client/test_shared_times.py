"""Keep-alives of many connections fall together, and none is much later than it is due."""

from __future__ import annotations

import pytest

from spanwire.client.aio.shared.core_connection import TICKS, shared_time


@pytest.mark.parametrize("limit", [30.0, 1.0])
def test_a_check_is_at_most_one_tick_late_and_never_early(limit: float) -> None:
    for number in range(1_000):
        due = 4_711.0 + number * limit / 997
        assert due - 1e-9 <= shared_time(due, limit) <= due + limit / TICKS + 1e-9


def test_connections_that_are_due_one_after_the_other_wake_the_loop_together() -> None:
    assert len({shared_time(4_711.0 + number / 100, 30.0) for number in range(1_000)}) <= 21  # in ten seconds


def test_without_a_limit_a_time_stays_as_it_is() -> None:
    assert shared_time(4_711.3, 0.0) == 4_711.3
