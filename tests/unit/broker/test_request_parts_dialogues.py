"""Requests with many parts, each of which looks at all topics, wildcards or durable subscriptions."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.destinations.durable_subscriptions import MAX_DURABLE_PATTERNS
from spanwire.broker.destinations.pattern_index import COMPARED_PER_STEP, MAX_COMPARED, PatternIndex
from spanwire.broker.destinations.wildcard_matching import JOIN_STEPS
from spanwire.broker.dispatch.virtual_route import awaited
from spanwire.broker.policy.fan_out import CHARACTERS_PER_STEP, MAX_FAN_OUT, MAX_WILD_FAN_OUT, selector_steps
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import FIXED_COUNT, RecoveryPolicy, TopicPolicy
from spanwire.broker.ports import Principal
from spanwire.broker.topic.policy_topic import RECOVERY_STEPS
from spanwire.model.destination import MAX_COMPOSITE_PARTS, QUEUE, TOPIC, Destination, parse_destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.info import ConnectionInfo
from tests.support.dialogue.broker_dialogue import Listener, Stage

TOO_MANY: Final = f"{MAX_COMPARED} times are the most: name fewer of them at once"
PER_PART: Final = MAX_COMPARED // MAX_COMPOSITE_PARTS  # comparisons of each part, so that all parts may be compared
HEAVY: Final = "a = 1 OR b = '" + "x" * (120 * CHARACTERS_PER_STEP - 15) + "'"


def parts(pattern: str, count: int = MAX_COMPOSITE_PARTS, first: int = 0) -> str:
    """A composite of numbered parts, short enough for a name: only the first part has a scheme."""
    kind, _, name = pattern.partition("://")
    return f"{kind}://" + ",".join(name.format(number) for number in range(first, first + count))


def wildcards(stage: Stage, pattern: str, count: int) -> None:
    """Consumers with so many wildcards together; ``pattern`` has a place for the number."""
    peer = stage.peer(f"{count} of {pattern}")
    for first in range(0, count, MAX_COMPOSITE_PARTS):
        peer.consumes(parts(pattern, min(count - first, MAX_COMPOSITE_PARTS), first))


def runs(stage: Stage) -> None:
    while stage.broker.next_timeout() == 0.0:
        stage.runs()


def topics(stage: Stage, count: int) -> None:
    for number in range(count):
        stage.broker.configure_destination(parse_destination(f"topic://D.{number}"))


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_so_many_new_destinations_are_compared_with_wildcards_at_once_and_more_are_refused(kind: str) -> None:
    stage = Stage()
    wildcards(stage, kind + "://*.{}", PER_PART)
    wildcards(stage, kind + "://OTHER.*.{}", 1_000)  # compared with none of these
    maker = stage.peer("m")
    before = stage.broker.steps
    maker.creates(parts(kind + "://A.x{}"))
    assert (
        MAX_COMPARED // COMPARED_PER_STEP - 64 <= stage.broker.steps - before <= MAX_COMPARED // COMPARED_PER_STEP + 64
    )
    wildcards(stage, kind + "://*.more.{}", 1)
    for asks in (maker.creates, maker.consumes, lambda name: maker.sends(name, "x")):
        with pytest.raises(ResourceAllocationError, match=TOO_MANY):
            asks(parts(kind + "://B.x{}"))
    assert not stage.has(kind + "://B.x0")
    maker.creates(parts(kind + "://B.x{}", MAX_COMPOSITE_PARTS - 1))
    maker.consumes(parts(kind + "://B.x{}"))


@pytest.mark.large
def test_a_consumer_of_new_topics_counts_steps_for_the_wildcards_it_is_compared_with() -> None:
    stage = Stage()
    heavy = 1 + selector_steps(HEAVY)
    for name in "ABC":
        peer = stage.peer(name)
        for _ in range(MAX_WILD_FAN_OUT // heavy):
            peer.consumes(parts("topic://" + name + ".*.{}"), selector=HEAVY)
    late = stage.peer("late")
    before = stage.broker.steps
    late.consumes("topic://A.1")
    once = MAX_WILD_FAN_OUT // heavy * MAX_COMPOSITE_PARTS // COMPARED_PER_STEP
    assert 2 * once <= stage.broker.steps - before <= 2 * once + 2
    with pytest.raises(ResourceAllocationError, match=TOO_MANY):
        late.consumes("topic://A." + ",A.".join("23456789"))
    late.consumes("topic://OTHER." + ",OTHER.".join("23456789"))
    assert MAX_FAN_OUT < 3 * heavy * (MAX_WILD_FAN_OUT // heavy)


def test_a_message_to_so_many_wildcards_looks_at_all_destinations_and_to_more_is_refused() -> None:
    stage = Stage()
    topics(stage, PER_PART)
    producer = stage.peer("p")
    before = stage.broker.steps
    producer.sends(parts("topic://*.{}"), "1")
    assert stage.broker.steps - before >= MAX_COMPARED // COMPARED_PER_STEP - MAX_COMPOSITE_PARTS
    assert stage.view("topic://D.63").enqueued == 1
    stage.broker.configure_destination(parse_destination("topic://D.more"))
    with pytest.raises(ResourceAllocationError, match=TOO_MANY):
        producer.sends(parts("topic://*.{}"), "2")
    assert stage.view("topic://D.0").enqueued == 1
    producer.sends(parts("topic://*.{}", MAX_COMPOSITE_PARTS - 1), "3")


class Users:
    """One user, in the groups of now; duck-typed to `Authenticator`."""

    def __init__(self) -> None:
        self.groups = ["a"]

    def authenticate(self, info: ConnectionInfo) -> Principal:
        return Principal("alice", frozenset(self.groups))


def test_a_durable_subscription_has_so_many_wildcards_as_all_topics_may_be_compared_with() -> None:
    users = Users()
    stage = Stage(authenticator=users)
    topics(stage, PER_PART)
    peer = stage.peer("a", client_id="a")
    before = stage.broker.steps
    peer.consumes(parts("topic://*.{}"), durable="s").peer.leaves()
    assert stage.broker.steps - before >= MAX_COMPARED // COMPARED_PER_STEP
    stage.broker.configure_destination(parse_destination("topic://D.more"))
    peer = stage.peer("b", client_id="a")
    with pytest.raises(ResourceAllocationError, match=TOO_MANY):
        peer.consumes(parts("topic://*.{}"), durable="t")
    peer.consumes(parts("topic://*.{}"), durable="s").peer.leaves()
    users.groups.append("b")
    changed = stage.peer("c", client_id="a")
    with pytest.raises(ResourceAllocationError, match=TOO_MANY):
        changed.consumes(parts("topic://*.{}"), durable="s")
    assert len(stage.broker.durable_subscriptions()) == 1
    changed.consumes(parts("topic://D.{}"), durable="names").leaves()
    stage.peer("p").sends("topic://D.1", "1")
    assert [durable.queue.waiting() for durable in stage.broker.durable_subscriptions()] == [1, 1]


@pytest.mark.large
def test_there_is_a_limit_to_the_wildcards_of_durable_subscriptions_with_several() -> None:
    stage = Stage()
    peer = stage.peer("a", client_id="a")
    for number in range(MAX_DURABLE_PATTERNS // MAX_COMPOSITE_PARTS):
        peer.consumes(parts("topic://*.{}"), durable=str(number)).leaves()
    late = stage.peer("late", client_id="late")
    with pytest.raises(ResourceAllocationError, match=f"maximum of {MAX_DURABLE_PATTERNS} wildcards of durable"):
        late.consumes(parts("topic://*.{}"), durable="s")
    late.consumes("topic://*.1", durable="s").leaves()
    peer.consumes(parts("topic://*.x{}"), durable="0").leaves()  # in place of the one before
    before = stage.broker.steps
    late.creates("topic://T")
    assert stage.broker.steps - before <= 2 + MAX_DURABLE_PATTERNS // COMPARED_PER_STEP
    peer.unsubscribes("1")
    late.consumes(parts("topic://*.{}", 63), durable="s")


def test_a_consumer_of_many_wildcards_is_attached_in_slices_that_its_wildcards_share() -> None:
    stage = Stage()
    topics(stage, 2 * JOIN_STEPS)
    before = stage.broker.steps
    listener = stage.peer("c").consumes("topic://D.>," + ",".join(f"*.x{number}" for number in range(63)))
    assert stage.broker.steps - before <= JOIN_STEPS + 5
    assert len(listener.subscription.destinations) == JOIN_STEPS
    last = f"topic://D.{2 * JOIN_STEPS - 1}"
    stage.peer("p").sends(last, "at once")
    assert listener.out == ["at once"]
    runs(stage)
    assert len(listener.subscription.destinations) == 2 * JOIN_STEPS
    stage.peer("q").sends(last, "once")
    assert listener.out == ["at once", "once"]


def listeners(stage: Stage, destination: str, count: int) -> list[Listener]:
    peers = [stage.peer(f"c{number}") for number in range(1 + count // 1_000)]
    return [peers[number // 1_000].consumes(destination) for number in range(count)]


def received(listener: Listener) -> int:
    return len(listener.out) + len(listener.subscription.pending)


def test_new_destinations_of_one_request_are_offered_to_consumers_in_slices_that_they_share() -> None:
    stage = Stage()
    waiting = listeners(stage, "queue://W.>", JOIN_STEPS)
    before = stage.broker.steps
    stage.peer("m").sends(parts("queue://W.{}", 8), "1", persistent=False)
    assert stage.broker.steps - before <= 2 * JOIN_STEPS
    runs(stage)
    assert sum(len(listener.out) for listener in waiting) == 8
    assert {len(listener.subscription.destinations) for listener in waiting} == {8}


def test_consumers_that_are_still_being_attached_count_for_a_message_to_several_topics() -> None:
    count = 2 * JOIN_STEPS
    fitting = MAX_FAN_OUT // count
    stage = Stage()
    waiting = listeners(stage, "topic://W.*", count)
    producer = stage.peer("p")
    producer.sends(parts("topic://W.{}", fitting), "1")
    assert {received(listener) for listener in waiting} == {fitting}
    with pytest.raises(ResourceAllocationError, match="send to fewer destinations"):
        producer.sends(parts("topic://W.x{}", fitting + 1), "2")
    assert {received(listener) for listener in waiting} == {fitting}
    producer.sends("topic://W.x0", "3")
    assert {received(listener) for listener in waiting} == {fitting + 1}
    runs(stage)
    assert {len(listener.subscription.destinations) for listener in waiting} == {2 * fitting + 1}


def test_what_several_topics_keep_for_one_consumer_comes_in_slices_that_they_share() -> None:
    tuning = TopicPolicy(recovery=RecoveryPolicy(FIXED_COUNT, 10_000))
    stage = Stage(PolicyEntry(Destination(TOPIC, ">"), topic=tuning))
    producer = stage.peer("p")
    for number in range(RECOVERY_STEPS):
        producer.sends("topic://A,topic://B,topic://C", str(number), persistent=False)
    late = stage.peer("late").consumes("topic://A,topic://B,topic://C", retroactive=True, prefetch=10_000)
    assert len(late.out) == RECOVERY_STEPS
    late.peer.flushes()
    producer.sends("topic://C", "new", persistent=False)
    runs(stage)
    late.peer.flushes()
    assert len(late.out) == 3 * RECOVERY_STEPS + 1
    assert late.out[-1] == "new"


def test_what_many_topics_keep_for_consumers_of_wildcards_leaves_no_job_for_each_topic() -> None:
    """Each turn does four jobs of all: with a job for each topic, other long work would wait for all of them."""
    tuning = TopicPolicy(recovery=RecoveryPolicy(FIXED_COUNT, 10))
    stage = Stage(PolicyEntry(Destination(TOPIC, ">"), topic=tuning))
    producer = stage.peer("p")
    for number in range(JOIN_STEPS):
        producer.sends(f"topic://A.{number}", "1", "2", "3", "4", persistent=False)
    late = [stage.peer(f"c {number}").consumes("topic://A.>", retroactive=True, prefetch=3_000) for number in range(8)]
    most = 0
    while stage.broker.next_timeout() == 0.0:
        before = [len(listener.out) for listener in late]
        stage.runs()
        assert sum(len(listener.out) for listener in late) - sum(before) <= RECOVERY_STEPS + 4 * 10
        most = max(most, stage.broker._context.job_count())
        for listener in late:
            listener.peer.flushes()
    assert most <= 4 * len(late)
    assert [len(listener.out) for listener in late] == [4 * JOIN_STEPS] * len(late)
    assert {listener.subscription.joins for listener in late} == {0}


def test_a_consumer_that_pulls_at_once_waits_for_destinations_that_are_still_to_be_attached() -> None:
    stage = Stage()
    for number in range(JOIN_STEPS):
        stage.broker.configure_destination(parse_destination(f"queue://D.{number}"))
    stage.peer("p").sends("queue://E.1", "1")
    stage.syncs()
    late = stage.peer("c").consumes("queue://D.>,queue://E.>", prefetch=0)
    late.pulls(-1)
    assert (late.out, late.ends) == ([], 0)
    runs(stage)
    assert late.out == ["1"]
    late.acknowledges("1")
    late.pulls(-1)
    assert late.ends == 1


@pytest.mark.parametrize("destination", ["queue://Q", "queue://>", "queue://Q,queue://R"])
@pytest.mark.parametrize("late", [False, True])
def test_a_consumer_that_pulls_at_once_waits_for_messages_that_go_back(destination: str, late: bool) -> None:
    stage = Stage()
    before = stage.peer("b").consumes("queue://Q", prefetch=3_000)
    stage.peer("p").sends("queue://Q", *[str(number) for number in range(2_000)], persistent=False)
    before.peer.flushes()
    assert len(before.out) == 2_000
    peer = stage.peer("c")
    if late:
        before.leaves()
    puller = peer.consumes(destination, prefetch=0)
    if not late:
        before.leaves()
    puller.pulls(-1)
    assert (puller.out, puller.ends) == ([], 0)
    runs(stage)
    assert puller.out == ["0"]


def test_a_consumer_that_pulls_at_once_waits_for_kept_messages_that_are_still_to_come() -> None:
    tuning = TopicPolicy(recovery=RecoveryPolicy(FIXED_COUNT, 10_000))
    stage = Stage(PolicyEntry(Destination(TOPIC, ">"), topic=tuning))
    producer = stage.peer("p")
    for _ in range(RECOVERY_STEPS):
        producer.sends("topic://A", "other", properties={"n": 0}, persistent=False)
    producer.sends("topic://B", "1", properties={"n": 1}, persistent=False)
    late = stage.peer("late").consumes("topic://A,topic://B", retroactive=True, prefetch=0, selector="n = 1")
    late.pulls(-1)
    assert (late.out, late.ends) == ([], 0)
    runs(stage)
    assert late.out == ["1"]
    late.acknowledges("1")
    late.pulls(-1)
    assert late.ends == 1


NAMES: Final = st.lists(st.sampled_from(["a", "b", "*", ">"]), min_size=1, max_size=10).map(".".join)


@given(patterns=st.lists(st.tuples(st.integers(0, 4), NAMES), max_size=30), name=NAMES, gone=st.integers(0, 30))
def test_an_index_finds_all_that_match_whatever_they_begin_with(
    patterns: list[tuple[int, str]], name: str, gone: int
) -> None:
    index = PatternIndex()
    made = [(number, Destination(TOPIC, text)) for number, text in patterns]
    for number, pattern in made:
        index.add(number, pattern)
    for number, pattern in made[:gone]:
        index.remove(number, pattern)
    left = made[gone:]
    wanted = Destination(TOPIC, name)
    assert index.find(wanted) == sorted({number for number, pattern in left if pattern.matches(wanted)})
    assert index.compared(wanted) <= len(left)
    assert index.find(Destination(QUEUE, name)) == []


@given(
    patterns=st.lists(st.lists(st.sampled_from(["A", "B", "*"]), min_size=1, max_size=4), max_size=8),
    further=st.booleans(),
    wanted=st.lists(st.sampled_from(["A", "B", "*"]), min_size=1, max_size=4),
    gone=st.integers(0, 8),
)
def test_an_index_finds_each_pattern_once_that_means_a_queue_under_another(
    patterns: list[list[str]], further: bool, wanted: list[str], gone: int
) -> None:
    index = PatternIndex()
    texts = [".".join([*elements, ">"] if further else elements) for elements in patterns]
    for number, text in enumerate(texts):
        index.add(number % 3, Destination(QUEUE, text))
    for number, text in enumerate(texts[:gone]):
        index.remove(number % 3, Destination(QUEUE, text))
    listening = Destination(QUEUE, ".".join(wanted))
    found = index.overlapping(listening)
    names = [shared.pattern.name for shared in found]
    assert len(names) == len(set(names))
    fitting = {text for text in texts[gone:] if awaited(listening, Destination(QUEUE, text)) is not None}
    assert fitting <= set(names) <= set(texts[gone:])
    owners = {shared.pattern.name: sorted(shared.owners) for shared in found}
    for text in fitting:
        numbers = {number % 3 for number in range(gone, len(texts)) if texts[number] == text}
        assert owners[text] == sorted(numbers)
    assert index.overlapping(Destination(TOPIC, listening.name)) == []
