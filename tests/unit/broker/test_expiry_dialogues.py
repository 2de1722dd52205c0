"""Expired and poisoned messages: never delivered late, one dead letter each."""

from __future__ import annotations

import pytest

from spanwire.broker.destinations.destination_map import MAX_DESTINATIONS
from spanwire.broker.destinations.expiry_schedule import QUEUES_PER_TURN
from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy, IndividualNames
from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.routing.deferred_dead_letters import MAX_DETAINED
from spanwire.broker.timers import SLICES_PER_TURN
from spanwire.model.acks import EXPIRED_ACK, POISON_ACK
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.support.dialogue.text_format import UNREADABLE, original_of, properties_of, text_of

QUEUE = "queue://Q"
DLQ = "queue://ActiveMQ.DLQ"


def dead(stage: Stage, queue: str = DLQ) -> list[str]:
    """The texts in the dead letter queue."""
    return [text_of(message) for message in stage.store.kept(destination(queue))]


def test_a_message_that_arrives_expired_goes_to_the_dead_letters() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    producer = stage.peer("p")
    token = producer.sends(QUEUE, "late", expiration_ms=stage.now.wall_ms - 1)
    stage.syncs()
    assert producer.is_answered(token)
    assert listener.takes() == []
    view = stage.view(QUEUE)
    assert (view.expired, view.enqueued, view.pending) == (1, 0, 0)
    assert dead(stage) == ["late"]


def test_a_message_that_expires_in_the_queue_is_not_dispatched() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(QUEUE, "short", expiration_ms=stage.now.wall_ms + 1_000)
    producer.sends(QUEUE, "long")
    stage.environment.advance(2.0)
    assert stage.peer("c").consumes(QUEUE).takes() == ["long"]
    view = stage.view(QUEUE)
    assert (view.expired, view.pending, view.in_flight) == (1, 1, 1)
    assert dead(stage) == ["short"]


def test_a_selective_consumer_gets_no_expired_message() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(QUEUE, "short", expiration_ms=stage.now.wall_ms + 1_000, properties={"a": 1})
    producer.sends(QUEUE, "long", properties={"a": 1})
    stage.environment.advance(2.0)
    assert stage.peer("c").consumes(QUEUE, selector="a = 1").takes() == ["long"]
    assert dead(stage) == ["short"]


def test_waiting_messages_are_looked_through_now_and_then() -> None:
    stage = Stage()
    stage.runs()
    producer = stage.peer("p")
    count = 1_200
    for number in range(count):
        expiration = stage.now.wall_ms + 1_000 if number % 2 else 0
        producer.sends(QUEUE, str(number), expiration_ms=expiration)
    assert stage.broker.next_timeout() == pytest.approx(stage.now.monotonic + 30.0)
    stage.waits(31.0)
    slices = 1
    while stage.broker.next_timeout() == 0.0:
        before = stage.view(QUEUE).expired
        stage.runs()
        assert stage.view(QUEUE).expired - before <= 500
        slices += 1
    assert slices >= 3
    assert (stage.view(QUEUE).expired, stage.view(QUEUE).pending) == (count // 2, count // 2)


@pytest.mark.large
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_consumer_that_comes_to_many_expired_messages_holds_nobody_up(prioritized: bool) -> None:
    stage = Stage(PolicyEntry(destination(QUEUE), queue=QueuePolicy(prioritized_messages=prioritized)))
    stage.runs()
    producer = stage.peer("p")
    for number in range(1_200):
        producer.sends(QUEUE, str(number), expiration_ms=stage.now.wall_ms + 1_000)
    producer.sends(QUEUE, "alive")
    stage.environment.advance(2.0)
    listener = stage.peer("c").consumes(QUEUE)
    seen = [stage.view(QUEUE).expired]
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        seen.append(stage.view(QUEUE).expired)
    assert max(later - before for before, later in zip([0, *seen], seen, strict=False)) <= 500
    assert (seen[-1], listener.out) == (1_200, ["alive"])


def test_large_expired_messages_are_read_a_few_at_a_time() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *["a" * 1_000_000 for _ in range(40)], expiration_ms=stage.now.wall_ms + 1_000)
    stage.syncs()
    again = stage.restarts()
    again.waits(31.0)
    pages: list[int] = []
    while again.store.reads or again.broker.next_timeout() == 0.0:
        if again.store.reads:
            pages.append(len(again.store.reads[0].sequences))
            again.store.answer(again.broker, again.now)
        again.runs()
    assert pages[:3] == [4, 4, 4]
    assert sum(pages) == 40
    assert max(pages[3:]) <= 5
    assert len(dead(again)) == 40


def test_many_queues_are_looked_through_a_few_in_each_turn() -> None:
    stage = Stage()
    stage.runs()
    producer = stage.peer("p")
    names = [f"queue://Q{number}" for number in range(SLICES_PER_TURN * 3)]
    for name in names:
        for text in "abc":
            producer.sends(name, text, expiration_ms=stage.now.wall_ms + 1_000)
    stage.waits(31.0)
    expired = [sum(stage.view(name).expired for name in names)]
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        expired.append(sum(stage.view(name).expired for name in names))
    assert expired == [3 * SLICES_PER_TURN, 6 * SLICES_PER_TURN, 9 * SLICES_PER_TURN]


def test_to_begin_the_look_through_thousands_of_queues_takes_several_turns() -> None:
    stage = Stage()
    stage.runs()
    producer = stage.peer("p")
    for number in range(QUEUES_PER_TURN + 1):
        producer.sends(f"queue://Q{number}", "a")
    stage.waits(31.0)
    last = stage.broker.find_destination(destination(f"queue://Q{QUEUES_PER_TURN}"))
    assert last is not None
    assert not last.is_searching()
    stage.runs()
    assert last.is_searching()
    for _ in range(QUEUES_PER_TURN):
        stage.runs()
    assert stage.broker.next_timeout() != 0.0


def test_a_policy_turns_the_look_through_off() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), expire_messages_period_ms=0))
    stage.peer("p").sends(QUEUE, "1", expiration_ms=stage.now.wall_ms + 1_000)
    stage.waits(100.0)
    stage.settle()
    assert stage.view(QUEUE).pending == 1
    assert stage.peer("c").consumes(QUEUE).takes() == []


def test_a_dead_letter_tells_where_it_came_from_and_does_not_expire_again() -> None:
    stage = Stage()
    expiration = stage.now.wall_ms + 1_000
    stage.peer("p").sends(QUEUE, "1", expiration_ms=expiration, properties={"colour": "red"})
    stage.environment.advance(2.0)
    stage.peer("c").consumes(QUEUE)
    (copy,) = stage.store.kept(destination(DLQ))
    assert original_of(copy) == QUEUE
    assert copy.expiration_ms == 0
    assert copy.persistent
    properties = properties_of(copy)
    assert properties["originalExpiration"] == expiration
    assert properties["dlqDeliveryFailureCause"] == f"java.lang.Throwable: Message Expired. Expiration:{expiration}"
    assert properties["colour"] == "red"
    stage.environment.advance(1_000_000.0)
    assert stage.peer("d").consumes(DLQ).takes() == ["1"]


def test_the_dead_letter_is_stored_before_the_original_is_removed() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    kinds = [(change.kind, change.destination.qualified_name) for change in stage.store.log[-2:]]
    assert kinds == [("add", DLQ), ("remove", QUEUE)]


def test_poison_goes_to_the_dead_letters_once() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2")
    token = listener.acknowledges("1", ack_type=POISON_ACK, count=1, answer=True)
    assert not peer.is_answered(token)
    stage.syncs()
    assert peer.is_answered(token)
    (copy,) = stage.store.kept(destination(DLQ))
    assert (text_of(copy), original_of(copy)) == ("1", QUEUE)
    peer.leaves()
    assert stage.peer("d").consumes(QUEUE).takes() == ["2"]
    assert dead(stage) == ["1"]


def test_poison_whose_inside_cannot_be_decoded_is_kept_too() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, UNREADABLE.decode())
    listener.acknowledges(UNREADABLE.decode(), ack_type=POISON_ACK, count=1)
    (copy,) = stage.store.kept(destination(DLQ))
    assert (text_of(copy), original_of(copy)) == (UNREADABLE.decode(), QUEUE)


def test_a_client_that_finds_messages_expired_sends_them_to_the_dead_letters() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    listener.acknowledges("1", first="1", ack_type=EXPIRED_ACK, count=1)
    assert (stage.view(QUEUE).expired, stage.view(QUEUE).pending) == (1, 0)
    assert dead(stage) == ["1"]


def test_volatile_messages_leave_no_dead_letter_unless_the_policy_wants_them() -> None:
    strategy = DeadLetterStrategy("DEAD", process_non_persistent=True)
    stage = Stage(PolicyEntry(destination("queue://KEPT.>"), dead_letter=strategy))
    for queue in (QUEUE, "queue://KEPT.A"):
        listener = stage.peer("c" + queue[-1]).consumes(queue)
        stage.peer("p" + queue[-1]).sends(queue, "1", persistent=False)
        listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    assert not stage.has(DLQ)
    (copy,) = stage.store.kept(destination("queue://DEAD"))
    assert properties_of(copy)["originalDeliveryMode"] == "NON_PERSISTENT"
    assert copy.persistent


def test_a_policy_may_drop_expired_messages() -> None:
    strategy = DeadLetterStrategy(process_expired=False)
    stage = Stage(PolicyEntry(destination("queue://>"), dead_letter=strategy))
    stage.peer("p").sends(QUEUE, "1", expiration_ms=stage.now.wall_ms - 1)
    assert not stage.has(DLQ)


def test_a_message_that_dies_among_the_dead_does_not_go_round() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(DLQ)
    stage.peer("p").sends(DLQ, "1")
    listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    assert stage.view(DLQ).pending == 0
    assert dead(stage) == []


def test_a_slow_subscriber_gets_no_expired_message() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes("topic://T", prefetch=1)
    producer = stage.peer("p")
    producer.sends("topic://T", "1")
    producer.sends("topic://T", "2", expiration_ms=stage.now.wall_ms + 1_000)
    producer.sends("topic://T", "3")
    stage.environment.advance(2.0)
    listener.acknowledges("1", count=1)
    assert listener.takes() == ["1", "3"]
    assert stage.view("topic://T").expired == 1


def test_a_browser_and_a_recovered_queue_show_no_expired_message() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", expiration_ms=stage.now.wall_ms + 1_000)
    stage.syncs()
    again = stage.restarts()
    again.environment.advance(2.0)
    browser = again.peer("b").consumes(QUEUE, browser=True)
    listener = again.peer("c").consumes(QUEUE)
    again.settle()
    assert (browser.takes(), listener.takes()) == ([], [])
    assert dead(again) == ["1"]


def individual(queue_prefix: str = "ActiveMQ.DLQ.Queue.", queue_suffix: str = "") -> DeadLetterStrategy:
    return DeadLetterStrategy(
        process_non_persistent=True, individual=IndividualNames(queue_prefix=queue_prefix, queue_suffix=queue_suffix)
    )


def dies(stage: Stage, name: str) -> None:
    """One message that arrives expired."""
    stage.peer(f"p of {name}").sends(name, "1", expiration_ms=stage.now.wall_ms - 1)


@pytest.mark.parametrize(
    ("names", "queue"),
    [
        ({}, "queue://ActiveMQ.DLQ.Queue.A.B"),
        ({"queue_prefix": "DLQ."}, "queue://DLQ.A.B"),
        ({"queue_prefix": "", "queue_suffix": ".DLQ"}, "queue://A.B.DLQ"),
    ],
)
def test_each_queue_may_have_its_own_dead_letters_which_do_not_go_round(names: dict[str, str], queue: str) -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), dead_letter=individual(**names)))
    dies(stage, "queue://A.B")
    assert dead(stage, queue) == ["1"]
    before = stage.broker.destination_views()
    dies(stage, queue)
    assert dead(stage, queue) == ["1"]
    assert [view.destination for view in stage.broker.destination_views()] == [view.destination for view in before]


def test_dead_letters_of_a_topic_have_a_queue_of_their_own() -> None:
    stage = Stage(PolicyEntry(destination("topic://>"), dead_letter=individual()))
    stage.peer("c").consumes("topic://T")
    dies(stage, "topic://T")
    assert dead(stage, "queue://ActiveMQ.DLQ.Topic.T") == ["1"]


def test_temporary_queues_and_names_without_room_share_one_queue_of_dead_letters() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), dead_letter=individual()))
    owner = stage.peer("o")
    dies(stage, owner.temporary())
    assert dead(stage) == ["1"]
    dies(stage, "queue://" + "x" * 1_010)
    assert dead(stage) == ["1", "1"]


@pytest.mark.large
def test_s45_dead_letters_make_no_more_destinations_than_there_may_be() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), dead_letter=individual()))
    stage.peer("p").creates(QUEUE)
    for number in range(MAX_DESTINATIONS - 1):
        stage.broker.configure_destination(destination(f"topic://T.{number}"))
    dies(stage, QUEUE)
    assert dead(stage) == ["1"]
    assert not stage.has("queue://ActiveMQ.DLQ.Queue.Q")


def test_a_power_cut_finds_the_original_or_its_dead_letter_and_never_both_or_none() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    stage.syncs()
    before = stage.store.position()
    listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    stage.environment.advance(1.0)
    for position in range(before, stage.store.position() + 1):
        found = stage.store.crash(position)
        texts = [text_of(message) for name in (QUEUE, DLQ) for message in found.kept(destination(name))]
        assert texts == ["1"]


def test_without_room_on_the_disk_poison_stays_in_the_store_until_there_is() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2")
    stage.syncs()
    stage.has_room(False)
    token = listener.acknowledges("1", ack_type=POISON_ACK, count=1, answer=True)
    listener.acknowledges("2", first="2", count=1)
    stage.syncs()
    assert peer.is_answered(token)
    assert not stage.has(DLQ)
    assert [text_of(message) for message in stage.store.crash().kept(destination(QUEUE))] == ["1"]
    assert (stage.view(QUEUE).in_flight, stage.memory()) == (1, 0)
    stage.has_room(True)
    stage.settle()
    assert dead(stage) == ["1"]
    assert stage.store.kept(destination(QUEUE)) == []
    assert (stage.view(QUEUE).in_flight, stage.view(QUEUE).dequeued) == (0, 2)


def test_without_room_on_the_disk_what_expires_stays_in_the_store_until_there_is() -> None:
    stage = Stage()
    stage.runs()
    producer = stage.peer("p")
    for number in range(300):
        producer.sends(QUEUE, str(number), expiration_ms=stage.now.wall_ms + 1_000)
    producer.sends(QUEUE, "good")
    stage.syncs()
    stage.has_room(False)
    stage.waits(31.0)
    stage.settle()
    assert (stage.view(QUEUE).expired, stage.view(QUEUE).pending) == (0, 301)
    consumer = stage.peer("c").consumes(QUEUE)
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
    assert consumer.takes() == ["good"]
    assert not stage.has(DLQ)
    assert len(stage.store.crash().kept(destination(QUEUE))) == 301
    stage.has_room(True)
    stage.settle()
    assert dead(stage) == [str(number) for number in range(300)]
    assert [text_of(message) for message in stage.store.kept(destination(QUEUE))] == ["good"]
    assert stage.view(QUEUE).expired == 300


def test_a_walk_that_is_under_way_ends_when_there_is_no_room_for_dead_letters() -> None:
    stage = Stage()
    stage.runs()
    producer = stage.peer("p")
    for number in range(1_200):
        producer.sends(QUEUE, str(number), expiration_ms=stage.now.wall_ms + 1_000)
    stage.syncs()
    stage.waits(31.0)
    expired = stage.view(QUEUE).expired
    assert expired < 1_200
    stage.has_room(False)
    stage.settle()
    assert (stage.view(QUEUE).expired, stage.view(QUEUE).pending) == (expired, 1_200 - expired)
    stage.has_room(True)
    stage.waits(31.0)
    stage.settle()
    assert len(dead(stage)) == 1_200


@pytest.mark.large
def test_what_waits_for_room_is_bounded_and_the_rest_is_found_at_the_next_start() -> None:
    stage = Stage()
    texts = [str(number) for number in range(MAX_DETAINED + 2)]
    stage.peer("p").sends(QUEUE, *texts, expiration_ms=stage.now.wall_ms + 1_000)
    stage.syncs()
    stage.has_room(False)
    stage.environment.advance(2.0)
    assert stage.peer("c").consumes(QUEUE).takes() == []
    stage.settle()
    assert stage.memory() == 0
    stage.has_room(True)
    stage.settle()
    assert len(dead(stage)) == MAX_DETAINED
    assert [text_of(message) for message in stage.store.kept(destination(QUEUE))] == texts[-2:]
    started = stage.restarts()
    started.waits(31.0)
    started.settle()
    assert dead(started)[MAX_DETAINED:] == texts[-2:]


def test_what_was_given_up_without_room_says_after_a_stop_in_order_that_it_was_delivered() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    stage.has_room(False)
    listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    stage.syncs()
    again = stage.restarts(clean=True)
    consumer = again.peer("d").consumes(QUEUE)
    again.settle()
    assert consumer.redelivery_counts() == [("1", 1)]


def test_a_queue_that_is_removed_takes_what_waited_for_room_with_it() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    stage.syncs()
    stage.has_room(False)
    listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    listener.leaves()
    stage.peer("p2").removes(QUEUE)
    stage.has_room(True)
    stage.settle()
    assert not stage.has(DLQ)


def test_a_persistent_message_that_arrives_expired_is_answered_when_its_dead_letter_is_safe() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(2):  # the queue is made by the first
        token = producer.sends(QUEUE, "late", expiration_ms=stage.now.wall_ms - 1)
        assert not producer.is_answered(token), number
        stage.syncs()
        assert producer.is_answered(token)


def test_without_room_on_the_disk_a_message_that_only_memory_had_leaves_a_dead_letter_there() -> None:
    strategy = DeadLetterStrategy(process_non_persistent=True)
    stage = Stage(PolicyEntry(destination("queue://>"), dead_letter=strategy))
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", persistent=False)
    stage.has_room(False)
    listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    assert stage.store.calls("add") == []
    assert stage.peer("d").consumes(DLQ).takes() == ["1"]


def test_a_message_that_expires_while_it_is_being_stored_is_replaced_as_one() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), dispatch_before_sync=False))
    stage.peer("p").sends(QUEUE, "1", expiration_ms=stage.now.wall_ms + 1_000)
    stage.environment.advance(2.0)
    before = stage.store.position()
    stage.syncs()
    assert dead(stage) == ["1"]
    for position in range(before, stage.store.position() + 1):
        found = stage.store.crash(position)
        texts = [text_of(message) for name in (QUEUE, DLQ) for message in found.kept(destination(name))]
        assert texts == ["1"]
    assert (stage.view(QUEUE).in_flight, stage.memory()) == (0, stage.view(DLQ).memory_bytes)
