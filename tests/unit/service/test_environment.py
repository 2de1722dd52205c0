"""The two clocks: the wall clock follows the system's, back only where that was really set back."""

from __future__ import annotations

import logging

import pytest

from spanwire.service.machine.environment import RealEnvironment
from spanwire.transports.loop.system_clock import SystemClock


class Machine:
    """Its clocks are set by the test."""

    def __init__(self) -> None:
        self.monotonic = 100.0
        self.wall = 1_700_000_000.0

    def clock(self) -> SystemClock:
        return SystemClock(lambda: self.monotonic, lambda: self.wall)

    def pass_time(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds


def test_both_clocks_run_together() -> None:
    machine = Machine()
    clock = machine.clock()
    first = clock.now()
    machine.pass_time(2.5)
    second = clock.now()
    assert second.monotonic - first.monotonic == 2.5
    assert second.wall_ms - first.wall_ms == 2500


def test_a_wall_clock_set_back_by_a_little_stands_still_until_real_time_is_there() -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock.now().wall_ms
    machine.wall -= 4.0
    machine.pass_time(1.0)
    assert clock.now().wall_ms == before
    machine.pass_time(2.0)
    assert clock.now().wall_ms == before
    machine.pass_time(3.0)
    assert clock.now().wall_ms == before + 2000


def test_a_clock_that_ran_ahead_and_was_put_right_is_followed_back(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock.now().wall_ms
    machine.wall += 86_400.0
    machine.pass_time(1.0)
    assert clock.now().wall_ms == before + 86_401_000
    machine.wall -= 86_400.0
    machine.pass_time(1.0)
    with caplog.at_level(logging.WARNING):
        assert clock.now().wall_ms == before + 2000
    assert "set back 86400.0 s; message times and expiry follow it" in caplog.text


def test_a_forward_jump_is_followed_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock.now().wall_ms
    machine.wall += 3600.0
    machine.pass_time(1.0)
    with caplog.at_level(logging.WARNING):
        assert clock.now().wall_ms == before + 3_601_000
    assert "jumped 3600.0 s forward" in caplog.text


def test_a_slewed_clock_is_followed_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock.now().wall_ms
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            machine.wall += 0.5
            machine.pass_time(1.0)
            clock.now()
    assert clock.now().wall_ms == before + 15_000
    assert caplog.text == ""


def test_readings_go_back_only_with_a_clock_that_was_set_back_by_much() -> None:
    machine = Machine()
    clock = machine.clock()
    latest = clock.now()
    for jump in (0.0, -10.0, 5.0, -3600.0, 7200.0, -1.0, 0.25, -0.5):
        machine.wall += jump
        machine.pass_time(0.7)
        now = clock.now()
        assert (now.wall_ms < latest.wall_ms) == (jump < -5.0)
        assert now.monotonic > latest.monotonic
        latest = now


def test_random_bytes_and_the_host_name_fit_into_ids() -> None:
    environment = RealEnvironment()
    assert len(environment.random_bytes(16)) == 16
    assert environment.random_bytes(16) != environment.random_bytes(16)
    assert environment.host_name
    assert not set(environment.host_name) & set(": /\n")
