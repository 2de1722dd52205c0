"""Marked messages are followed to the cursors that hold them, and from the sinks that write them."""

from __future__ import annotations

from typing import Final

from spanwire.broker.following.mark import Mark
from tests.support.control_dialogue import Program
from tests.unit.broker.test_following_dialogues import Followed

Q: Final = "queue://Q"
ONE: Final = "ID:p:1:1:1:1"


def cursor_steps(mark: Mark, message_id: str = ONE) -> list[tuple[str, str, str]]:
    seen = [one for one in mark.observations.after(0, 1_000) if one.message_id == message_id]
    return [(one.step, one.location, one.detail) for one in seen if one.step not in ("accepted", "stored")]


def test_a_message_is_followed_from_its_reservation_over_its_reads_to_the_acknowledgement() -> None:
    followed = Followed()
    mark = followed.marks(Q)
    followed.producer.sends(Q, "1", "2", "3")
    followed.stage.syncs()
    program = Program(followed.stage)
    program.opens()
    assert program.reserves(2) == (0, 2)
    assert program.reads(0, 2) == ["1", "2"]
    assert program.reads(0, 1) == ["1"]
    program.reserves(3, acknowledge=1)
    assert cursor_steps(mark) == [
        ("reserved", "cursor c", "number 0"),
        ("read", "cursor c", "number 0"),
        ("read", "cursor c", "number 0"),
        ("acknowledged", "cursor c", "number 0"),
    ]
    assert [step for step, _, _ in cursor_steps(mark, "ID:p:1:1:1:2")] == ["reserved", "read"]
    assert cursor_steps(mark, "ID:p:1:1:1:3") == [("reserved", "cursor c", "number 2")]


def test_a_message_of_a_released_cursor_returns_and_goes_to_a_consumer() -> None:
    followed = Followed()
    mark = followed.marks(Q)
    followed.producer.sends(Q, "1")
    program = Program(followed.stage)
    program.opens()
    program.reserves(1)
    program.asks("release", cursor="c", epoch=1)
    followed.stage.peer("c").consumes(Q)
    followed.stage.settle()
    steps = cursor_steps(mark)
    assert steps[:2] == [("reserved", "cursor c", "number 0"), ("returned", "cursor c", "number 0")]
    assert [step for step, _, _ in steps[2:]] == ["dispatched"]


def test_a_message_that_was_not_stored_is_known_by_the_number_under_which_the_cursor_stores_it() -> None:
    followed = Followed()
    mark = followed.marks(Q)
    followed.producer.sends(Q, "1", persistent=False)
    program = Program(followed.stage)
    program.opens()
    program.reserves(1)
    assert cursor_steps(mark) == [("reserved", "cursor c", "number 0")]


def test_messages_of_a_sink_show_the_batch_that_has_written_them() -> None:
    followed = Followed()
    program = Program(followed.stage)
    program.asks("begin", query="q", run="r1")
    program.stages(7, 0, "a", "b")
    mark = followed.marks("queue://OUT")
    assert program.commits(7, "0 0 2") == (2, False)
    seen = [(one.step, one.location, one.detail) for one in mark.observations.after(0, 100) if one.step != "stored"]
    assert sorted(seen) == [("accepted", "", "persistent")] * 2 + [("written", "sink q", "batch 7")] * 2
    assert [step for step, _, _ in seen[:2]] == ["written", "written"]


def test_without_a_mark_cursors_and_sinks_show_nothing() -> None:
    followed = Followed()
    mark = followed.marks(Q)
    followed.follower.end("m", "ended")
    followed.producer.sends(Q, "1")
    program = Program(followed.stage)
    program.opens()
    program.reserves(1)
    assert program.reads(0, 1) == ["1"]
    assert mark.observations.count == 0
