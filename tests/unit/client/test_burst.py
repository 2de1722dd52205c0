"""One-way commands are written at once, and in a burst together."""

from __future__ import annotations

from spanwire.client.blocking.write_batching import FLUSH_DELAY, GATHER_DELAY, Burst

NOW = 100.0


def test_what_comes_alone_is_written_at_once() -> None:
    burst = Burst()
    for number in range(5):
        now = NOW + number * 2 * FLUSH_DELAY
        assert not burst.begins(now)
        burst.written(now)
    assert burst.due_at is None


def test_what_follows_a_write_gathers_until_nothing_follows_any_more() -> None:
    burst = Burst()
    burst.written(NOW)
    assert burst.begins(NOW + FLUSH_DELAY / 2)
    assert burst.is_on
    assert burst.due_at == NOW + FLUSH_DELAY / 2 + GATHER_DELAY
    burst.looked(burst.due_at, True)
    assert burst.is_on
    now = burst.due_at
    burst.written(now - GATHER_DELAY / 2)  # enough had gathered before its time
    burst.looked(now, False)
    assert burst.is_on
    now = burst.due_at
    burst.looked(now, False)
    assert not burst.is_on
    assert burst.due_at is None
    assert not burst.begins(now)
