"""An operator removes what a selector chooses and retries dead letters; what consumers hold and what comes in meanwhile
stays.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.admin.selective_walk import PAGE_MESSAGES, REMOVAL_BYTES
from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy, IndividualNames
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.queue.page import SLICE_MESSAGES
from spanwire.broker.queue.pending_messages import MAX_RESIDENT_MESSAGES
from spanwire.broker.queue.queue import Queue
from spanwire.broker.reserved_destinations import CONTROL
from spanwire.broker.routing.dead_letters import CAUSE
from spanwire.model.acks import POISON_ACK
from spanwire.model.errors import InvalidDestinationError, InvalidSelectorError
from tests.support.dialogue.broker_dialogue import START_MS, Listener, Stage, destination
from tests.support.dialogue.text_format import text_message

QUEUE = "queue://Q"
DLQ = "queue://ActiveMQ.DLQ"
ALL = 1 << 60
DEEP = MAX_RESIDENT_MESSAGES + 3 * PAGE_MESSAGES


class Observer:
    """Who asked: duck-typed to `spanwire.broker.admin.selective_walk.OperationObserver`."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []

    def may_go_on(self, count: int) -> bool:
        return True

    def on_finished(self, count: int, passed: int) -> None:
        self.told.append((count, passed))


def removes(stage: Stage, selector: str | None = None, queue: str = QUEUE, limit: int = ALL) -> Observer:
    observer = Observer()
    stage.broker.operations.remove(destination(queue), selector, observer, limit, stage.now)
    return observer


def retries(stage: Stage, selector: str | None = None, queue: str = DLQ, limit: int = ALL) -> Observer:
    observer = Observer()
    stage.broker.operations.retry(destination(queue), selector, observer, limit, stage.now)
    return observer


def left(stage: Stage, queue: str = QUEUE) -> list[str]:
    """What a consumer still gets."""
    return drained(stage, stage.peer(f"left in {queue}").consumes(queue, prefetch=30_000))


def drained(stage: Stage, listener: Listener) -> list[str]:
    """All that a consumer gets, whatever its socket holds at once."""
    got: list[str] = []
    while True:
        stage.settle()
        listener.peer.flushes()
        new = listener.takes()
        if not new:
            return got
        got += new


def dies(stage: Stage, text: str, queue: str = QUEUE, **fields: object) -> None:
    """A message that its consumer gives up on."""
    stage.peer(f"sends {text}").sends(queue, text, **fields)  # type: ignore[arg-type]
    stage.settle()
    consumer = stage.peer(f"gives up {text}")
    listener = consumer.consumes(queue)
    stage.settle()
    listener.acknowledges(text, ack_type=POISON_ACK, count=1)
    consumer.leaves()
    stage.settle()


def test_a_selector_chooses_what_goes() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(6):
        producer.sends(QUEUE, str(number), properties={"odd": number % 2 == 1}, persistent=number < 4)
    stage.settle()
    observer = removes(stage, "odd")
    stage.settle()
    assert observer.told == [(3, 0)]
    assert stage.view(QUEUE).pending == 3
    assert left(stage) == ["0", "2", "4"]


def test_a_selector_sees_how_often_a_message_on_the_disk_was_delivered() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    listener = stage.peer("c").consumes(QUEUE, prefetch=2)
    assert listener.takes() == ["1", "2"]
    listener.peer.leaves()
    stage.broker.stop(stage.now)
    stage.syncs()
    again = stage.restarts(clean=True)
    observer = removes(again, "JMSXDeliveryCount > 1")
    again.settle()
    assert observer.told == [(2, 0)]
    assert left(again) == ["3"]


def test_what_was_removed_stays_removed_after_a_restart() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(6):
        producer.sends(QUEUE, str(number), properties={"odd": number % 2 == 1})
    stage.settle()
    removes(stage, "odd")
    stage.settle()
    stage.syncs()
    assert left(stage.restarts()) == ["0", "2", "4"]


def test_without_a_selector_everything_that_waits_goes() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "a", "b")
    stage.settle()
    assert removes(stage, " ").told == []
    stage.settle()
    assert stage.view(QUEUE).pending == 0


def test_what_goes_whatever_it_is_is_not_read_and_goes_some_at_a_time() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *[str(number) for number in range(10 * SLICE_MESSAGES)])
    stage.peer("q").sends(QUEUE, "last", persistent=False)
    stage.syncs()
    again = stage.restarts()
    again.peer("p").sends(QUEUE, "volatile", persistent=False)
    observer = removes(again)
    steps = [0]
    while again.broker.next_timeout() == 0.0:
        again.runs()
        steps.append(len(again.store.calls("remove")))
    assert observer.told == [(10 * SLICE_MESSAGES + 1, 0)]
    assert max(after - now for now, after in pairwise(steps)) == SLICE_MESSAGES
    assert again.store.reads == []
    assert (again.view(QUEUE).pending, again.view(QUEUE).dequeued) == (0, 10 * SLICE_MESSAGES + 1)
    assert (again.memory(), again.store.kept(destination(QUEUE))) == (0, [])


def test_a_purge_waits_while_the_disk_is_behind_with_its_removals() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *[str(number) for number in range(10 * SLICE_MESSAGES)])
    stage.syncs()
    store = stage.store.crash()
    again = Stage(store=store, memory_limit_bytes=20 * REMOVAL_BYTES * SLICE_MESSAGES)
    again.broker.recover(store.recovered(), False, again.now, store.metadata)
    observer = removes(again)
    for _ in range(20):
        again.waits(1.0)
    assert len(again.store.calls("remove")) == SLICE_MESSAGES  # a tenth of memory may be on its way to the disk
    while not observer.told:
        again.syncs()
        again.waits(1.0)
    assert observer.told == [(10 * SLICE_MESSAGES, 0)]


def test_a_limit_holds_for_what_is_not_read_too() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    stage.syncs()
    again = stage.restarts()
    observer = removes(again, limit=2)
    again.settle()
    assert observer.told == [(2, 0)]
    assert left(again) == ["3"]


def test_what_a_consumer_holds_stays_its_own() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=1)
    stage.peer("p").sends(QUEUE, "a", "b", "c")
    stage.settle()
    observer = removes(stage)
    stage.settle()
    assert observer.told == [(2, 0)]
    listener.acknowledges("a")
    stage.settle()
    assert stage.view(QUEUE).pending == 0


def test_what_comes_in_after_the_call_stays() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(QUEUE, "before")
    stage.settle()
    removes(stage)
    producer.sends(QUEUE, "after")
    stage.settle()
    assert left(stage) == ["after"]


def test_a_limit_ends_it() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "a", "b", "c")
    stage.settle()
    observer = removes(stage, limit=2)
    stage.settle()
    assert observer.told == [(2, 0)]
    assert left(stage) == ["c"]


@pytest.mark.large
def test_messages_on_the_disk_are_chosen_there_and_the_others_stay_there() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(DEEP):
        producer.sends(QUEUE, str(number), properties={"rare": number % 1000 == 999})
    stage.syncs()
    again = stage.restarts()
    observer = removes(again, "rare")
    again.settle()
    assert observer.told == [(DEEP // 1000, 0)]
    assert again.view(QUEUE).pending == DEEP - DEEP // 1000
    assert left(again) == [str(number) for number in range(DEEP) if number % 1000 != 999]


@pytest.mark.large
def test_a_consumer_that_reads_the_same_messages_loses_none_and_gets_none_twice() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(2000):
        producer.sends(QUEUE, str(number), properties={"odd": number % 2 == 1})
    stage.syncs()
    again = stage.restarts()
    observer = removes(again, "odd")
    again.runs()  # the first page is on its way when the consumer comes
    listener = again.peer("c").consumes(QUEUE, prefetch=30_000)
    got = drained(again, listener)
    ((count, passed),) = observer.told
    assert passed == 0
    assert len(got) + count == 2000
    assert len(set(got)) == len(got)
    assert {str(number) for number in range(0, 2000, 2)} <= set(got)


def test_a_queue_that_is_removed_meanwhile_ends_it() -> None:
    stage = Stage()
    peer = stage.peer("p")
    peer.sends(QUEUE, "a")
    stage.settle()
    observer = removes(stage)
    peer.removes(QUEUE)
    stage.settle()
    assert observer.told == [(0, 0)]


def test_a_bad_selector_and_an_unknown_queue_are_refused() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "a")
    with pytest.raises(InvalidSelectorError):
        removes(stage, "a = = 1")
    with pytest.raises(InvalidDestinationError, match="there is no queue NOWHERE"):
        removes(stage, queue="queue://NOWHERE")


def test_a_pattern_names_its_queues_in_order() -> None:
    stage = Stage()
    peer = stage.peer("p")
    for name in ("queue://A.2", "queue://A.1", "queue://B", "topic://A.3"):
        peer.sends(name, "x")
    found = stage.broker.operations.queues(destination("queue://A.>"))
    assert [each.name for each in found] == ["A.1", "A.2"]
    assert stage.broker.operations.queues(destination("queue://NONE")) == []


def test_a_dead_letter_goes_back_to_where_it_was_sent_first() -> None:
    stage = Stage()
    dies(stage, "dead", properties={"mine": "kept"})
    assert stage.view(DLQ).pending == 1
    observer = retries(stage)
    stage.settle()
    assert observer.told == [(1, 0)]
    assert stage.view(DLQ).pending == 0
    listener = stage.peer("again").consumes(QUEUE)
    stage.settle()
    (delivery,) = listener.takes_deliveries()
    assert (delivery.text, delivery.redelivery_count) == ("dead", 0)
    view = stage.broker.formats.format(delivery.message.format_id).view(delivery.message)
    assert {name: value[1] for name, value in view.properties.items()} == {"mine": "kept"}
    assert view.original_destination is None
    assert str(view.destination) == QUEUE


@pytest.mark.parametrize(
    "address", [CONTROL.qualified_name, "topic://ActiveMQ.Advisory.Queue", f"queue://X,{CONTROL.qualified_name}"]
)
def test_a_dead_letter_that_is_made_up_gets_nowhere_where_no_message_dies(address: str) -> None:
    stage = Stage()
    forged = text_message(
        destination(DLQ), 1, b"x", "ID:forger:1", properties={CAUSE: "mine", "action": "cursors"}, original=address
    )
    stage.peer("forger").sends_message(forged)
    listener = stage.peer("c").consumes(address) if address.startswith("topic") else None
    stage.settle()
    observer = retries(stage)
    stage.settle()
    assert observer.told == [(0, 1)]
    assert stage.view(DLQ).pending == 1
    assert not stage.has(CONTROL.qualified_name)
    assert listener is None or listener.takes() == []


def test_dead_letters_do_not_come_to_the_control_destination_whatever_a_policy_makes_their_name() -> None:
    strategy = DeadLetterStrategy(individual=IndividualNames(queue_prefix="ActiveMQ.Spanwire."))
    stage = Stage(PolicyEntry(destination("queue://>"), dead_letter=strategy))
    dies(stage, "dead", "queue://Control")
    assert stage.view(DLQ).pending == 1
    assert not stage.has(CONTROL.qualified_name)


def test_a_retried_message_is_where_it_belongs_after_a_restart_and_nowhere_else() -> None:
    stage = Stage()
    dies(stage, "dead")
    retries(stage)
    stage.settle()
    stage.syncs()
    again = stage.restarts()
    assert left(again) == ["dead"]
    assert again.broker.find_destination(destination(DLQ)) is None or again.view(DLQ).pending == 0


def test_what_is_no_dead_letter_stays_in_the_queue() -> None:
    stage = Stage()
    stage.peer("p").sends(DLQ, "sent here")
    stage.settle()
    observer = retries(stage)
    stage.settle()
    assert observer.told == [(0, 1)]
    assert left(stage, DLQ) == ["sent here"]


def test_without_room_on_the_disk_dead_letters_stay_where_they_are() -> None:
    stage = Stage()
    dies(stage, "dead")
    stage.has_room(False)
    observer = retries(stage)
    stage.settle()
    assert observer.told == [(0, 1)]
    assert left(stage, DLQ) == ["dead"]


def test_a_selector_chooses_the_dead_letters() -> None:
    stage = Stage()
    dies(stage, "one", properties={"n": 1})
    dies(stage, "two", properties={"n": 2})
    observer = retries(stage, "n = 2")
    stage.settle()
    assert observer.told == [(1, 0)]
    assert left(stage) == ["two"]
    assert left(stage, DLQ) == ["one"]


def test_the_time_to_live_of_an_expired_message_starts_anew() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "short", expiration_ms=START_MS + 5_000)
    stage.settle()
    stage.waits(10)
    stage.peer("c").consumes(QUEUE)
    stage.settle()
    assert stage.view(DLQ).pending == 1
    retries(stage)
    stage.settle()
    assert stage.view(DLQ).pending == 0
    assert stage.view(QUEUE).pending == 1


def test_a_dead_letter_that_is_refused_again_is_not_retried_in_the_same_go() -> None:
    stage = Stage()
    dies(stage, "poison")
    consumer = stage.peer("hopeless").consumes(QUEUE)
    observer = retries(stage)
    stage.settle()
    consumer.acknowledges("poison", ack_type=POISON_ACK, count=1)
    stage.settle()
    assert observer.told == [(1, 0)]
    assert stage.view(DLQ).pending == 1


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60),
    st.integers(min_value=0, max_value=60),
    st.booleans(),
)
def test_removed_and_left_together_are_what_was_there(
    messages: list[tuple[bool, bool]], limit: int, restarts: bool
) -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number, (chosen, persistent) in enumerate(messages):
        producer.sends(QUEUE, str(number), properties={"chosen": chosen}, persistent=persistent or restarts)
    stage.settle()
    if restarts:
        stage.syncs()
        stage = stage.restarts()
    if not messages:
        return
    observer = removes(stage, "chosen", limit=limit)
    stage.settle()
    expected = [str(number) for number, (chosen, _) in enumerate(messages) if chosen][:limit]
    assert observer.told == [(len(expected), 0)]
    assert left(stage) == [str(number) for number in range(len(messages)) if str(number) not in expected]


def test_a_dead_letter_of_a_durable_subscription_goes_back_to_all_who_listen_to_its_topic() -> None:
    stage = Stage()
    consumer = stage.peer("a", client_id="a")
    listener = consumer.consumes("topic://T", durable="s")
    away = stage.peer("b", client_id="b")
    away.consumes("topic://T", durable="s")
    away.leaves()
    stage.peer("p").sends("topic://T", "dead")
    stage.settle()
    listener.acknowledges("dead", ack_type=POISON_ACK, count=1)
    stage.settle()
    assert stage.view(DLQ).pending == 1
    plain = stage.peer("c").consumes("topic://T")
    observer = retries(stage)
    stage.settle()
    stage.syncs()
    assert observer.told == [(1, 0)]
    assert listener.takes() == ["dead", "dead"]
    assert plain.takes() == ["dead"]
    again = stage.restarts()
    listener = again.peer("b", client_id="b").consumes("topic://T", durable="s")
    again.settle()
    assert listener.takes() == ["dead", "dead"]  # what it had missed, and what was retried


def test_a_retried_message_that_is_not_persistent_waits_on_the_disk_for_a_subscriber_who_is_away() -> None:
    letters = DeadLetterStrategy(process_non_persistent=True)
    stage = Stage(PolicyEntry(destination("topic://>"), dead_letter=letters))
    listener = stage.peer("a", client_id="a").consumes("topic://T", durable="s")
    stage.peer("p").sends("topic://T", "dead", persistent=False)
    stage.settle()
    listener.acknowledges("dead", ack_type=POISON_ACK, count=1)
    listener.peer.leaves()
    stage.settle()
    assert stage.view(DLQ).pending == 1
    observer = retries(stage)
    stage.settle()
    stage.syncs()
    assert observer.told == [(1, 0)]
    again = stage.restarts()
    listener = again.peer("a", client_id="a").consumes("topic://T", durable="s")
    again.settle()
    assert listener.takes() == ["dead"]


def test_what_was_forwarded_to_a_queue_is_no_dead_letter() -> None:
    stage = Stage()
    peer = stage.peer("p")
    peer.sends("queue://Q,topic://T", "composite")  # copies remember where they were sent
    stage.settle()
    observer = retries(stage, queue=QUEUE)
    stage.settle()
    assert observer.told == [(0, 1)]
    assert left(stage) == ["composite"]


def test_memory_is_free_again_after_messages_from_the_disk_were_removed_or_retried() -> None:
    stage = Stage()
    for number in range(PAGE_MESSAGES // 20):
        dies(stage, str(number))
    stage.peer("p").sends(QUEUE, *[str(number) for number in range(PAGE_MESSAGES * 2)])
    stage.settle()
    stage.syncs()
    again = stage.restarts()
    before = again.memory()
    removes(again)
    again.settle()
    retries(again)
    again.settle()
    removes(again)
    again.settle()
    assert (again.view(QUEUE).pending, again.view(DLQ).pending) == (0, 0)
    assert again.memory() == before


def test_an_operator_pauses_and_resumes_a_queue() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1")
    listener = stage.peer("c").consumes(QUEUE)
    assert listener.takes() == ["1"]
    assert stage.broker.operations.pause(destination(QUEUE), True, stage.now) == 0
    stage.peer("q").sends(QUEUE, "2", "3")
    listener.acknowledges("1")
    assert (listener.takes(), stage.view(QUEUE).paused, stage.view(QUEUE).pending) == ([], True, 2)
    assert stage.broker.operations.pause(destination(QUEUE), False, stage.now) == 0
    assert (listener.takes(), stage.view(QUEUE).paused) == (["2", "3"], False)
    with pytest.raises(InvalidDestinationError, match="there is no queue://NOWHERE"):
        stage.broker.operations.pause(destination("queue://NOWHERE"), True, stage.now)


def test_a_restart_ends_a_pause() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1")
    stage.settle()
    stage.broker.operations.pause(destination(QUEUE), True, stage.now)
    again = stage.restarts(clean=True)
    listener = again.peer("c").consumes(QUEUE)
    again.settle()
    assert (listener.takes(), again.view(QUEUE).paused) == (["1"], False)


def test_a_retried_message_gets_another_time_to_live_if_one_is_asked_for() -> None:
    stage = Stage()
    for lifetime_ms, expires in ((0, False), (5_000, True)):
        producer = stage.peer(f"p{lifetime_ms}")
        producer.sends(QUEUE, "dies", expiration_ms=stage.now.wall_ms + 10)
        stage.waits(60)
        observer = Observer()
        stage.broker.operations.retry(destination(DLQ), None, observer, ALL, stage.now, lifetime_ms)
        stage.settle()
        queue = stage.broker.find_destination(destination(QUEUE))
        assert isinstance(queue, Queue)
        (found,) = [message for _, message in queue.oldest(9) if message is not None]
        assert (found.expiration_ms == stage.now.wall_ms + lifetime_ms) is expires
        assert (found.expiration_ms == 0) is not expires
        assert found.broker_path == ()
        removes(stage)
        stage.settle()
