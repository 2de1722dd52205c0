"""The steps of single messages through a bridge or route, for an operator who follows them."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.bridges.engine.changed_messages import with_id
from spanwire.bridges.engine.dialogue import (
    Acknowledge,
    Acknowledged,
    Commit,
    Committed,
    Completed,
    DeadLetter,
    DeadLettered,
    Disconnect,
    Disconnected,
    Failed,
    HandedOver,
    Receive,
    Received,
    Refused,
    Send,
    Sent,
)
from spanwire.bridges.model.definition import BatchLimits, Quality, RetryPolicy
from spanwire.bridges.model.route_definition import FileTarget, RouteDefinition
from spanwire.bridges.providers.openwire.parties import sent_ids
from spanwire.bridges.running.following import (
    MAX_FOLLOWED,
    MAX_RECENT,
    MAX_REPORT,
    MAX_STEPS,
    MAX_UNREPORTED,
    FollowedMessages,
    MessageSteps,
)
from tests.support.bridge_dialogue import WALL_MS, definition, text_messages

RECEIVE: Final = Receive(10, 1_000, 1.0)
B: Final = "queue://B at tcp://far:61616"


ROUTE: Final = RouteDefinition(
    "r", definition().source, [], [], [FileTarget("/out", "", "Override")], None, BatchLimits(), RetryPolicy()
)


class Link:
    """A link to a target that counts."""

    def sent_ids(self, target: int, count: int) -> list[str]:
        return [f"ID:there:{number}" for number in range(count)]


class Watched:
    """A bridge whose messages somebody follows."""

    def __init__(self, quality: Quality = Quality.DUPLICATES_OK, route: RouteDefinition | None = None) -> None:
        self.now_ms = WALL_MS
        self.followed: Final = FollowedMessages(lambda: self.now_ms)
        self.steps: Final = MessageSteps(route or definition(quality), self.followed)
        self.messages: Final = text_messages(2)
        self.followed.follow(True)

    def receives(self) -> None:
        self.steps.on_event(RECEIVE, Received(self.messages), None)

    def reported(self) -> list[tuple[str, str, str, str]]:
        return [step[:4] for step in self.followed.take()]

    def named(self) -> list[tuple[str, str]]:
        """The steps of the first message, and their causes."""
        self.followed.name(["ID:0"])
        return [(step, cause) for _, step, _, cause in self.reported()]


def test_a_message_that_is_named_after_it_has_crossed_is_reported_with_its_id_at_the_target_and_its_times() -> None:
    bridge = Watched()
    bridge.receives()
    bridge.now_ms += 7
    bridge.steps.on_event(Send(bridge.messages), Sent(), Link())
    bridge.steps.on_event(Acknowledge(), Acknowledged(), Link())
    assert bridge.reported() == []
    bridge.followed.name(["ID:1"])
    assert bridge.followed.take() == [
        ("ID:1", "taken", "bridge orders", "", "", WALL_MS),
        ("ID:1", "bridged", B, "by bridge orders, as message ID:there:1", "ID:there:1", WALL_MS + 7),
    ]


def test_a_message_that_is_named_before_it_comes_is_reported_as_it_goes() -> None:
    bridge = Watched()
    bridge.followed.name(["ID:0"])
    bridge.receives()
    assert bridge.reported() == [("ID:0", "taken", "bridge orders", "")]
    bridge.steps.on_event(Send(bridge.messages), Sent(), object())
    assert bridge.reported() == [("ID:0", "bridged", B, "by bridge orders, its id there is unknown")]


def test_a_message_of_a_batch_that_the_link_completes_has_crossed_when_it_is_complete() -> None:
    bridge = Watched()
    bridge.receives()
    bridge.steps.on_event(Send(bridge.messages), Sent(is_stored=False), Link())
    bridge.steps.on_event(Acknowledge(), HandedOver(), Link())
    assert bridge.named() == [("taken", "")]
    bridge.receives()
    bridge.steps.on_event(Acknowledge(), Completed(), Link())
    assert bridge.named() == [("taken", ""), ("bridged", "by bridge orders, as message ID:there:0")]


def test_a_message_of_a_batch_that_a_closed_link_has_not_completed_comes_again() -> None:
    bridge = Watched()
    bridge.receives()
    bridge.steps.on_event(Send(bridge.messages), Sent(is_stored=False), Link())
    bridge.steps.on_event(Acknowledge(), HandedOver(), Link())
    bridge.steps.on_event(RECEIVE, Failed("lost"), Link())
    bridge.steps.on_event(Disconnect(), Disconnected("lost"), None)
    cause = "the target may have it nevertheless, and it comes again: lost"
    assert bridge.named() == [("taken", ""), ("failed", cause)]


def test_while_nobody_follows_nothing_is_kept() -> None:
    bridge = Watched()
    bridge.receives()
    bridge.followed.follow(False)
    bridge.steps.on_event(Send(bridge.messages), Sent(), Link())
    bridge.receives()
    bridge.followed.name(["ID:0"])
    bridge.followed.follow(True)
    assert bridge.named() == []


def test_a_message_in_a_transaction_has_crossed_at_the_commit() -> None:
    bridge = Watched(Quality.ONCE_AND_ONLY_ONCE)
    bridge.receives()
    bridge.steps.on_event(Send(bridge.messages), Sent(), Link())
    assert bridge.named() == [("taken", "")]
    bridge.steps.on_event(Commit(), Committed(), Link())
    assert bridge.named() == [("bridged", "by bridge orders, as message ID:there:0")]
    bridge = Watched(Quality.ONCE_AND_ONLY_ONCE)
    bridge.receives()
    bridge.steps.on_event(Send(bridge.messages), Sent(), Link())
    bridge.steps.on_event(Commit(), Failed("the connection is lost"), Link())
    bridge.steps.on_event(Disconnect(), Disconnected(), None)
    bridge.receives()
    bridge.steps.on_event(Commit(), Committed(), Link())
    assert bridge.named() == [
        ("taken", ""),
        ("failed", "the target may have it nevertheless, and it comes again: the connection is lost"),
        ("taken", ""),
    ]


def test_a_refused_message_becomes_a_dead_letter_with_the_cause() -> None:
    bridge = Watched()
    bridge.receives()
    bridge.steps.on_event(Send(bridge.messages), Refused(0, "too large"), Link())
    bridge.steps.on_event(Disconnect(), Disconnected(), None)
    del bridge.messages[1]
    bridge.receives()
    bridge.steps.on_event(Send(bridge.messages), Refused(0, "too large"), Link())
    bridge.steps.on_event(DeadLetter("too large"), DeadLettered(), Link())
    assert bridge.named() == [
        ("taken", ""),
        ("refused", "too large"),
        ("taken", ""),
        ("refused", "too large"),
        ("refused", "it becomes a dead letter: too large"),
    ]


def test_a_message_that_was_acknowledged_before_its_send_failed_is_lost() -> None:
    bridge = Watched(Quality.AT_MOST_ONCE)
    bridge.receives()
    bridge.steps.on_event(Acknowledge(), Acknowledged(), Link())
    bridge.steps.on_event(Send(bridge.messages), Failed("reset by peer"), Link())
    assert bridge.named() == [("taken", ""), ("lost", "reset by peer")]
    bridge = Watched(Quality.AT_MOST_ONCE)
    bridge.receives()
    bridge.steps.on_event(Acknowledge(), Acknowledged(), Link())
    bridge.steps.on_event(Send(bridge.messages), Refused(0, "too large"), Link())
    assert bridge.named() == [("taken", ""), ("lost", "too large")]


def test_a_failure_after_a_refused_message_does_not_concern_what_the_target_has_stored_before() -> None:
    bridge = Watched(Quality.AT_MOST_ONCE)
    bridge.receives()
    bridge.steps.on_event(Acknowledge(), Acknowledged(), Link())
    bridge.steps.on_event(Send(bridge.messages), Refused(1, "too large", is_prefix_stored=True), Link())
    bridge.steps.on_event(Send([]), Failed("broken"), Link())
    assert bridge.named() == [("taken", ""), ("bridged", "by bridge orders, its id there is unknown")]
    bridge.followed.name(["ID:1"])
    assert [(step, cause) for _, step, _, cause in bridge.reported()] == [("taken", ""), ("lost", "too large")]


def test_a_route_names_the_parts_of_a_message_and_says_what_it_did_not_send() -> None:
    bridge = Watched(route=ROUTE)
    bridge.receives()
    parts = [with_id(bridge.messages[0], "1"), with_id(bridge.messages[0], "2")]
    bridge.steps.on_event(Send(parts), Sent(), object())
    bridge.steps.on_event(Acknowledge(), Acknowledged(), Link())
    bridge.followed.name(["ID:0", "ID:1"])
    reported = bridge.reported()
    assert [(one, step, cause) for one, step, _, cause in reported] == [
        ("ID:0", "taken", ""),
        ("ID:0", "bridged", "by route r, part 1, its id there is unknown"),
        ("ID:0", "bridged", "by route r, part 2, its id there is unknown"),
        ("ID:1", "taken", ""),
        ("ID:1", "not-sent", "a step has dropped it, or holds it in a group"),
    ]
    assert "/out" in reported[1][2]


def test_what_is_kept_has_limits() -> None:
    followed = FollowedMessages(lambda: WALL_MS)
    followed.follow(True)
    for number in range(MAX_RECENT + 1):
        followed.note(f"ID:{number}", "taken", "bridge b")
    for _ in range(MAX_STEPS):
        followed.note("ID:1", "failed", "bridge b", "c" * 1_000)
    followed.name(["ID:0", "ID:1"])
    steps = followed.take()
    assert len(steps) == MAX_STEPS  # none of the first message, which the last one has pushed out
    assert max(len(step[3]) for step in steps) == 300
    followed.name(f"ID:more:{number}" for number in range(MAX_FOLLOWED))
    followed.note("ID:more:0", "taken", "bridge b")
    followed.note(f"ID:more:{MAX_FOLLOWED - 1}", "taken", "bridge b")
    assert [step[0] for step in followed.take()] == ["ID:more:0"]
    for _ in range(MAX_UNREPORTED + 1):
        followed.note("ID:0", "taken", "bridge b")
    counts = []
    while steps := followed.take():
        counts.append(len(steps))
    assert counts == [MAX_REPORT] * (MAX_UNREPORTED // MAX_REPORT)


def test_names_that_are_given_back_make_room_for_others() -> None:
    followed = FollowedMessages(lambda: WALL_MS)
    followed.follow(True)
    followed.name(f"ID:old:{number}" for number in range(MAX_FOLLOWED))
    followed.forget(f"ID:old:{number}" for number in range(1, MAX_FOLLOWED))
    followed.name(["ID:new"])
    for message_id in ("ID:old:0", "ID:old:1", "ID:new"):
        followed.note(message_id, "taken", "bridge b")
    assert [step[0] for step in followed.take()] == ["ID:old:0", "ID:new"]


def test_a_message_without_an_id_is_not_followed() -> None:
    followed = FollowedMessages(lambda: WALL_MS)
    followed.follow(True)
    followed.note("", "taken", "bridge b")
    followed.name([""])
    assert followed.take() == []


@pytest.mark.parametrize("last", [None, "ID:c:1:1:1:3"])
def test_the_ids_of_the_last_sent_messages_are_those_of_the_producer_in_a_row(last: str | None) -> None:
    class Producer:
        last_message_id = last

    names = [] if last is None else ["ID:c:1:1:1:2", "ID:c:1:1:1:3"]
    assert sent_ids(Producer(), 2) == names  # type: ignore[arg-type]
    assert len(sent_ids(Producer(), 9)) == (0 if last is None else 3)  # type: ignore[arg-type]
