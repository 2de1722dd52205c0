"""Marked messages are followed from step to step, and an operator who follows nobody costs nothing."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.broker.broker import Broker
from spanwire.broker.dispatch.broker_context import StepReceiver
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.following.follower import LATE_S, MAX_KEPT, MAX_MARKS, Follower
from spanwire.broker.following.mark import (
    MAX_COPIES,
    MAX_IDS,
    MAX_MESSAGES,
    MAX_SECONDS,
    OVER,
    TOO_DEAR,
    Mark,
    MarkSettings,
)
from spanwire.broker.following.mark_observer import DispatchTap
from spanwire.broker.following.observations import Observations
from spanwire.broker.policy.virtual_settings import CompositeDestination, ForwardTo, VirtualSettings, VirtualTopic
from spanwire.broker.queue.queue import Queue
from spanwire.model.acks import POISON_ACK
from spanwire.model.destination import parse_destination
from spanwire.model.errors import ConfigurationError, InvalidSelectorError
from tests.support.dialogue.broker_dialogue import START_MS, Stage

Q: Final = "queue://ORDERS"
T: Final = "topic://PRICES"


class Followed:
    """A stage with an operator who follows messages."""

    def __init__(self, stage: Stage | None = None) -> None:
        self.stage = Stage() if stage is None else stage
        self.follower = Follower(self.stage.broker.assembly, self.stage.broker.formats)
        self.producer = self.stage.peer("p")

    def marks(self, destination: str = Q, mark_id: str = "m", **settings: object) -> Mark:
        asked = MarkSettings(mark_id, parse_destination(destination), **settings)  # type: ignore[arg-type]
        return self.follower.begin(asked, self.stage.now)

    def queue(self, name: str = Q) -> Queue:
        found = self.stage.broker.find_destination(parse_destination(name))
        assert isinstance(found, Queue)
        return found


def steps(mark: Mark) -> list[str]:
    return [one.step for one in mark.observations.after(0, 1_000)]


def test_a_marked_message_is_followed_from_its_arrival_to_its_acknowledgement() -> None:
    followed = Followed()
    stage, mark = followed.stage, followed.marks()
    followed.producer.sends(Q, "secret body", properties={"secret": "secret"})
    stage.environment.advance(0.005)
    stage.syncs()
    stage.environment.advance(1)
    listener = stage.peer("c").consumes(Q)
    stage.environment.advance(2)
    listener.acknowledges("secret body", count=1)
    assert steps(mark) == ["accepted", "stored", "dispatched", "acknowledged"]
    seen = mark.observations.after(0, 10)
    assert [one.wall_ms - START_MS for one in seen] == [0, 5, 1_005, 3_005]
    assert {one.message_id for one in seen} == {"ID:p:1:1:1:1"}
    assert {one.destination for one in seen} == {Q}
    assert [one.detail for one in seen] == ["persistent", "", "", ""]
    assert "consumer" in seen[2].location and seen[2].location == seen[3].location
    assert not any("secret" in str(one.row("b")) for one in seen)


def test_without_a_mark_nothing_stands_before_queues_and_consumers() -> None:
    followed = Followed()
    stage = followed.stage
    listener = stage.peer("c").consumes(Q)
    followed.marks()
    assert isinstance(listener.subscription.consumer, DispatchTap)
    assert followed.queue().observer is not None
    late = stage.peer("d").consumes(Q)
    assert followed.follower.end("m", "ended")
    parts = stage.broker.assembly
    assert type(stage.broker) is Broker
    assert followed.queue().observer is None
    assert followed.queue().takes_stored()
    assert [one.subscription.consumer for one in (listener, late)] == [listener, late]
    assert parts.context.follower is None
    assert parts.context.departures.listener is None
    assert parts.unsynced.listener is None
    assert not followed.follower.end("m", "ended")


def test_messages_are_chosen_by_selector_id_and_rate() -> None:
    followed = Followed()
    by_selector = followed.marks(mark_id="s", selector="n > 5")
    by_id = followed.marks(mark_id="i", ids=("ID:p:1:1:1:2",))
    by_rate = followed.marks(mark_id="r", one_in=10, messages=1_000)
    for number in range(200):
        followed.producer.sends(Q, str(number), properties={"n": number})
    assert len(by_selector.marked) == 100
    assert "ID:p:1:1:1:7" in {known.text for known in by_selector.marked.values()}
    assert [known.text for known in by_id.marked.values()] == ["ID:p:1:1:1:2"]
    assert 5 <= len(by_rate.marked) <= 40
    again = Followed()
    same = again.marks(mark_id="other", one_in=10, messages=1_000)
    for number in range(200):
        again.producer.sends(Q, str(number))
    assert [one.text for one in same.marked.values()] == [one.text for one in by_rate.marked.values()]


def test_a_mark_takes_so_many_messages_and_no_more() -> None:
    followed = Followed()
    mark = followed.marks(messages=2)
    followed.producer.sends(Q, "1", "2", "3")
    listener = followed.stage.peer("c").consumes(Q)
    listener.acknowledges("3")
    assert steps(mark) == ["accepted"] * 2 + ["dispatched"] * 2 + ["acknowledged"] * 2
    assert mark.is_closed and not mark.ended


def test_a_mark_ends_with_its_time() -> None:
    followed = Followed()
    mark = followed.marks(seconds=5)
    followed.producer.sends(Q, "1")
    followed.stage.waits(5)
    followed.producer.sends(Q, "2")
    assert steps(mark) == ["accepted"]
    assert mark.ended == OVER
    assert followed.follower.find("m") is mark
    assert followed.queue().observer is None


def test_marks_are_bounded() -> None:
    followed = Followed()
    for number in range(MAX_MARKS):
        followed.marks(mark_id=str(number))
    with pytest.raises(ConfigurationError, match="8 traces are active"):
        followed.marks(mark_id="more")
    assert followed.marks(mark_id="0") is followed.follower.find("0")
    for number in range(MAX_MARKS):
        followed.follower.end(str(number), "ended")
        followed.follower.end(str(number), "ended")
    for number in range(20, 25):
        followed.marks(mark_id=str(number))
        followed.follower.end(str(number), "ended")
    assert len(followed.follower.all()) == MAX_KEPT
    assert followed.follower.find("0") is None


def test_an_invalid_selector_is_refused() -> None:
    with pytest.raises(InvalidSelectorError):
        MarkSettings("m", parse_destination(Q), "n >")


def test_a_selector_that_has_looked_at_too_much_ends_its_mark() -> None:
    followed = Followed()
    settings = MarkSettings("m", parse_destination(Q), selector="n > 5")
    mark = Mark(settings, 60.0, MessageEvaluationContext(followed.stage.broker.formats), max_steps=10)
    messages = [followed.producer.message(Q, str(n), properties={"n": 1}) for n in range(20)]
    assert [mark.take(one, 0) for one in messages] == [None] * 20
    assert mark.ended == TOO_DEAR
    assert mark.is_closed


def test_a_message_that_came_before_the_mark_is_found_at_its_dispatch() -> None:
    followed = Followed()
    followed.producer.sends(Q, "1")
    mark = followed.marks()
    followed.stage.peer("c").consumes(Q).acknowledges("1")
    assert steps(mark) == ["found", "dispatched", "acknowledged"]


def test_a_dead_letter_is_followed_to_its_queue_and_its_consumer() -> None:
    followed = Followed()
    mark = followed.marks()
    listener = followed.stage.peer("c").consumes(Q)
    followed.producer.sends(Q, "1")
    listener.acknowledges("1", ack_type=POISON_ACK)
    followed.stage.peer("d").consumes("queue://ActiveMQ.DLQ").acknowledges("1")
    seen = mark.observations.after(0, 20)
    assert [(one.step, one.destination) for one in seen] == [
        ("accepted", Q), ("dispatched", Q), ("dead-lettered", Q), ("accepted", "queue://ActiveMQ.DLQ"),
        ("dispatched", "queue://ActiveMQ.DLQ"), ("acknowledged", "queue://ActiveMQ.DLQ"),
    ]  # fmt: skip
    assert seen[2].location == "queue://ActiveMQ.DLQ"


def test_a_topic_shows_each_subscriber_and_a_durable_one() -> None:
    followed = Followed()
    stage = followed.stage
    stage.peer("d", client_id="d").consumes(T, durable="news")
    first, second = stage.peer("a").consumes(T), stage.peer("b").consumes(T)
    mark = followed.marks(T)
    followed.producer.sends(T, "1")
    first.acknowledges("1")
    second.acknowledges("1")
    assert sorted(steps(mark)) == ["accepted"] * 2 + ["acknowledged"] * 2 + ["dispatched"] * 3
    assert followed.follower.end("m", "ended")
    followed.producer.sends(T, "2")
    assert len(steps(mark)) == 7


def test_a_message_that_nobody_wants_says_so() -> None:
    followed = Followed()
    followed.producer.sends(T, "0")
    mark = followed.marks(T)
    followed.producer.sends(T, "1", "2")
    assert steps(mark) == ["accepted", "sent-nowhere"] * 2


def test_a_message_is_followed_through_a_virtual_topic_and_a_composite_queue() -> None:
    virtual = VirtualSettings(
        topics=(VirtualTopic(parse_destination("topic://VirtualTopic.>")),),
        composites=(CompositeDestination(parse_destination("queue://ALL"), (ForwardTo(parse_destination(Q)),)),),
    )
    followed = Followed(Stage(virtual=virtual))
    by_topic, by_queue = followed.marks("topic://VirtualTopic.X", "t"), followed.marks("queue://ALL", "q")
    followed.stage.peer("c").consumes("queue://Consumer.A.VirtualTopic.X")
    followed.producer.sends("topic://VirtualTopic.X", "1")
    followed.producer.sends("queue://ALL", "2")
    assert ("dispatched", "queue://Consumer.A.VirtualTopic.X") in [
        (one.step, one.destination) for one in by_topic.observations.after(0, 10)
    ]
    assert [(one.step, one.destination) for one in by_queue.observations.after(0, 10)] == [("accepted", Q)]


def test_a_purge_and_an_expiry_are_seen() -> None:
    followed = Followed()
    mark = followed.marks()
    followed.producer.sends(Q, "1", "2")
    assert followed.queue().purge() == 2
    followed.stage.settle()
    assert steps(mark) == ["accepted"] * 2 + ["removed"] * 2


def test_statistics_are_switched_while_messages_are_followed() -> None:
    followed = Followed()
    followed.producer.sends(Q, "0")
    mark = followed.marks()
    administration = followed.stage.broker.administration
    administration.switch_statistics(parse_destination(Q), True, followed.stage.now)
    followed.producer.sends(Q, "1")
    followed.follower.end("m", "ended")
    followed.producer.sends(Q, "2")
    assert steps(mark) == ["accepted"]
    details = followed.stage.broker.overview.destination_details(followed.queue())
    assert details.last_in_id == "ID:p:1:1:1:3"


def test_observations_beyond_the_limit_are_counted() -> None:
    kept = Observations(limit=2)
    for number in range(5):
        kept.add("accepted", str(number), Q, "", "", 0, 0, 0)
    assert [one.message_id for one in kept.after(0, 10)] == ["0", "1"]
    assert kept.dropped == 3
    assert [one.number for one in kept.after(1, 10)] == [2]


class Bridges:
    """The process of a broker's bridges, which names what it was asked."""

    def __init__(self) -> None:
        self.receiver: StepReceiver | None = None
        self.named: list[str] = []
        self.given_back: list[str] = []

    def follow(self, receiver: StepReceiver | None) -> None:
        self.receiver = receiver

    def name(self, message_id: str) -> None:
        self.named.append(message_id)

    def forget(self, message_ids: list[str]) -> None:
        self.given_back += message_ids


def test_the_process_of_the_bridges_reports_the_steps_of_marked_messages_that_it_may_have() -> None:
    followed, bridges = Followed(), Bridges()
    followed.stage.broker.assembly.context.step_source = bridges
    followed.producer.sends(Q, "before")
    mark = followed.marks(ids=("ID:p:1:1:1:2",))
    assert bridges.receiver is not None
    followed.producer.sends(Q, "marked", "other")
    assert bridges.named == []
    listener = followed.stage.peer("c").consumes(Q)
    assert bridges.named == ["ID:p:1:1:1:2"]
    bridges.receiver.step_outside("ID:p:1:1:1:2", "taken", "bridge b", "", "", START_MS + 5)
    bridges.receiver.step_outside("ID:p:1:1:1:3", "taken", "bridge b", "", "", START_MS + 5)
    listener.acknowledges("other", count=3)
    seen = mark.observations.after(0, 10)
    assert [one.step for one in seen if one.step != "stored"] == ["accepted", "dispatched", "taken", "acknowledged"]
    (taken,) = [one for one in seen if one.step == "taken"]
    assert (taken.destination, taken.location, taken.wall_ms) == (Q, "bridge b", START_MS + 5)
    followed.follower.end("m", OVER)
    bridges.receiver.step_outside("ID:p:1:1:1:2", "bridged", "Q at far", "", "ID:far:1", START_MS + 9)
    assert mark.observations.after(0, 10)[-1].step == "bridged"
    for number in range(2, MAX_COPIES + 10):
        bridges.receiver.step_outside("ID:p:1:1:1:2", "bridged", "Q at far", "", f"ID:far:{number}", START_MS + 9)
    assert (next(iter(mark.copies)), len(mark.copies)) == ("ID:far:1", MAX_COPIES)
    followed.stage.waits(LATE_S)
    assert bridges.given_back == ["ID:p:1:1:1:2"]
    asked: object = bridges.receiver
    assert asked is None


def test_two_marks_let_the_bridges_follow_until_the_last_ends() -> None:
    followed, bridges = Followed(), Bridges()
    followed.stage.broker.assembly.context.step_source = bridges
    followed.marks(mark_id="a")
    followed.marks(mark_id="b")
    followed.follower.end("a", OVER)
    followed.stage.waits(LATE_S)
    assert bridges.receiver is not None
    followed.follower.end("b", OVER)
    followed.stage.waits(LATE_S)
    assert bridges.receiver is None


def test_a_mark_that_ends_gives_back_the_names_that_no_other_one_has() -> None:
    followed, bridges = Followed(), Bridges()
    followed.stage.broker.assembly.context.step_source = bridges
    followed.stage.peer("c").consumes(Q)
    followed.marks(mark_id="a")
    followed.producer.sends(Q, "1")
    followed.marks(mark_id="b", ids=("ID:p:1:1:1:1", "ID:p:1:1:1:2"))
    followed.producer.sends(Q, "2", "3")
    followed.follower.end("a", OVER)
    assert bridges.given_back == []
    followed.stage.waits(LATE_S)
    assert bridges.given_back == ["ID:p:1:1:1:1", "ID:p:1:1:1:3"]


def test_bridges_that_are_created_while_a_mark_is_active_are_asked_with_the_next_message() -> None:
    followed, bridges = Followed(), Bridges()
    followed.marks()
    followed.stage.broker.assembly.context.step_source = bridges
    followed.stage.peer("c").consumes(Q)
    followed.producer.sends(Q, "text")
    assert (bridges.receiver, bridges.named) == (followed.follower, ["ID:p:1:1:1:1"])


def test_s47_marks_of_many_and_greedy_operators_end_and_leave_nothing() -> None:
    followed = Followed()
    greedy = followed.marks(mark_id="greedy", seconds=10**9, messages=10**9, ids=tuple(map(str, range(10**4))))
    assert (greedy.settings.seconds, greedy.settings.messages) == (MAX_SECONDS, MAX_MESSAGES)
    assert len(greedy.settings.ids) == MAX_IDS
    for number in range(MAX_MARKS - 1):
        followed.marks(mark_id=str(number), seconds=10**9)
    with pytest.raises(ConfigurationError, match="traces are active already"):
        followed.marks(mark_id="one more")
    followed.stage.waits(MAX_SECONDS)
    assert followed.follower.marks == {}
    assert followed.stage.broker.assembly.context.follower is None
