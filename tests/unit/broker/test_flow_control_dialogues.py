"""Producer flow control: a send waits, the connection goes on (architecture: flow control parks the send)."""

from __future__ import annotations

import pytest

from spanwire.broker.connections.connection_state import MAX_PARKED_BYTES
from spanwire.broker.persistence.unsynced_bytes import MAX_UNSYNCED_BYTES
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.errors import AuthorizationError, ResourceAllocationError, XaError
from spanwire.model.ids import AnyTransactionId, XaTransactionId
from tests.support.control_dialogue import Program
from tests.support.dialogue.broker_dialogue import Peer, Stage, destination
from tests.support.recording_authorizer import RecordingAuthorizer

QUEUE = "queue://Q"
LIMIT = 20_000


def limited() -> Stage:
    """A broker whose queues and topics hold 20,000 bytes each."""
    return Stage(
        PolicyEntry(destination("queue://>"), memory_limit_bytes=LIMIT),
        PolicyEntry(destination("topic://>"), memory_limit_bytes=LIMIT),
    )


def fills(producer: Peer, target: str = QUEUE) -> list[int]:
    """Send 5,000-byte messages until one is parked; gives the tokens."""
    tokens = []
    for number in range(20):
        token = producer.sends(target, f"{number:02}" + "x" * 5_000, persistent=False)
        tokens.append(token)
        if not producer.is_answered(token):
            return tokens
    raise AssertionError("nothing was parked")


def test_a_send_over_the_limit_waits_and_goes_on_when_there_is_room() -> None:
    stage = limited()
    producer = stage.peer("p")
    tokens = fills(producer)
    assert stage.view(QUEUE).memory_bytes <= LIMIT * 1.4
    listener = stage.peer("c").consumes(QUEUE, prefetch=1)
    (first,) = listener.takes()
    assert not producer.is_answered(tokens[-1])
    listener.acknowledges(first)
    assert producer.is_answered(tokens[-1])
    assert stage.view(QUEUE).enqueued == len(tokens)


def test_waiting_sends_resume_below_the_limit_and_in_order() -> None:
    stage = limited()
    producer = stage.peer("p")
    tokens = fills(producer)
    rest = [producer.sends(QUEUE, f"{number:02}" + "x" * 5_000, persistent=False) for number in range(90, 96)]
    small = producer.sends(QUEUE, "small", persistent=False)
    listener = stage.peer("c").consumes(QUEUE, prefetch=1)
    received: list[str] = []
    while new := listener.takes():
        received += [text[:2] for text in new]
        listener.acknowledges(new[-1])
    assert received == [f"{number:02}" for number in range(len(tokens))] + ["90", "91", "92", "93", "94", "95", "sm"]
    assert all(producer.is_answered(token) for token in [*tokens, *rest, small])
    assert stage.memory() == 0


def test_sending_resumes_with_hysteresis() -> None:
    stage = limited()
    producer = stage.peer("p")
    texts = ["x" * 1_000 + str(number) for number in range(30)]
    tokens = [producer.sends(QUEUE, text, persistent=False) for text in texts]
    parked = [token for token in tokens if not producer.is_answered(token)]
    listener = stage.peer("c").consumes(QUEUE, prefetch=1)
    listener.acknowledges(texts[0])
    assert not producer.is_answered(parked[0]), "one message below the limit is not room yet"
    listener.acknowledges(texts[1])
    listener.acknowledges(texts[2])
    assert producer.is_answered(parked[0])


def test_everything_else_of_the_connection_is_still_processed() -> None:
    stage = limited()
    peer = stage.peer("p")
    stage.peer("o").sends("queue://IN", "1", "2", persistent=False)
    listener = peer.consumes("queue://IN", prefetch=1)
    tokens = fills(peer)
    listener.acknowledges("1")
    assert listener.takes() == ["1", "2"]
    peer.begins(1)
    peer.rolls_back(1)
    other = peer.consumes("queue://OTHER")
    other.leaves()
    assert not peer.is_answered(tokens[-1])
    assert not peer.state.reading_paused


def test_a_connection_that_fills_its_own_queue_drains_it() -> None:
    stage = limited()
    peer = stage.peer("p")
    listener = peer.consumes(QUEUE, prefetch=1)
    tokens = fills(peer)
    received = 0
    while new := listener.takes():
        received += len(new)
        listener.acknowledges(new[-1])
    assert received == len(tokens)
    assert peer.is_answered(tokens[-1])


def test_neighbours_and_persistent_messages_do_not_wait() -> None:
    stage = limited()
    fills(stage.peer("p"))
    neighbour = stage.peer("n")
    assert neighbour.is_answered(neighbour.sends("queue://FREE", "1", persistent=False))
    token = neighbour.sends(QUEUE, "persistent")
    stage.syncs()
    assert neighbour.is_answered(token)
    assert stage.view(QUEUE).pending > 0


def test_a_full_topic_parks_and_a_topic_nobody_listens_to_does_not() -> None:
    stage = limited()
    slow = stage.peer("c").consumes("topic://T", prefetch=1)
    producer = stage.peer("p")
    tokens = fills(producer, "topic://T")
    free = stage.peer("f")
    assert free.is_answered(free.sends("topic://NOBODY", "x"))
    slow.peer.leaves()
    assert producer.is_answered(tokens[-1])
    assert stage.memory() == 0


def test_reading_stops_when_much_waits_and_nothing_that_frees_space_can_come() -> None:
    stage = limited()
    producer = stage.peer("p")
    fills(producer)
    big = "x" * 300_000
    for _ in range(4):
        assert not producer.state.reading_paused
        producer.sends(QUEUE, big, persistent=False)
    assert producer.state.parked_bytes >= MAX_PARKED_BYTES
    assert producer.state.reading_paused
    listener = stage.peer("c").consumes(QUEUE)
    while new := listener.takes():
        listener.acknowledges(new[-1])
    assert not producer.state.reading_paused
    assert stage.memory() == 0


def test_a_listener_to_advisories_alone_does_not_keep_the_connection_reading() -> None:
    stage = limited()
    producer = stage.peer("p")
    producer.consumes("topic://ActiveMQ.Advisory.TempQueue,topic://ActiveMQ.Advisory.TempTopic")
    assert producer.state.may_pause_reading()
    listener = producer.consumes("queue://OTHER")
    assert not producer.state.may_pause_reading()
    listener.leaves()
    producer.begins(1)
    assert not producer.state.may_pause_reading()


@pytest.mark.parametrize("with_transaction", [False, True])
def test_a_connection_that_must_go_on_reading_is_refused_instead(with_transaction: bool) -> None:
    stage = limited()
    producer = stage.peer("p")
    if with_transaction:
        producer.begins(1)
    else:
        producer.consumes("queue://OTHER")
    fills(producer)
    with pytest.raises(ResourceAllocationError, match="Usage Manager Memory Limit reached on queue://Q"):
        for _ in range(5):
            producer.sends(QUEUE, "x" * 300_000, persistent=False)
    assert not producer.state.reading_paused
    assert producer.state.parked_bytes < MAX_PARKED_BYTES + 400_000


def test_a_connection_that_goes_takes_its_waiting_sends_along() -> None:
    stage = limited()
    producer = stage.peer("p")
    count = len(fills(producer))
    producer.leaves()
    listener = stage.peer("c").consumes(QUEUE)
    assert len(listener.takes()) == count - 1
    assert stage.broker.statistics().parked_sends == 0


def test_a_waiting_send_to_what_was_removed_meanwhile_is_refused() -> None:
    stage = Stage(PolicyEntry(destination("temp-queue://>"), memory_limit_bytes=LIMIT))
    owner, producer = stage.peer("o"), stage.peer("p")
    name = owner.temporary()
    tokens = fills(producer, name)
    owner.removes(name)
    stage.runs()
    assert tokens[-1] in producer.answers
    assert str(producer.answers[tokens[-1]]) == name


def test_rights_are_asked_again_when_a_waiting_send_goes_on() -> None:
    authorizer = RecordingAuthorizer()
    stage = Stage(PolicyEntry(destination("queue://>"), memory_limit_bytes=LIMIT), authorizer=authorizer)
    producer = stage.peer("p", user="u")
    tokens = fills(producer)
    authorizer.refused.add(("u", "write", QUEUE))
    listener = stage.peer("c").consumes(QUEUE)
    listener.acknowledges(listener.takes()[-1])
    with pytest.raises(AuthorizationError):
        producer.is_answered(tokens[-1])


def test_removing_a_full_queue_lets_others_go_on() -> None:
    stage = Stage(memory_limit_bytes=LIMIT)
    filler, waiter = stage.peer("f"), stage.peer("w")
    while stage.memory() < LIMIT:
        filler.sends(QUEUE, "x" * 1_000, persistent=False)
    token = waiter.sends("queue://OTHER", "1", persistent=False)
    assert not waiter.is_answered(token)
    filler.removes(QUEUE)
    assert waiter.is_answered(token)


def test_too_much_on_its_way_to_the_disk_makes_persistent_sends_wait() -> None:
    stage = Stage()
    producer = stage.peer("p")
    size = 8 * 1024 * 1024
    tokens = [producer.sends(QUEUE, "x" * size) for _ in range(MAX_UNSYNCED_BYTES // size + 2)]
    assert stage.broker.statistics().parked_sends > 0
    stage.syncs()
    assert stage.broker.statistics().parked_sends == 0
    stage.syncs()
    assert all(producer.is_answered(token) for token in tokens)


def test_persistent_sends_that_waited_for_the_disk_do_not_wait_for_memory() -> None:
    stage = Stage(memory_limit_bytes=100_000)
    filler, producer = stage.peer("f"), stage.peer("p")
    while stage.memory() < 100_000:
        filler.sends("queue://FULL", "x" * 5_000, persistent=False)
    size = 8 * 1024 * 1024
    tokens = [producer.sends(QUEUE, "x" * size) for _ in range(MAX_UNSYNCED_BYTES // size + 2)]
    assert stage.broker.statistics().parked_sends > 0
    for _ in tokens:  # one at a time, since little of a small memoryUsage may be on its way to the disk
        stage.syncs()
    assert all(producer.is_answered(token) for token in tokens)


def test_a_waiting_send_to_a_topic_whose_subscribers_left_goes_on_though_memory_is_full() -> None:
    stage = Stage(memory_limit_bytes=LIMIT)
    filler, subscriber, producer = stage.peer("f"), stage.peer("s"), stage.peer("p")
    listener = subscriber.consumes("topic://T")
    while stage.memory() < LIMIT:
        filler.sends(QUEUE, "x" * 1_000, persistent=False)
    token = producer.sends("topic://T", "1")
    assert not producer.is_answered(token)
    listener.leaves()
    assert producer.is_answered(token)


def fills_with(stage: Stage, producer: Peer, transaction_id: AnyTransactionId) -> tuple[Peer, int]:
    """Fill the memory with messages of a transaction, the last of which is refused; another peer's send waits."""
    refused = False
    while not refused:
        message = producer.message(QUEUE, "x" * 5_000, persistent=False)
        try:
            assert stage.broker.send(producer.state, message, transaction_id, producer.new_token(), stage.now)
        except ResourceAllocationError:
            refused = True
    other = stage.peer("other")
    token = other.sends(QUEUE, "x" * 5_000, persistent=False)
    assert not other.is_answered(token)
    return other, token


def test_a_waiting_send_goes_on_when_a_transaction_is_rolled_back() -> None:
    stage = limited()
    producer = stage.peer("p")
    producer.begins(1)
    other, token = fills_with(stage, producer, producer.transaction_id(1))
    producer.rolls_back(1)
    assert other.is_answered(token)


def test_a_waiting_send_goes_on_when_a_commit_is_refused() -> None:
    stage = limited()
    producer = stage.peer("p")
    producer.begins(1)
    other, token = fills_with(stage, producer, producer.transaction_id(1))
    with pytest.raises(XaError):
        producer.commits(1)
    assert other.is_answered(token)


def test_a_waiting_send_goes_on_when_a_branch_cannot_be_prepared() -> None:
    stage = limited()
    producer = stage.peer("p")
    xid = XaTransactionId(1, b"global", b"branch")
    stage.broker.xa.begin(producer.state, xid)
    other, token = fills_with(stage, producer, xid)
    with pytest.raises(XaError):
        stage.broker.xa.prepare(producer.state, xid, producer.new_token(), stage.now)
    assert other.is_answered(token)


def test_a_waiting_send_goes_on_when_a_part_is_staged() -> None:
    stage = limited()
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    program.peer.begins(1)
    for _ in range(3):
        program.peer.sends(QUEUE, "x" * 5_000, transaction=1, persistent=False)
    other = stage.peer("other")
    token = fills(other)[-1]
    program.stages(0, 0, transaction=1)
    assert other.is_answered(token)
