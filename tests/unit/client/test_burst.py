"""One-way commands are written at once, and in a burst together."""

from __future__ import annotations

from spanwire.client.blocking.shared.write_batching import FLUSH_DELAY, GATHER_DELAY, WriteBatching

NOW = 100.0


def test_what_comes_alone_is_written_at_once() -> None:
    batching = WriteBatching()
    for number in range(5):
        now = NOW + number * 2 * FLUSH_DELAY
        assert not batching.begin(now)
        batching.on_written(now)
    assert batching.due_at is None


def test_what_follows_a_write_gathers_until_nothing_follows_any_more() -> None:
    batching = WriteBatching()
    batching.on_written(NOW)
    assert batching.begin(NOW + FLUSH_DELAY / 2)
    assert batching.is_on
    assert batching.due_at == NOW + FLUSH_DELAY / 2 + GATHER_DELAY
    batching.on_due(batching.due_at, True)
    assert batching.is_on
    now = batching.due_at
    batching.on_written(now - GATHER_DELAY / 2)  # enough had gathered before its time
    batching.on_due(now, False)
    assert batching.is_on
    now = batching.due_at
    batching.on_due(now, False)
    assert not batching.is_on
    assert batching.due_at is None
    assert not batching.begin(now)
