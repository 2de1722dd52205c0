"""A stop in order: what was sent is answered first, and goes to nobody."""

from __future__ import annotations

from tests.support.dialogue.broker_dialogue import Stage


def test_a_stop_waits_for_answers_that_wait_for_the_disk_and_dispatches_nothing() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes("queue://Q")
    producer = stage.peer("p")
    stage.broker.begin_stop(stage.now)
    token = producer.sends("queue://Q", "1")
    assert stage.broker.awaits_disk()
    assert not producer.is_answered(token)
    stage.syncs()
    assert producer.is_answered(token)
    assert not stage.broker.awaits_disk()
    assert listener.takes() == []


def test_a_stop_does_not_wait_for_a_disk_that_is_full() -> None:
    stage = Stage()
    stage.peer("p").sends("queue://Q", "1")
    assert stage.broker.awaits_disk()
    stage.has_room(False)
    assert not stage.broker.awaits_disk()


def test_a_stop_without_a_store_waits_for_nothing() -> None:
    stage = Stage(persistent=False)
    stage.peer("p").sends("queue://Q", "1")
    assert not stage.broker.awaits_disk()
