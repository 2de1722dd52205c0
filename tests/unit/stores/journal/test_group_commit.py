"""Batches that wait a moment for the clients that were just answered."""

from __future__ import annotations

from spanwire.stores.journal.group_commit import MAX_PAUSE, MAX_PENALTY, MAX_WAIT, SLOW_WRITE, GroupCommit


def test_a_batch_waits_until_everybody_who_was_answered_is_back() -> None:
    group = GroupCommit()
    group.on_completed(8, 8, 1.0)
    assert group.holds(8, 1.0)
    assert group.holds(15, 1.0002)
    assert not group.holds(16, 1.0003)


def test_a_batch_waits_on_while_clients_come_back_one_by_one() -> None:
    group = GroupCommit()
    group.on_completed(16, 0, 1.0)
    assert group.holds(1, 1.0 + MAX_PAUSE * 0.9)
    assert group.holds(2, 1.0 + MAX_PAUSE * 1.7)
    assert group.deadline == 1.0 + MAX_WAIT
    assert not group.holds(16, 1.0 + MAX_PAUSE * 1.8)
    group.on_completed(16, 0, 2.0)
    assert group.holds(15, 2.0), "a wait with success was taken for one in vain"


def test_a_batch_waits_a_pause_for_further_clients_and_no_longer_than_the_limit_for_all() -> None:
    group = GroupCommit()
    group.on_completed(8, 8, 1.0)
    assert group.holds(15, 1.0)
    assert not group.holds(15, 1.0 + MAX_PAUSE)
    group = GroupCommit()
    group.on_completed(8, 8, 1.0)
    assert group.holds(14, 1.0 + MAX_PAUSE * 0.9)
    assert group.holds(15, 1.0 + MAX_PAUSE * 1.8)
    assert not group.holds(15, 1.0 + MAX_WAIT)


def test_nothing_has_been_answered_so_nobody_is_waited_for() -> None:
    group = GroupCommit()
    assert not group.holds(1, 1.0)
    group.on_completed(0, 16, 1.0)
    assert not group.holds(1, 1.0)


def test_a_single_client_is_never_held_up() -> None:
    group = GroupCommit()
    group.on_completed(1, 0, 1.0)
    assert not group.holds(0, 1.0)


def test_a_batch_grows_for_half_of_the_time_that_a_slow_write_took_and_not_after_a_fast_one() -> None:
    group = GroupCommit()
    assert not group.lets_grow(0.0)
    group.began(1.0)
    group.ended(1.0 + 2 * SLOW_WRITE)
    assert group.lets_grow(1.0 + 2 * SLOW_WRITE)
    assert group.lets_grow(1.0 + 2.9 * SLOW_WRITE)
    assert not group.lets_grow(1.0 + 3.1 * SLOW_WRITE)
    group.began(2.0)
    group.ended(2.0 + SLOW_WRITE / 2)
    assert not group.lets_grow(2.0 + SLOW_WRITE / 2)
    assert not group.lets_grow(2.0 + SLOW_WRITE / 2)


def test_waits_in_vain_become_rare_and_success_forgives_them() -> None:
    group = GroupCommit()
    waits = 0
    for batch in range(1000):
        now = float(batch)
        group.on_completed(8, 0, now)
        if group.holds(7, now):
            waits += 1
            assert not group.holds(7, now + MAX_WAIT)
    assert waits <= 2 + MAX_PENALTY.bit_length() + 1000 // MAX_PENALTY
    for batch in range(1000, 1000 + MAX_PENALTY + 1):
        group.on_completed(8, 0, float(batch))
    assert group.holds(7, float(batch))
    assert not group.holds(8, float(batch))
    group.on_completed(8, 0, 3000.0)
    assert group.holds(7, 3000.0)
