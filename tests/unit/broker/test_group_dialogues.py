"""Message groups: one consumer for each JMSXGroupID, in order, for as long as it is there (ActiveMQ message groups)."""

from __future__ import annotations

import pytest

from spanwire.broker.policy.policy_entry import GroupMap, PolicyEntry, QueuePolicy
from spanwire.broker.queue.queue import Queue
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage, destination
from tests.support.dialogue.text_format import is_first

QUEUE = "queue://Q"


def grouped(peer: Peer, group: str, *texts: str, sequence: int = 0) -> None:
    """Send messages of one group."""
    peer.sends(QUEUE, *texts, group=group, group_sequence=sequence)


def owners(stage: Stage) -> dict[str, str]:
    queue = stage.broker.find_destination(destination(QUEUE))
    assert isinstance(queue, Queue)
    groups = queue.selective.groups
    return {} if groups is None else groups.owners()


def firsts(listener: Listener) -> list[str]:
    """What said that it is the first of its group for this consumer."""
    return [delivery.text for delivery in listener.deliveries if is_first(delivery.message)]


def policy(groups: GroupMap) -> PolicyEntry:
    return PolicyEntry(destination("queue://>"), queue=QueuePolicy(groups=groups))


def test_all_messages_of_a_group_go_to_one_consumer() -> None:
    stage = Stage()
    one, two = (stage.peer(name).consumes(QUEUE) for name in "cd")
    producer = stage.peer("p")
    for number in range(6):
        for group in "xyz":
            grouped(producer, group, f"{group}{number}")
    for group in "xyz":
        mine = [text for text in one.out if text[0] == group] or [text for text in two.out if text[0] == group]
        assert mine == [f"{group}{number}" for number in range(6)]
    assert len(one.out) + len(two.out) == 18
    assert one.out
    assert two.out


def test_new_groups_go_to_the_consumer_that_has_the_fewest() -> None:
    stage = Stage()
    producer = stage.peer("p")
    one, two = (stage.peer(name).consumes(QUEUE) for name in "cd")
    for number in range(10):
        grouped(producer, f"g{number}", f"g{number}")
    assert (len(one.out), len(two.out)) == (5, 5)


def test_the_first_message_of_a_group_says_so_to_each_new_owner() -> None:
    stage = Stage()
    one = stage.peer("c").consumes(QUEUE)
    producer = stage.peer("p")
    grouped(producer, "g", "1", "2")
    two = stage.peer("d").consumes(QUEUE)
    grouped(producer, "g", "3")
    assert (one.out, firsts(one), two.out) == (["1", "2", "3"], ["1"], [])
    one.acknowledges("2")
    one.peer.leaves()
    assert (two.redelivery_counts(), firsts(two)) == ([("3", 1)], ["3"])


def test_messages_without_a_group_go_to_whoever_is_free() -> None:
    stage = Stage()
    one, two = (stage.peer(name).consumes(QUEUE, prefetch=2) for name in "cd")
    producer = stage.peer("p")
    grouped(producer, "g", "g1", "g2", "g3")
    producer.sends(QUEUE, "free")
    assert one.out == ["g1", "g2"]
    assert two.out == ["free"]
    one.acknowledges("g1")
    assert one.out == ["g1", "g2", "g3"]


def test_a_group_waits_for_its_owner_and_holds_nobody_up() -> None:
    stage = Stage()
    producer = stage.peer("p")
    one = stage.peer("c").consumes(QUEUE, prefetch=1)
    grouped(producer, "slow", *[str(number) for number in range(50)])
    two = stage.peer("d").consumes(QUEUE, prefetch=1)
    grouped(producer, "other", "a", "b")
    assert (one.out, two.out) == (["0"], ["a"])
    two.acknowledges("a")
    assert two.out == ["a", "b"]
    for number in range(49):
        one.acknowledges(str(number))
    assert one.out == [str(number) for number in range(50)]


def test_a_negative_sequence_closes_the_group_and_another_consumer_may_begin_it_again() -> None:
    stage = Stage()
    producer = stage.peer("p")
    one = stage.peer("c").consumes(QUEUE, prefetch=2)
    grouped(producer, "g", "1")
    two = stage.peer("d").consumes(QUEUE, prefetch=2)
    grouped(producer, "g", "last", sequence=-1)
    assert one.out == ["1", "last"]
    assert owners(stage) == {}
    grouped(producer, "g", "again")
    assert (two.out, firsts(two)) == (["again"], ["again"])


def test_a_closed_group_is_begun_again_by_the_next_consumer_although_the_last_one_has_room() -> None:
    stage = Stage()
    producer = stage.peer("p")
    one = stage.peer("c").consumes(QUEUE)
    grouped(producer, "g", "1", sequence=1)
    one.acknowledges("1")
    two = stage.peer("d").consumes(QUEUE)
    grouped(producer, "g", "last", sequence=-1)
    one.acknowledges("last")
    grouped(producer, "g", "again", sequence=1)
    assert (one.out, two.out) == (["1", "last"], ["again"])


def test_what_waits_behind_a_closing_message_is_taken_by_whoever_has_room() -> None:
    stage = Stage()
    producer = stage.peer("p")
    one = stage.peer("c").consumes(QUEUE, prefetch=1)
    grouped(producer, "g", "1")
    two = stage.peer("d").consumes(QUEUE, prefetch=5)
    grouped(producer, "g", "last", sequence=-1)
    grouped(producer, "g", "a", "b")
    assert two.out == []
    one.acknowledges("1")
    assert one.out == ["1", "last"]
    assert two.out == ["a", "b"]


def test_the_groups_of_a_consumer_that_leaves_are_shared_among_the_others() -> None:
    stage = Stage()
    producer = stage.peer("p")
    one, two, three = (stage.peer(name).consumes(QUEUE) for name in "cde")
    for number in range(9):
        grouped(producer, f"g{number}", f"g{number}")
    left = list(one.out)
    one.acknowledges(left[-1])
    one.peer.leaves()
    for number in range(9):
        grouped(producer, f"g{number}", f"g{number} again")
    again = [text for text in [*two.out, *three.out] if text.endswith("again")]
    assert sorted(again) == [f"g{number} again" for number in range(9)]
    assert abs(len(two.out) - len(three.out)) <= 1


@pytest.mark.large
def test_the_order_of_a_group_holds_in_a_deep_queue_on_the_disk() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(3_000):
        grouped(producer, f"g{number % 7}", str(number))
    stage.syncs()
    again = stage.restarts(clean=True)
    listeners = [again.peer(name).consumes(QUEUE, prefetch=10) for name in "cde"]
    received: dict[int, list[tuple[int, int]]] = {}
    busy = True
    while busy:
        busy = False
        again.settle()
        for place, listener in enumerate(listeners):
            new = listener.takes()
            for text in new:
                received.setdefault(int(text) % 7, []).append((place, int(text)))
            if new:
                busy = True
                listener.acknowledges(new[-1])
    for group in range(7):
        assert [number for _, number in received[group]] == list(range(group, 3_000, 7))
        assert len({place for place, _ in received[group]}) == 1


@pytest.mark.parametrize("kind", ["cached", "simple"])
def test_the_table_of_owners_forgets_the_group_that_was_longest_without_a_message(kind: str) -> None:
    stage = Stage(policy(GroupMap(kind, 3)))
    producer = stage.peer("p")
    stage.peer("c").consumes(QUEUE)
    for group in ("a", "b", "c", "a", "d"):
        grouped(producer, group, group)
    assert list(owners(stage)) == ["c", "a", "d"]


def test_groups_of_one_bucket_share_their_owner() -> None:
    stage = Stage(policy(GroupMap("bucket", 2)))
    producer = stage.peer("p")
    listeners = [stage.peer(name).consumes(QUEUE) for name in "cd"]
    for number in range(40):
        grouped(producer, f"g{number}", str(number))
    assert len(owners(stage)) == 2
    assert [len(listener.out) > 0 for listener in listeners] == [True, True]


def test_a_group_stays_with_consumers_that_its_selector_allows() -> None:
    stage = Stage()
    producer = stage.peer("p")
    one = stage.peer("c").consumes(QUEUE, selector="kind = 'a'")
    two = stage.peer("d").consumes(QUEUE, selector="kind = 'b'")
    for number in range(4):
        producer.sends(QUEUE, f"a{number}", group="g1", properties={"kind": "a"})
        producer.sends(QUEUE, f"b{number}", group="g2", properties={"kind": "b"})
    assert one.out == [f"a{number}" for number in range(4)]
    assert two.out == [f"b{number}" for number in range(4)]


def test_what_its_owner_s_selector_left_is_taken_when_the_owner_leaves() -> None:
    stage = Stage()
    owner = stage.peer("c").consumes(QUEUE, selector="n = 1")
    producer = stage.peer("p")
    producer.sends(QUEUE, "first", group="g", properties={"n": 1})
    assert owner.takes() == ["first"]
    owner.acknowledges("first")
    other = stage.peer("d").consumes(QUEUE)
    producer.sends(QUEUE, "waits", group="g", properties={"n": 2})
    stage.settle()
    assert (owner.takes(), other.takes()) == ([], [])
    owner.leaves()
    stage.settle()
    assert other.takes() == ["waits"]


@pytest.mark.parametrize("no_local", [True, False])
def test_a_durable_subscription_knows_no_groups(no_local: bool) -> None:
    stage = Stage()
    client, producer = stage.peer("c", client_id="c"), stage.peer("p")
    subscriber = client.consumes("topic://T", durable="s", no_local=no_local)
    producer.sends("topic://T", "1", "2", group="g")
    stage.settle()
    assert (subscriber.takes(), firsts(subscriber)) == (["1", "2"], [])
    subscriber.acknowledges("2", count=2)
    subscriber.leaves()
    producer.sends("topic://T", "3", group="g")
    stage.settle()
    again = client.consumes("topic://T", durable="s", no_local=no_local)
    stage.settle()
    assert (again.takes(), firsts(again)) == (["3"], [])


def test_memory_is_given_back_for_messages_that_say_they_are_the_first() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    grouped(stage.peer("p"), "g", "1", "2")
    listener.acknowledges("2")
    assert (stage.memory(), stage.store.kept(destination(QUEUE))) == (0, [])
