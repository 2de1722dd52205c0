"""Cursors: ranges that are read again, what is held through restarts, epochs that end."""

from __future__ import annotations

import pytest

from spanwire.broker.exactly_once.reservations.reserved_messages import MAX_RESERVED
from spanwire.broker.metadata import CURSORS
from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.policy.virtual_settings import CompositeDestination, ForwardTo, VirtualSettings
from spanwire.broker.queue.queue import Queue
from spanwire.broker.request_errors import ControlRefusal
from spanwire.model.destination import parse_destination
from spanwire.model.errors import IllegalStateError, JmsError, StoreError
from tests.support.control_dialogue import ASK, Program, Refused, again
from tests.support.dialogue.broker_dialogue import Stage

Q = "queue://Q"


def words(first: int, end: int) -> list[str]:
    return [f"m{number}" for number in range(first, end)]


def queue_of(stage: Stage) -> Queue:
    found = stage.broker.find_destination(parse_destination(Q))
    assert isinstance(found, Queue)
    return found


def filled(count: int = 10, exclusive: bool = False, *policies: PolicyEntry) -> tuple[Stage, Program]:
    """A queue with messages, and a cursor on it."""
    stage = Stage(*policies)
    stage.peer("p").sends(Q, *words(0, count))
    stage.settle()
    program = Program(stage)
    assert program.opens(exclusive=exclusive) == 1
    return stage, program


def test_a_range_is_read_again_and_again_until_it_is_acknowledged() -> None:
    stage, program = filled()
    assert program.reserves(6) == (0, 6)
    assert program.reads(0, 6) == words(0, 6)
    assert program.reads(2, 4) == words(2, 4)
    assert program.reads(0, 6) == words(0, 6)
    assert program.asks("acknowledge", cursor="c", epoch=1, to=4) == {"from": 4, "to": 6}
    assert program.reads(4, 6) == words(4, 6)
    assert stage.view(Q).pending == 6
    assert [message.message_id.sequence for message in stage.store.kept(parse_destination(Q))] == list(range(5, 11))


def test_a_request_may_be_repeated() -> None:
    _, program = filled()
    assert program.opens() == 1
    assert program.reserves(3) == (0, 3)
    assert program.reserves(3) == (0, 3)
    assert program.reserves(5, acknowledge=2) == (2, 7)
    assert program.reserves(5, acknowledge=2) == (2, 7)
    assert program.asks("acknowledge", cursor="c", epoch=1, to=1) == {"from": 2, "to": 7}


def test_numbers_have_no_gaps_whatever_others_take_in_between() -> None:
    stage, program = filled(4)
    listener = stage.peer("other").consumes(Q, prefetch=2)
    assert listener.takes() == ["m0", "m1"]
    assert program.reserves(10) == (0, 2)
    assert program.reads(0, 2) == ["m2", "m3"]
    stage.peer("p2").sends(Q, "late")
    listener.leaves()
    stage.settle()
    assert program.reserves(10) == (0, 5)
    assert program.reads(0, 5) == ["m2", "m3", "m0", "m1", "late"]


def test_what_a_cursor_holds_goes_to_nobody_else() -> None:
    stage, program = filled(5)
    assert program.reserves(3) == (0, 3)
    assert stage.peer("other").consumes(Q).takes() == ["m3", "m4"]
    assert stage.view(Q).in_flight == 5


def test_an_exclusive_cursor_has_the_queue_for_itself() -> None:
    stage, program = filled(3, exclusive=True)
    listener = stage.peer("other").consumes(Q)
    stage.peer("p2").sends(Q, "m3")
    stage.settle()
    assert listener.takes() == []
    assert program.reserves(2) == (0, 2)
    assert program.asks("release", cursor="c", epoch=1) == {"epoch": 2, "released": 2}
    assert listener.takes() == words(0, 4)


def test_two_cursors_share_a_queue_unless_one_is_exclusive() -> None:
    _, program = filled(4)
    program.opens("d")
    assert program.reserves(1) == (0, 1)
    assert program.reserves(2, "d") == (0, 2)
    assert program.reads(0, 2, "d") == ["m1", "m2"]
    with pytest.raises(Refused, match="limit: cursor c reads"):
        program.opens("e", exclusive=True)


def test_messages_that_are_not_persistent_are_written_down_when_they_are_reserved() -> None:
    stage = Stage()
    stage.peer("p").sends(Q, "one", "two", persistent=False)
    program = Program(stage)
    program.opens()
    assert program.reserves(9) == (0, 2)
    assert stage.memory() == 0
    stage = stage.restarts()
    assert again(program, stage).reads(0, 2) == ["one", "two"]


def test_as_many_bytes_are_held_as_are_asked_for() -> None:
    stage, program = filled(10)
    size = stage.store.sizes(parse_destination(Q), [1])[0]
    assert program.reserves(10, bytes=3 * size) == (0, 3)
    assert program.reserves(10, bytes=3 * size) == (0, 3)
    assert program.reserves(10, bytes=1, acknowledge=3) == (3, 4)


def test_a_queue_with_priorities_gives_the_highest_first_and_takes_back() -> None:
    stage = Stage(PolicyEntry(parse_destination(Q), queue=QueuePolicy(prioritized_messages=True)))
    producer = stage.peer("p")
    for priority in (4, 9, 1, 9, 4):
        producer.sends(Q, f"p{priority}", priority=priority)
    stage.settle()
    program = Program(stage)
    program.opens()
    assert program.reserves(3) == (0, 3)
    assert program.reads(0, 3) == ["p9", "p9", "p4"]
    policy = PolicyEntry(parse_destination(Q), queue=QueuePolicy(prioritized_messages=True))
    for there in (stage, stage.restarts(policies=(policy,))):
        program = program if there is stage else again(program, there)
        program.asks("release", cursor="c", epoch=1)
        there.settle()
        listener = there.peer("c").consumes(Q)
        there.settle()
        assert listener.takes() == ["p9", "p9", "p4", "p4", "p1"]


def test_a_range_costs_its_range() -> None:
    stage, program = filled(3000)
    program.reserves(3000)
    before = len(stage.store.reads)
    browser = program.begins_to_read(2990, 2995)
    assert before == 0 and len(stage.store.reads) == 1
    assert stage.store.answer(stage.broker, stage.now) == 5
    stage.runs()
    assert browser.takes() == words(2990, 2995)


def test_a_browser_that_takes_little_at_a_time_gets_everything() -> None:
    stage, program = filled(1200)
    program.reserves(1200)
    browser = program.begins_to_read(0, 1200, prefetch=100)
    seen: list[str] = []
    for _ in range(100):
        stage.settle()
        found = browser.takes()
        if not found:
            break
        seen += found
        browser.acknowledges(found[-1], count=len(found))
    assert seen == words(0, 1200)
    assert browser.ends == 1
    browser.leaves()
    assert stage.memory() == 0


def test_what_is_held_is_held_after_a_crash() -> None:
    stage, program = filled()
    program.reserves(6, acknowledge=0)
    program.asks("acknowledge", cursor="c", epoch=1, to=2)
    stage = stage.restarts()
    program = again(program, stage)
    assert program.reads(2, 6) == words(2, 6)
    assert stage.view(Q).in_flight == 4
    assert stage.peer("c").consumes(Q).out == []
    stage.settle()
    assert program.reserves(6) == (2, 6)


def test_what_no_answer_told_of_is_not_held_after_a_crash() -> None:
    stage, program = filled()
    program.begins_to_ask("reserve", cursor="c", epoch=1, messages=3)
    assert program.hears() is None
    stage = stage.restarts()
    program = again(program, stage)
    assert program.cursors()[0]["to"] == 0
    assert program.reserves(10) == (0, 10)
    assert program.reads(0, 10) == words(0, 10)


def test_a_crash_amid_an_acknowledgement_holds_or_forgets_each_message() -> None:
    stage, program = filled()
    program.reserves(6)
    program.begins_to_ask("acknowledge", cursor="c", epoch=1, to=4)
    last = stage.store.position()
    for position in range(stage.store.synced, last + 1):
        after = stage.restarts(position=position)
        back = again(program, after)
        first = back.cursors()[0]["from"]
        assert first in (0, 4)
        assert isinstance(first, int)
        assert back.reserves(10) == (first, 10)
        assert back.reads(first, 10) == words(first, 10)


def test_what_is_held_does_not_expire() -> None:
    stage = Stage()
    stage.peer("p").sends(Q, "one", "two", expiration_ms=stage.now.wall_ms + 1000)
    stage.settle()
    program = Program(stage)
    program.opens()
    program.reserves(1)
    stage.waits(60.0)
    stage.settle()
    assert program.reads(0, 1) == ["one"]
    assert program.reserves(2) == (0, 1)
    after = stage.restarts()
    assert again(program, after).reads(0, 1) == ["one"]


def test_what_is_over_its_time_is_not_reserved() -> None:
    stage = Stage()
    stage.peer("p").sends(Q, "one", expiration_ms=stage.now.wall_ms + 1000)
    stage.peer("p2").sends(Q, "two")
    stage.settle()
    stage = stage.restarts()
    stage.environment.advance(5.0)
    program = Program(stage)
    program.opens()
    assert program.reserves(2) == (0, 1)
    assert program.reads(0, 1) == ["two"]


def test_what_is_held_is_not_purged() -> None:
    stage, program = filled(5)
    program.reserves(2)
    queue_of(stage).purge()
    stage.settle()
    assert stage.view(Q).pending == 2
    assert program.reads(0, 2) == words(0, 2)


def test_a_queue_with_a_cursor_cannot_be_removed() -> None:
    stage, program = filled()
    with pytest.raises(JmsError, match="still has a cursor"):
        program.peer.removes(Q)
    program.asks("release", cursor="c", epoch=1)
    program.peer.removes(Q)
    assert not stage.has(Q)


def test_a_paused_queue_gives_a_cursor_nothing() -> None:
    stage, program = filled()
    queue = queue_of(stage)
    queue.pause()
    assert program.reserves(5) == (0, 0)
    queue.resume()
    assert program.reserves(5) == (0, 5)


def test_a_new_run_ends_the_epoch_of_the_old_one() -> None:
    _, program = filled()
    program.reserves(5)
    assert program.opens(run="r2") == 2
    requests: list[tuple[str, dict[str, object]]] = [
        ("reserve", {"messages": 1}),
        ("acknowledge", {"to": 5}),
        ("release", {}),
    ]
    for action, more in requests:
        with pytest.raises(Refused, match="fenced: cursor c is at epoch 2, for run r2 has it now: epoch 1 has ended"):
            program.asks(action, cursor="c", epoch=1, **more)
    with pytest.raises(ControlRefusal, match="fenced: cursor c is at epoch 2"):
        program.begins_to_read(0, 5)
    assert program.reads(0, 5, epoch=2) == words(0, 5)


def test_a_run_that_has_ended_does_not_come_back() -> None:
    stage, program = filled()
    program.opens(run="r2")
    for there in (stage, stage.restarts()):
        program = program if there is stage else again(program, there)
        with pytest.raises(Refused, match="fenced: cursor c is at epoch 2, for run r2 has it now: run r1 has ended"):
            program.opens(run="r1")
        assert program.opens(run="r2") == 2


def test_a_browser_of_an_old_epoch_gets_no_more() -> None:
    stage, program = filled(2000)
    program.reserves(2000)
    browser = program.begins_to_read(0, 2000, prefetch=10)
    stage.settle()
    program.opens(run="r2")
    count = 0
    for _ in range(500):
        found = browser.takes()
        if not found:
            break
        count += len(found)
        browser.acknowledges(found[-1], count=len(found))
        stage.settle()
    assert browser.ends == 1
    assert count < 2000


def test_a_release_gives_everything_back_where_it_stood_and_says_so_later() -> None:
    stage, program = filled()
    program.reserves(4, acknowledge=0)
    assert program.asks("release", cursor="c", epoch=1) == {"epoch": 2, "released": 4}
    assert program.asks("release", cursor="c", epoch=1) == {"epoch": 2, "released": 0}
    for run, epoch in (("r1", 1), ("r1", 2)):
        with pytest.raises(Refused, match="fenced: cursor c is at epoch 2, for it was released"):
            program.reserves(1, epoch=epoch)
        with pytest.raises(Refused, match=r"fenced: .* run r1 has ended"):
            program.opens(run=run)
    stage = stage.restarts()
    program = again(program, stage)
    assert program.cursors()[0]["released"] is True
    assert program.opens(run="r3") == 3
    with pytest.raises(ControlRefusal, match="not-held: numbers 0 to 4 of cursor c are gone up to 4"):
        program.begins_to_read(0, 4, epoch=3)
    assert program.reserves(10, epoch=3) == (4, 14)
    assert program.reads(4, 14, epoch=3) == words(0, 10)


def test_a_refused_opening_does_not_keep_a_queue_that_is_removed_later() -> None:
    stage, program = filled(1)
    program.asks("release", cursor="c", epoch=1)
    with pytest.raises(Refused, match="fenced"):
        program.opens(run="r1")
    program.peer.removes(Q)
    stage.peer("p2").sends(Q, "new")
    stage.settle()
    assert program.opens(run="r2") == 3
    assert program.reserves(5, epoch=3) == (0, 1)
    assert program.reads(0, 1, epoch=3) == ["new"]


def test_what_is_released_takes_its_old_place_and_is_marked() -> None:
    stage, program = filled(6)
    program.reserves(2)
    stage.peer("x").consumes(Q, prefetch=1).leaves()
    program.opens("d")
    assert program.reserves(2, "d") == (0, 2)
    program.asks("release", cursor="c", epoch=1)
    program.asks("release", cursor="d", epoch=1)
    listener = stage.peer("other").consumes(Q)
    stage.settle()
    counts = listener.redelivery_counts()
    assert [text for text, _ in counts] == words(0, 6)
    assert [count for _, count in counts] == [1, 1, 2, 1, 0, 0]


def test_what_is_not_persistent_and_was_held_through_a_crash_goes_back_when_it_is_released() -> None:
    stage = Stage()
    stage.peer("p").sends(Q, *words(0, 3), persistent=False)
    program = Program(stage)
    program.opens()
    assert program.reserves(2) == (0, 2)
    stage.peer("p2").sends(Q, "m3")
    stage.settle()
    stage = stage.restarts()
    program = again(program, stage)
    assert program.asks("release", cursor="c", epoch=1) == {"epoch": 2, "released": 2}
    listener = stage.peer("other").consumes(Q)
    stage.settle()
    assert listener.redelivery_counts() == [("m0", 2), ("m1", 2), ("m3", 1)]
    listener.leaves()
    stage.settle()
    after = stage.restarts()  # nobody holds it now
    listener = after.peer("other").consumes(Q)
    after.settle()
    assert listener.takes() == ["m3"]


@pytest.mark.large
@pytest.mark.parametrize("restarts", [False, True])
def test_a_long_line_is_in_order_again_after_releases(restarts: bool) -> None:
    stage, program = filled(6000)
    if restarts:
        stage = stage.restarts()
        program = again(program, stage)
    program.opens("d")
    for count in range(300, 3300, 300):
        program.reserves(count)
        program.reserves(count, "d")
    assert program.reads(0, 3000)[300:301] == ["m600"]
    listener = stage.peer("other").consumes(Q, prefetch=50)
    stage.settle()
    assert listener.takes() == []
    stage.peer("p2").sends(Q, "m6000")
    for name in ("d", "c"):
        program.asks("release", cursor=name, epoch=1)
        stage.settle()
    listener.leaves()
    stage.settle()
    program.opens("e")
    program.reserves(6001, "e")
    assert program.reads(0, 6001, "e") == words(0, 6001)


def test_a_range_beyond_what_is_held_is_refused() -> None:
    _, program = filled()
    program.reserves(3)
    with pytest.raises(ControlRefusal, match="not-held: numbers 0 to 4 of cursor c are not reserved"):
        program.begins_to_read(0, 4)
    with pytest.raises(Refused, match="not-held") as caught:
        program.asks("acknowledge", cursor="c", epoch=1, to=4)
    assert caught.value.word == "not-held"


def test_a_durable_subscription_has_cursors_as_well() -> None:
    stage = Stage()
    subscriber = stage.peer("s", client_id="client")
    subscriber.consumes("topic://T", durable="sub").leaves()
    stage.peer("p").sends("topic://T", *words(0, 4))
    stage.settle()
    program = Program(stage)
    found = program.asks("open", cursor="c", clientId="client", subscription="sub", run="r1")
    assert found["epoch"] == 1
    assert program.reserves(3) == (0, 3)
    stage = stage.restarts()
    program = again(program, stage)
    assert program.reads(0, 3) == words(0, 3)
    assert program.cursors()[0]["destination"] == "topic://T (client, sub)"
    with pytest.raises(JmsError, match="still has a cursor"):
        stage.peer("s", client_id="client").unsubscribes("sub")


def test_a_cursor_has_what_a_filter_took_out_of_a_queue_and_consumers_have_the_rest_through_a_crash_at_any_write() -> (
    None
):
    eu = ForwardTo(parse_destination("queue://Q.EU"), "region = 'EU'")
    apart = VirtualSettings((), (CompositeDestination(parse_destination(Q), (eu,), send_when_not_matched=True),))
    stage = Stage(virtual=apart)
    producer = stage.peer("p")
    for number in range(8):
        producer.sends(Q, f"m{number}", properties={"region": "EU"} if number % 2 else {})
    stage.settle()
    program = Program(stage)
    program.opens(queue="Q.EU")
    assert program.reserves(3) == (0, 3)
    program.begins_to_ask("acknowledge", cursor="c", epoch=1, to=2)
    for position in range(stage.store.synced, stage.store.position() + 1):
        after = stage.restarts(position=position)
        back = again(program, after)
        first = back.cursors()[0]["from"]
        assert isinstance(first, int)
        assert first in (0, 2)
        assert back.reserves(9) == (first, 4)
        assert back.reads(first, 4) == ["m1", "m3", "m5", "m7"][first:]
        other = after.peer("other").consumes(Q)
        after.settle()
        assert other.takes() == ["m0", "m2", "m4", "m6"]


def test_a_cursor_on_a_selected_subscription_has_exactly_what_matches_through_a_crash_at_any_write() -> None:
    stage = Stage()
    stage.peer("s", client_id="client").consumes("topic://T", durable="eu", selector="region = 'EU'").leaves()
    stage.peer("a", client_id="all").consumes("topic://T", durable="rest").leaves()
    producer = stage.peer("p")
    for number in range(8):
        producer.sends("topic://T", f"m{number}", properties={"region": "EU" if number % 2 else "US"})
    stage.settle()
    program = Program(stage)
    eu = {"cursor": "c", "clientId": "client", "subscription": "eu", "run": "r1"}
    assert program.asks("open", **eu, selector="region = 'EU'")["selector"] == "region = 'EU'"
    assert program.reserves(3) == (0, 3)
    program.begins_to_ask("acknowledge", cursor="c", epoch=1, to=2)
    for position in range(stage.store.synced, stage.store.position() + 1):
        after = stage.restarts(position=position)
        back = again(program, after)
        first = back.cursors()[0]["from"]
        assert isinstance(first, int)
        assert first in (0, 2)
        assert back.reserves(9) == (first, 4)
        assert back.reads(first, 4) == ["m1", "m3", "m5", "m7"][first:]
        other = after.peer("a", client_id="all").consumes("topic://T", durable="rest")
        after.settle()
        assert other.takes() == words(0, 8)
        with pytest.raises(JmsError, match="still has a cursor"):
            after.peer("s", client_id="client").consumes("topic://T", durable="eu", selector="region = 'US'")


def test_a_cursor_is_refused_a_selector_that_its_source_does_not_have() -> None:
    stage = Stage()
    peer = stage.peer("s", client_id="client")
    peer.consumes("topic://T", durable="eu", selector="region = 'EU'").leaves()
    peer.consumes("topic://T", durable="all").leaves()
    program = Program(stage)
    names = {"cursor": "c", "clientId": "client", "run": "r1", "selector": "region = 'US'"}
    with pytest.raises(
        Refused, match="malformed: the durable subscription eu of client client has the selector region"
    ):
        program.asks("open", **names, subscription="eu")
    with pytest.raises(Refused, match="malformed: the durable subscription all of client client has no selector"):
        program.asks("open", **names, subscription="all")
    assert program.cursors() == []


@pytest.mark.parametrize(
    ("action", "properties", "text"),
    [
        ("open", {"cursor": "a b", "queue": "Q", "run": "r"}, "malformed: cursor is 'a b', not 1 to 200 letters"),
        ("open", {"cursor": "x", "run": "r"}, "malformed: open needs queue, or clientId and subscription"),
        ("open", {"cursor": "x", "queue": "Q", "run": ""}, "malformed: run is ''"),
        ("open", {"cursor": "x", "queue": "Q.*", "run": "r"}, "malformed: a cursor reads one queue"),
        ("open", {"cursor": "x", "queue": "Q", "run": "r", "exclusive": "maybe"}, "malformed: exclusive is 'maybe'"),
        ("open", {"cursor": "x", "clientId": "y", "subscription": "z", "run": "r"}, "unknown: client y has no durable"),
        ("reserve", {"cursor": "nobody", "epoch": 1, "messages": 1}, "unknown: there is no cursor nobody"),
        ("reserve", {"cursor": "c", "epoch": 2, "messages": 1}, "malformed: .* there is no epoch 2 yet"),
        ("reserve", {"cursor": "c", "epoch": "one", "messages": 1}, "malformed: epoch is 'one', not a number"),
        ("reserve", {"cursor": "c", "epoch": 1}, "malformed: messages is ''"),
        ("reserve", {"cursor": "c", "epoch": 1, "messages": MAX_RESERVED + 1}, "limit: a cursor holds at most"),
        ("reserve", {"cursor": "c", "epoch": 1, "messages": -1}, "malformed: messages is '-1'"),
        ("jump", {}, "malformed: there is no action 'jump'"),
        ("stage", {}, "malformed: stage belongs into the transaction"),
    ],
)
def test_a_bad_request_is_refused_in_one_line(action: str, properties: dict[str, object], text: str) -> None:
    _, program = filled()
    with pytest.raises(Refused, match=text):
        program.asks(action, **properties)


@pytest.mark.parametrize(
    "selector",
    [
        None,
        "cursor = 'c'",
        "cursor = 'c' AND epoch = 1 AND from = 5 AND to = 4",
        "cursor = 'c' AND epoch = 1 AND from = 0 AND to = 1 AND x = 1",
        "epoch = 1 AND cursor = 'c' AND from = 0 AND to = 1",
        "cursor = 'c d' AND epoch = 1 AND from = 0 AND to = 1",
        "cursor = 'c' AND epoch = 1 AND from = 0 AND to = 99999999999999999999",
        "cursor = 'c' OR epoch = 1",
    ],
)
def test_a_browser_must_name_a_range(selector: str | None) -> None:
    _, program = filled()
    with pytest.raises(ControlRefusal, match="malformed: what is browsed here is a range of a cursor"):
        program.peer.consumes(ASK, browser=True, selector=selector)


def test_a_request_without_an_address_for_the_answer_is_refused() -> None:
    _, program = filled()
    with pytest.raises(IllegalStateError, match="needs JMSReplyTo"):
        program.peer.sends(ASK, "", properties={"action": "cursors"})


def test_a_broker_without_a_store_says_so() -> None:
    stage = Stage(persistent=False)
    program = Program(stage)
    program.begins_to_ask("open", cursor="c", queue="Q", run="r")
    with pytest.raises(Refused, match="unavailable: this broker keeps nothing"):
        program.hears()


def test_requests_go_nowhere_and_take_no_memory() -> None:
    stage, program = filled(0)
    for _ in range(10):
        program.cursors()
    assert not stage.has(ASK)
    program.peer.producer(ASK)
    program.cursors()
    assert stage.view(ASK).enqueued == 0
    assert stage.memory() == 0


def test_a_cursor_that_cannot_be_read_stops_the_start() -> None:
    stage, _ = filled()
    stage.store.metadata[CURSORS][b"c"] = b"{}"
    stage.store.put_metadata(CURSORS, b"c", b"{}")
    stage.syncs()
    with pytest.raises(
        StoreError, match="a cursor in the store cannot be read: stop the broker and run spanwire store"
    ):
        stage.restarts()


def test_answers_come_when_the_store_has_what_they_tell() -> None:
    stage, program = filled()
    program.begins_to_ask("reserve", cursor="c", epoch=1, messages=2)
    assert program.hears() is None
    stage.syncs()
    assert program.hears() == {"from": 0, "to": 2, "waiting": 8}
