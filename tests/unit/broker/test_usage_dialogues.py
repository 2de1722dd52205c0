"""The broker's limits of memory and disk: who waits, who is refused, what is told, and that consumers always go on."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest

from spanwire.broker.admin.adjustments import LimitChange
from spanwire.broker.connections.connection_state import MAX_PARKED_BYTES
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.routing.parked_sends import MAX_VISIT_STEPS, MAX_VISITS, PARKED_SHARE
from spanwire.model.acks import POISON_ACK
from spanwire.model.errors import ResourceAllocationError
from tests.support.dialogue.broker_dialogue import Peer, Stage, destination

QUEUE = "queue://Q"
KIB = 1024
LIMIT = 20_000
MORE_INFO = "See http://activemq.apache.org/producer-flow-control.html for more info"


def policy(**settings: object) -> PolicyEntry:
    return PolicyEntry(destination("queue://Q"), memory_limit_bytes=LIMIT, **settings)  # type: ignore[arg-type]


def fills(producer: Peer, target: str = QUEUE) -> int:
    """Send 1,000-byte messages that are not persistent until one is parked; gives its token."""
    for number in range(200):
        token = producer.sends(target, f"{number:03}" + "x" * 1_000, persistent=False)
        if not producer.is_answered(token):
            return token
    raise AssertionError("nothing was parked")


def sends_silently(peer: Peer, target: str, text: str) -> None:
    """One message that is not persistent and wants no answer."""
    message = peer.message(target, text, persistent=False)
    peer.stage.broker.send(peer.state, message, None, NO_TOKEN, peer.stage.now)


@pytest.mark.parametrize(
    ("broker_wide", "of_policy", "fails"),
    [(True, None, True), (True, False, False), (False, True, True), (False, None, False)],
)
def test_a_send_fails_at_once_where_the_broker_or_the_policy_says_so(
    broker_wide: bool, of_policy: bool | None, fails: bool
) -> None:
    stage = Stage(policy(send_fail_if_no_space=of_policy), limits=UsageLimits(fail_if_no_space=broker_wide))
    producer, neighbour = stage.peer("p"), stage.peer("n")
    if not fails:
        fills(producer)
        return
    with pytest.raises(ResourceAllocationError) as refused:
        fills(producer)
    assert str(refused.value) == (f"Usage Manager Memory Limit reached on queue://Q. {MORE_INFO}")
    assert stage.broker.statistics().parked_sends == 0
    assert neighbour.is_answered(neighbour.sends("queue://FREE", "1", persistent=False))


def test_a_send_that_has_waited_too_long_is_refused_and_those_behind_it_go_on() -> None:
    stage = Stage(policy(send_fail_after_ms=2_000))
    producer = stage.peer("p")
    token = fills(producer)
    behind = producer.sends("queue://FREE", "1", persistent=False)
    assert not producer.is_answered(behind), "sends of a connection go on in their order"
    stage.runs()
    assert stage.broker.next_timeout() == stage.now.monotonic + 2
    stage.waits(1.9)
    assert token not in producer.answers
    stage.waits(0.1)
    with pytest.raises(ResourceAllocationError) as refused:
        producer.is_answered(token)
    assert str(refused.value) == (
        "Usage Manager Memory Limit Wait Timeout. Stopping producer (ID:p:1:1:1) to prevent flooding queue://Q. "
        + MORE_INFO
    )
    assert producer.is_answered(behind)


def test_the_broker_s_time_holds_where_the_policy_names_none_and_0_means_for_ever() -> None:
    limits = UsageLimits(fail_after_ms=1_000)
    stage = Stage(policy(), limits=limits)
    producer = stage.peer("p")
    token = fills(producer)
    stage.waits(1)
    with pytest.raises(ResourceAllocationError):
        producer.is_answered(token)
    patient = Stage(policy(send_fail_after_ms=0), limits=limits)
    producer = patient.peer("p")
    token = fills(producer)
    patient.waits(1_000)
    assert not producer.is_answered(token)


def test_a_refusal_after_the_wait_reaches_a_producer_that_asked_for_no_answer() -> None:
    stage = Stage(policy(send_fail_after_ms=1_000))
    producer = stage.peer("p")
    fills(producer)
    sends_silently(producer, QUEUE, "x" * 1_000)
    stage.waits(1)
    (report,) = producer.reports
    assert isinstance(report, ResourceAllocationError)


def test_a_bridge_of_another_broker_waits_where_clients_are_refused() -> None:
    stage = Stage(policy(send_fail_if_no_space=True))
    bridge = stage.peer("b")
    bridge.state.forwards = True
    token = fills(bridge)
    stage.waits(1_000)
    assert not bridge.is_answered(token)


def test_without_flow_control_what_does_not_fit_goes_to_the_disk_and_nobody_waits() -> None:
    stage = Stage(policy(producer_flow_control=False))
    producer = stage.peer("p")
    texts = [f"{number:03}" + "x" * 1_000 for number in range(200)]
    for text in texts:
        assert producer.is_answered(producer.sends(QUEUE, text, persistent=False))
    assert stage.memory() <= LIMIT
    assert len(stage.store.calls("add")) > 150
    listener = stage.peer("c").consumes(QUEUE, prefetch=10)
    received: list[str] = []
    while True:
        stage.settle()
        new = listener.takes()
        if not new:
            break
        received += new
        listener.acknowledges(new[-1])
    assert received == texts
    assert stage.memory() == 0
    assert stage.store.kept(destination(QUEUE)) == []


@pytest.mark.parametrize(("clean", "kept"), [(True, 9), (False, 0)])
def test_what_went_to_the_disk_for_want_of_memory_is_not_delivered_twice_after_a_crash(clean: bool, kept: int) -> None:
    first = Stage(policy(producer_flow_control=False))
    producer = first.peer("p")
    while len(first.store.calls("add")) < 9:
        producer.sends(QUEUE, "x" * 1_000, persistent=False)
    producer.sends(QUEUE, "persistent")
    first.settle()
    stage = Stage(policy(producer_flow_control=False), store=first.store.crash())
    stage.broker.recover(stage.store.recovered(), clean, stage.now)
    listener = stage.peer("c").consumes(QUEUE)
    stage.settle()
    received = listener.takes()
    assert received == ["x" * 1_000] * kept + ["persistent"]
    listener.acknowledges("persistent", count=len(received))
    assert stage.store.kept(destination(QUEUE)) == []
    assert stage.memory() == 0


def test_the_mark_of_the_policy_says_when_the_disk_is_taken() -> None:
    stage = Stage(policy(producer_flow_control=False, cursor_memory_high_water_mark=30))
    producer = stage.peer("p")
    while not stage.store.calls("add"):
        producer.sends(QUEUE, "x" * 1_000, persistent=False)
    assert LIMIT * 30 // 100 <= stage.memory() <= LIMIT * 50 // 100


def test_without_flow_control_and_store_the_broker_s_memory_is_taken_and_then_sends_wait() -> None:
    limits = UsageLimits(memory_bytes=5 * LIMIT, temporary_bytes=1_000)
    stage = Stage(policy(producer_flow_control=False), limits=limits)
    stage.store.used = 1_000
    stage.broker.room_changed(stage.now)
    producer = stage.peer("p")
    token = fills(producer)
    assert 4 * LIMIT < stage.memory() <= 5.5 * LIMIT
    assert stage.store.calls("add") == []
    assert not producer.is_answered(token)


def test_a_topic_without_flow_control_takes_the_broker_s_memory() -> None:
    topic = PolicyEntry(destination("topic://T"), memory_limit_bytes=LIMIT, producer_flow_control=False)
    stage = Stage(topic, limits=UsageLimits(memory_bytes=3 * LIMIT))
    listener = stage.peer("c").consumes("topic://T", prefetch=1)
    producer = stage.peer("p")
    token = fills(producer, "topic://T")
    assert stage.memory() > 2 * LIMIT
    while new := listener.takes():
        listener.acknowledges(new[-1])
    assert producer.is_answered(token)


def test_a_full_store_holds_persistent_sends_up_and_nobody_else() -> None:
    stage = Stage(limits=UsageLimits(store_bytes=1_000_000))
    producer, consumer = stage.peer("p"), stage.peer("c")
    listener = consumer.consumes(QUEUE)
    producer.sends(QUEUE, "1", "2")
    stage.syncs()
    stage.store.used = 1_000_000
    stage.syncs()
    token = producer.sends(QUEUE, "3")
    other = stage.peer("n")
    assert other.is_answered(other.sends("queue://MEMORY", "1", persistent=False))
    consumer.begins(1)
    listener.acknowledges("1", transaction=1)
    consumer.rolls_back(1)
    listener.acknowledges("2")
    assert stage.store.kept(destination(QUEUE)) == []
    stage.store.used = 999_999
    stage.waits(1)
    stage.syncs()
    assert producer.is_answered(token)
    assert listener.takes() == ["1", "2", "3"]


def test_the_mark_of_a_policy_holds_its_sends_up_before_the_store_is_full() -> None:
    stage = Stage(policy(store_usage_high_water_mark=80), limits=UsageLimits(store_bytes=1_000_000))
    stage.store.used = 800_000
    stage.broker.room_changed(stage.now)
    producer, neighbour = stage.peer("p"), stage.peer("n")
    held = producer.sends(QUEUE, "1")
    free = neighbour.sends("queue://OTHER", "1")
    stage.store.used = 799_999
    stage.syncs()
    assert neighbour.is_answered(free)
    stage.syncs()
    assert producer.is_answered(held)


def test_a_full_store_is_named_in_the_refusal() -> None:
    stage = Stage(limits=UsageLimits(store_bytes=1_000_000, fail_if_no_space=True))
    stage.store.used = 2_000_000
    stage.broker.room_changed(stage.now)
    with pytest.raises(ResourceAllocationError) as refused:
        stage.peer("p").sends(QUEUE, "1")
    assert str(refused.value) == (
        "Persistent store is Full, 100% of 1000000. Stopping producer (ID:p:1:1:1) to prevent flooding queue://Q. "
        + MORE_INFO
    )


def test_a_full_disk_holds_persistent_sends_up_until_the_store_says_that_it_has_room() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    producer = stage.peer("p")
    producer.sends(QUEUE, "1")
    stage.store.room = False
    stage.broker.room_changed(stage.now)
    token = producer.sends(QUEUE, "2")
    listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    assert not producer.is_answered(token)
    stage.store.room = True
    stage.broker.room_changed(stage.now)
    stage.settle()
    assert stage.view("queue://ActiveMQ.DLQ").pending == 1, "a dead letter is never lost for want of room"
    assert producer.is_answered(token)
    assert listener.takes() == ["1", "2"]


def test_a_disk_that_has_room_again_is_noticed_without_being_told() -> None:
    stage = Stage()
    stage.store.room = False
    stage.broker.room_changed(stage.now)
    producer = stage.peer("p")
    token = producer.sends(QUEUE, "1")
    stage.runs()
    stage.store.room = True
    assert stage.broker.next_timeout() == stage.now.monotonic + 1
    stage.waits(1)
    stage.syncs()
    assert producer.is_answered(token)


def test_a_transaction_is_refused_when_the_store_is_full_at_its_send_or_at_its_commit() -> None:
    stage = Stage()
    peer = stage.peer("p")
    peer.begins(1)
    peer.sends(QUEUE, "1", transaction=1)
    peer.sends("queue://MEMORY", "1", transaction=1, persistent=False)
    stage.store.room = False
    stage.broker.room_changed(stage.now)
    with pytest.raises(ResourceAllocationError, match="the disk has no room"):
        peer.commits(1)
    peer.begins(2)
    with pytest.raises(ResourceAllocationError, match="the disk has no room"):
        peer.sends(QUEUE, "2", transaction=2)
    peer.rolls_back(2)
    peer.begins(3)
    peer.sends("queue://MEMORY", "3", transaction=3, persistent=False)
    peer.commits(3)
    assert stage.view("queue://MEMORY").pending == 1
    assert stage.store.calls("add") == []


def test_what_a_transaction_holds_counts_in_its_queue_until_it_ends() -> None:
    stage = Stage(policy())
    peer = stage.peer("p")
    peer.begins(1)
    with pytest.raises(ResourceAllocationError, match="Usage Manager Memory Limit reached on queue://Q"):
        for _ in range(40):
            peer.sends(QUEUE, "x" * 1_000, transaction=1, persistent=False)
    assert LIMIT <= stage.view(QUEUE).memory_bytes <= LIMIT * 1.1
    peer.sends("queue://OTHER", "1", transaction=1, persistent=False)
    peer.rolls_back(1)
    assert stage.memory() == 0


def test_an_acknowledgement_in_a_transaction_is_committed_though_the_store_is_full() -> None:
    stage = Stage()
    peer = stage.peer("p")
    listener = peer.consumes(QUEUE)
    peer.sends(QUEUE, "1")
    stage.store.room = False
    stage.broker.room_changed(stage.now)
    peer.begins(1)
    listener.acknowledges("1", transaction=1)
    token = peer.commits(1)
    stage.syncs()
    assert peer.is_answered(token)


def test_one_line_per_interval_tells_who_waits_for_what(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    stage = Stage(policy(blocked_producer_warning_interval_ms=10_000))
    producer, other = stage.peer("p"), stage.peer("o")
    fills(producer)
    other.sends(QUEUE, "x" * 1_000, persistent=False)
    (line,) = caplog.messages
    assert line == (
        "producer flow control: sends to queue://Q wait: memoryLimit of 20000 bytes is reached; waiting sends of "
        "connection ID:p:1 from tcp://p:1: 1; connections with waiting sends: 1; consume messages or make room"
    )
    stage.waits(9.9)
    assert len(caplog.messages) == 1
    stage.waits(0.1)
    assert len(caplog.messages) == 2
    assert caplog.messages[1].endswith("tcp://p:1: 1; connections with waiting sends: 2; consume messages or make room")


def test_sends_of_a_connection_and_waiting_connections_are_counted_apart(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    stage = Stage(policy(blocked_producer_warning_interval_ms=10_000))
    producer = stage.peer("p")
    fills(producer)
    for _ in range(3):
        producer.sends(QUEUE, "x" * 1_000, persistent=False)
    stage.waits(10)
    assert "tcp://p:1: 4; connections with waiting sends: 1;" in caplog.messages[-1]


def test_room_that_is_there_again_is_not_told_as_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    stage = Stage()
    stage.store.room = False
    stage.broker.room_changed(stage.now)
    producer = stage.peer("p")
    token = producer.sends(QUEUE, "1")
    stage.environment.advance(60)
    stage.store.room = True
    stage.runs()
    stage.syncs()
    assert producer.is_answered(token)
    (line,) = caplog.messages
    assert "wait: the disk of the store has no room; waiting sends" in line


@pytest.mark.parametrize("interval", [0, -1])
def test_an_interval_of_nothing_keeps_the_log_silent(interval: int, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(policy(blocked_producer_warning_interval_ms=interval))
    fills(stage.peer("p"))
    stage.waits(1_000)
    assert caplog.messages == []


def test_all_waiting_sends_together_take_a_share_of_memory_and_no_more() -> None:
    memory = 200 * 1024 * KIB
    stage = Stage(policy(), limits=UsageLimits(memory_bytes=memory))
    fills(stage.peer("p"))
    producers = [stage.peer(f"p{number}") for number in range(24)]
    for peer in producers:
        for _ in range(20):
            if not peer.state.reading_paused:
                peer.sends(QUEUE, "x" * 100_000, persistent=False)
    total = sum(peer.state.parked_bytes for peer in producers)
    assert total <= memory * PARKED_SHARE // 100 + len(producers) * 101_000
    assert all(peer.state.reading_paused for peer in producers)
    assert min(peer.state.parked_bytes for peer in producers) < MAX_PARKED_BYTES // 4, "the last ones found it full"
    reader = stage.peer("r")
    reader.consumes("queue://OTHER")
    with pytest.raises(ResourceAllocationError, match="0 sends of this connection wait already"):
        reader.sends(QUEUE, "x", persistent=False)
    listener = stage.peer("c").consumes(QUEUE, prefetch=1)
    while new := listener.takes():
        listener.acknowledges(new[-1])
        while stage.broker.next_timeout() == 0.0:
            stage.runs()
    assert not any(peer.state.reading_paused for peer in producers)
    assert stage.memory() == 0


def test_the_share_of_waiting_sends_follows_a_memory_limit_that_an_operator_sets() -> None:
    stage = Stage(policy(), limits=UsageLimits(memory_bytes=200 * 1024 * KIB))
    stage.broker.assembly.adjustments.change_limits(LimitChange(memory_bytes=20 * 1024 * KIB), stage.now)
    fills(stage.peer("p"))
    producers = [stage.peer(f"p{number}") for number in range(24)]
    for peer in producers:
        for _ in range(20):
            if not peer.state.reading_paused:
                peer.sends(QUEUE, "x" * 100_000, persistent=False)
    total = sum(peer.state.parked_bytes for peer in producers)
    assert total <= MAX_PARKED_BYTES + len(producers) * 101_000
    assert all(peer.state.reading_paused for peer in producers)


def test_many_connections_that_wait_are_looked_at_in_turns() -> None:
    stage = Stage(policy())
    fills(stage.peer("p"))
    waiting = [stage.peer(f"w{number}") for number in range(3 * MAX_VISITS)]
    tokens = [peer.sends(QUEUE, "x", persistent=False) for peer in waiting]
    stage.peer("o").removes(QUEUE)
    assert stage.broker.next_timeout() == 0.0
    for _ in range(5):
        stage.runs()
    answered = [peer.is_answered(token) for peer, token in zip(waiting, tokens, strict=True)]
    assert any(answered)
    assert LIMIT * 90 // 100 <= stage.memory() < LIMIT * 95 // 100, "all that fit below the mark went on"
    assert stage.broker.next_timeout() != 0.0


def test_many_sends_of_one_connection_that_waited_go_on_in_turns_and_in_order() -> None:
    stage = Stage()
    stage.has_room(False)
    waiting = stage.peer("w")
    texts = [str(number) for number in range(2 * MAX_VISIT_STEPS)]
    tokens = [waiting.sends(QUEUE, text) for text in texts]
    steps = [stage.broker.steps]
    stage.has_room(True)
    steps.append(stage.broker.steps)
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        steps.append(stage.broker.steps)
    assert max(later - earlier for earlier, later in pairwise(steps)) <= MAX_VISIT_STEPS + 1
    stage.settle()
    assert all(waiting.is_answered(token) for token in tokens)
    listener = stage.peer("c").consumes(QUEUE, prefetch=len(texts))
    stage.settle()
    listener.peer.flushes()
    stage.settle()
    assert listener.out == texts


def test_a_message_larger_than_memory_is_refused_and_one_larger_than_its_queue_s_share_waits_for_its_turn() -> None:
    stage = Stage(policy(), limits=UsageLimits(memory_bytes=100_000))
    producer = stage.peer("p")
    with pytest.raises(ResourceAllocationError, match="is larger than memoryUsage"):
        producer.sends("queue://OTHER", "x" * 120_000, persistent=False)
    token = producer.sends("queue://OTHER", "x" * 120_000)
    stage.syncs()
    assert producer.is_answered(token)
    producer.removes("queue://OTHER")
    listener = stage.peer("c").consumes(QUEUE)
    producer.sends(QUEUE, "small", persistent=False)
    token = producer.sends(QUEUE, "x" * 50_000, persistent=False)
    assert not producer.is_answered(token)
    listener.acknowledges("small")
    assert producer.is_answered(token)


def test_what_a_slow_client_has_not_read_counts_until_it_reads_or_leaves() -> None:
    stage = Stage(limits=UsageLimits(memory_bytes=1_000_000))
    slow, slower, producer = stage.peer("s"), stage.peer("t"), stage.peer("p")
    slow.flushes(unsent=400_000)
    slower.flushes(unsent=700_000)
    assert stage.memory() == 1_100_000
    token = producer.sends(QUEUE, "1", persistent=False)
    assert not producer.is_answered(token)
    slow.flushes(unsent=100_000)
    assert producer.is_answered(token)
    slower.leaves()
    slower.flushes(unsent=600_000)
    stage.peer("c").consumes(QUEUE).acknowledges("1")
    assert stage.memory() == 100_000
    slow.flushes()
    assert stage.memory() == 0
