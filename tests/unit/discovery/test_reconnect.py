"""Waiting between two attempts."""

from __future__ import annotations

from spanwire.discovery.addresses.reconnect import Reconnect, ReconnectSettings


def delays(settings: ReconnectSettings, count: int) -> list[float | None]:
    reconnect = Reconnect(settings)
    return [reconnect.next_delay(0.0) for _ in range(count)]


def test_each_failure_in_a_row_waits_twice_as_long_up_to_the_maximum() -> None:
    assert delays(ReconnectSettings(), 7) == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_without_back_off_every_wait_is_the_first_one() -> None:
    assert delays(ReconnectSettings(exponential=False, max_delay_ms=500), 3) == [1.0, 1.0, 1.0]


def test_the_factor_can_be_chosen() -> None:
    assert delays(ReconnectSettings(initial_delay_ms=100, multiplier=3), 3) == [0.1, 0.3, 0.9]


def test_a_link_that_lived_begins_again_with_the_first_delay() -> None:
    reconnect = Reconnect(ReconnectSettings())
    assert [
        reconnect.next_delay(0),
        reconnect.next_delay(4.999),
        reconnect.next_delay(5.0),
        reconnect.next_delay(0),
    ] == [1, 2, 1, 2]


def test_after_as_many_attempts_as_are_allowed_it_gives_up() -> None:
    assert delays(ReconnectSettings(max_attempts=3), 3) == [1.0, 2.0, None]


def test_thousands_of_failures_do_not_overflow() -> None:
    assert delays(ReconnectSettings(multiplier=1000), 5000)[-1] == 30.0
