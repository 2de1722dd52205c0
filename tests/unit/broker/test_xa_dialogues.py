"""Branches of distributed transactions: both phases, who may finish them, and what a power cut leaves of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spanwire.broker.connections.connection_job import ConnectionJob
from spanwire.broker.connections.connection_state import MAX_TRANSACTIONS_PER_CONNECTION
from spanwire.broker.connections.xa_branch import BranchRecord, StoredAcks, decode_record, encode_record
from spanwire.broker.destinations.wildcard_matching import JOIN_STEPS
from spanwire.broker.metadata import XA_BRANCHES
from spanwire.broker.topic.pending_eviction import MAX_LOOKS
from spanwire.broker.transactions.xa_transactions import LATER, MAX_BRANCHES, XA_OK, XA_RDONLY
from spanwire.model.acks import POISON_ACK, STANDARD_ACK, MessageAck
from spanwire.model.destination import SUBSCRIPTION, TRANSACTION, Destination, parse_destination
from spanwire.model.errors import (
    AuthorizationError,
    IllegalStateError,
    JmsError,
    ResourceAllocationError,
    StoreError,
    XaError,
)
from spanwire.model.ids import XaTransactionId, xa_transaction_id
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage

IN = "queue://IN"
OUT = "queue://OUT"
X = XaTransactionId(4711, b"global", b"\x01")
SCHEDULED_MESSAGES = Destination(TRANSACTION, "0")


class Manager:
    """A peer that works in branches."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.stage = peer.stage
        self.xa = peer.stage.broker.xa

    def begins(self, xid: XaTransactionId = X) -> None:
        self.xa.begin(self.peer.state, xid)

    def sends(
        self,
        destination: str,
        *texts: str,
        xid: XaTransactionId = X,
        persistent: bool = True,
        properties: dict[str, object] | None = None,
    ) -> None:
        for text in texts:
            message = self.peer.message(destination, text, persistent=persistent, properties=properties or {})
            assert self.stage.broker.send(self.peer.state, message, xid, self.peer.new_token(), self.stage.now)

    def acknowledges(
        self, listener: Listener, last: str, xid: XaTransactionId = X, ack_type: int = STANDARD_ACK
    ) -> None:
        self.stage.broker.acknowledge(
            self.peer.state,
            listener.subscription,
            MessageAck(ack_type, None, listener.id_of(last), 0),
            xid,
            -1,
            self.stage.now,
        )

    def prepares(self, xid: XaTransactionId = X) -> int:
        """The vote; `LATER` is waited for."""
        token = self.peer.new_token()
        vote = self.xa.prepare(self.peer.state, xid, token, self.stage.now)
        if vote == LATER:
            assert not self.peer.is_answered(token)
            while self.peer.state.job is not None:
                self.stage.runs()
            self.stage.syncs()
            assert self.peer.is_answered(token)
            return XA_OK
        return vote

    def commits(self, xid: XaTransactionId = X, one_phase: bool = False) -> int:
        token = self.peer.new_token()
        if self.xa.commit(self.peer.state, xid, one_phase, token, self.stage.now):
            self.peer.answers[token] = None
        return token

    def rolls_back(self, xid: XaTransactionId = X) -> int:
        token = self.peer.new_token()
        if self.xa.rollback(self.peer.state, xid, token, self.stage.now):
            self.peer.answers[token] = None
        return token


def reads(stage: Stage) -> None:
    """The store answers all reads."""
    while stage.store.reads:
        stage.store.answer(stage.broker, stage.now)


def in_doubt() -> tuple[Stage, Manager, Listener]:
    """A branch that took "in" from IN and sent "out" to OUT, prepared and stored."""
    stage = Stage()
    listener = stage.peer("c").consumes(IN)
    stage.peer("p").sends(IN, "in", "next")
    stage.syncs()
    manager = Manager(listener.peer)
    manager.begins()
    manager.acknowledges(listener, "in")
    manager.sends(OUT, "out")
    assert manager.prepares() == XA_OK
    assert listener.takes() == ["in", "next"]
    return stage, manager, listener


def pending(stage: Stage, name: str) -> int:
    return stage.view(name).pending if stage.has(name) else 0


def test_the_text_of_a_branch_is_the_one_that_clients_know() -> None:
    assert str(XaTransactionId(4711, b"ab\x0a", b"\x01")) == "XID:[4711,globalId=6162a,branchId=1]"
    assert str(XaTransactionId(-1, b"\xff", b"")) == "XID:[-1,globalId=ffffffff,branchId=]"


def test_a_branch_is_found_by_its_key_alone() -> None:
    for xid in (X, XaTransactionId(-3, b"", b""), XaTransactionId(0, b"\x00" * 64, b"\xff" * 64)):
        assert xa_transaction_id(xid.key) == xid
    assert XaTransactionId(1, b"ab", b"c") != XaTransactionId(1, b"a", b"bc")
    with pytest.raises(ValueError, match="too short"):
        xa_transaction_id(X.key[:7])


def test_a_commit_of_a_branch_counts_a_step_and_has_budgets_of_its_own() -> None:
    stage = Stage()
    manager = Manager(stage.peer("a"))
    manager.begins()
    manager.sends(OUT, "1")
    context = stage.broker.assembly.context
    steps = context.steps
    context.looks, context.first_slices = MAX_LOOKS, JOIN_STEPS  # what the request before it has used
    manager.commits(one_phase=True)
    assert context.steps > steps
    assert (context.looks, context.first_slices) == (0, 0)


def test_one_phase_commits_a_branch() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(OUT)
    manager = Manager(stage.peer("x"))
    manager.begins()
    manager.sends(OUT, "1", "2")
    stage.syncs()
    assert listener.takes() == []
    token = manager.commits(one_phase=True)
    stage.syncs()
    assert (listener.takes(), manager.peer.is_answered(token)) == (["1", "2"], True)
    assert stage.store.metadata.get(XA_BRANCHES, {}) == {}


def test_two_phases_commit_a_branch_in_one_unit() -> None:
    stage, manager, listener = in_doubt()
    assert pending(stage, OUT) == 0
    assert manager.xa.prepared() == [X]
    before = stage.store.position()
    token = manager.commits()
    assert stage.store.position() == before + 1
    stage.syncs()
    assert manager.peer.is_answered(token)
    assert pending(stage, OUT) == 1
    assert stage.store.kept(SCHEDULED_MESSAGES) == []
    assert stage.store.metadata[XA_BRANCHES] == {}
    assert manager.xa.prepared() == []
    assert listener.subscription.dispatched_count == 1


@pytest.mark.parametrize("one_phase", [False, True])
def test_a_durable_subscription_that_comes_before_the_end_of_a_branch_gets_its_messages(one_phase: bool) -> None:
    stage = Stage()
    manager = Manager(stage.peer("x"))
    manager.begins()
    manager.sends("topic://T", "1", "2")
    late = stage.peer("c", client_id="c").consumes("topic://T", durable="late")
    if not one_phase:
        manager.prepares()
        stage.syncs()
    manager.commits(one_phase=one_phase)
    stage.syncs()
    assert late.takes() == ["1", "2"]


def test_a_branch_is_prepared_whose_topic_was_removed_behind_a_late_durable_subscription() -> None:
    stage = Stage()
    manager = Manager(stage.peer("x"))
    manager.begins()
    manager.sends("topic://T", "1")
    peer = stage.peer("c", client_id="c")
    peer.consumes("topic://T", durable="late").leaves()
    stage.peer("r").removes("topic://T")
    assert manager.prepares() == XA_OK
    manager.commits()
    stage.settle()
    assert peer.consumes("topic://T", durable="late").takes() == ["1"]


def test_selectors_of_many_late_subscriptions_cut_a_prepare_into_slices() -> None:
    stage = Stage()
    manager = Manager(stage.peer("x"))
    manager.begins()
    manager.sends("topic://T", *[str(number) for number in range(100)])
    peer = stage.peer("c", client_id="c")
    for number in range(200):
        peer.consumes("topic://T", durable=str(number), selector="JMSPriority = 9")
    assert manager.xa.prepare(manager.peer.state, X, manager.peer.new_token(), stage.now) == LATER
    assert isinstance(manager.peer.state.job, ConnectionJob)
    stage.settle()
    assert manager.xa.prepared() == [X]


def test_a_prepared_branch_can_be_rolled_back() -> None:
    stage, manager, listener = in_doubt()
    token = manager.rolls_back()
    assert not manager.peer.is_answered(token)
    stage.syncs()
    assert manager.peer.is_answered(token)
    assert pending(stage, OUT) == 0
    assert listener.subscription.dispatched_count == 2
    listener.leaves()
    assert stage.peer("d").consumes(IN).takes() == ["in", "next"]
    assert (stage.store.kept(SCHEDULED_MESSAGES), stage.store.metadata[XA_BRANCHES]) == ([], {})


def test_what_a_prepared_branch_acknowledged_goes_to_nobody() -> None:
    stage, manager, listener = in_doubt()
    listener.leaves()
    assert stage.peer("d").consumes(IN).takes() == ["next"]
    manager.peer.leaves()
    assert stage.peer("e").consumes(IN).takes() == []


def test_an_unprepared_branch_ends_with_its_connection() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(IN)
    stage.peer("p").sends(IN, "in")
    stage.syncs()
    manager = Manager(listener.peer)
    manager.begins()
    manager.acknowledges(listener, "in")
    manager.sends(OUT, "never")
    manager.peer.leaves()
    assert stage.peer("d").consumes(IN).takes() == ["in"]
    with pytest.raises(XaError, match=r"has not been started\. xaErrorCode:-4"):
        Manager(stage.peer("e")).commits(one_phase=True)


def test_a_prepared_branch_outlives_its_connection_and_is_finished_by_another() -> None:
    stage, manager, _ = in_doubt()
    manager.peer.leaves()
    other = Manager(stage.peer("recovery"))
    assert other.xa.prepared() == [X]
    other.commits()
    stage.syncs()
    assert pending(stage, OUT) == 1


def test_a_connection_that_joined_a_branch_may_prepare_it_and_may_go() -> None:
    stage = Stage()
    first, second, third = (Manager(stage.peer(name)) for name in "abc")
    first.begins()
    first.sends(OUT, "of the first")
    with pytest.raises(IllegalStateError, match="had not been started"):
        third.prepares()
    second.begins()
    third.begins()
    second.sends(OUT, "of the second")
    third.peer.leaves()
    assert second.prepares() == XA_OK
    first.peer.leaves()
    second.commits()
    stage.syncs()
    assert second.peer.state.branches == {}
    assert stage.peer("d").consumes(OUT).takes() == ["of the first", "of the second"]


def test_a_branch_without_work_is_read_only_and_gone() -> None:
    manager = Manager(Stage().peer("x"))
    manager.begins()
    assert manager.prepares() == XA_RDONLY
    with pytest.raises(XaError, match="xaErrorCode:-4"):
        manager.commits()
    manager.begins()
    manager.commits(one_phase=True)
    assert manager.peer.state.branches == {}


def test_steps_that_do_not_fit_get_the_codes_that_clients_know() -> None:
    manager = Manager(Stage().peer("x"))
    with pytest.raises(IllegalStateError, match="Cannot prepare a transaction that had not been started or previously"):
        manager.prepares()
    with pytest.raises(XaError, match="xaErrorCode:-4"):
        manager.rolls_back()
    with pytest.raises(XaError, match="xaErrorCode:-4"):
        manager.sends(OUT, "1")
    manager.begins()
    manager.begins()
    manager.sends(OUT, "1")
    with pytest.raises(
        XaError, match="Cannot do 2 phase commit if the transaction has not been prepared xaErrorCode:-6"
    ):
        manager.commits()
    assert (manager.prepares(), manager.prepares()) == (XA_OK, XA_OK)
    manager.begins()
    manager.commits(one_phase=True)
    with pytest.raises(XaError, match="xaErrorCode:-4"):
        manager.commits()


def test_work_after_the_prepare_takes_part_in_the_commit() -> None:
    stage, manager, listener = in_doubt()
    manager.sends(OUT, "late")
    manager.acknowledges(listener, "next")
    manager.commits()
    stage.syncs()
    assert stage.peer("d").consumes(OUT).takes() == ["out", "late"]
    assert stage.store.kept(parse_destination(IN)) == []


def test_a_branch_of_which_something_was_refused_cannot_be_prepared() -> None:
    stage = Stage()
    manager = Manager(stage.peer("x"))
    manager.begins()
    manager.sends(OUT, "1")
    manager.xa.spoil(X, JmsError("no"))
    with pytest.raises(XaError, match="rollback only xaErrorCode:100"):
        manager.prepares()
    assert manager.peer.state.branches == {}
    assert stage.memory() == 0


def test_dead_letters_of_a_branch_are_prepared_with_it() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(IN)
    stage.peer("p").sends(IN, "in")
    stage.syncs()
    manager = Manager(listener.peer)
    manager.begins()
    manager.acknowledges(listener, "in", ack_type=POISON_ACK)
    manager.prepares()
    again = stage.restarts()
    other = Manager(again.peer("r"))
    other.commits()
    reads(again)
    again.syncs()
    assert pending(again, "queue://ActiveMQ.DLQ") == 1
    assert pending(again, IN) == 0


def test_another_user_may_not_work_in_a_branch_while_its_connection_is_there() -> None:
    stage = Stage()
    manager = Manager(stage.peer("x", user="alice"))
    manager.begins()
    manager.sends(OUT, "out")
    manager.prepares()
    other = Manager(stage.peer("y", user="bob"))
    for step in (other.begins, other.commits, other.rolls_back):
        with pytest.raises(AuthorizationError):
            step()
    Manager(stage.peer("z", user="alice")).begins()
    manager.peer.leaves()
    other.commits()
    stage.syncs()
    assert pending(stage, OUT) == 1


def test_s45_branches_are_limited_per_connection_and_per_broker() -> None:
    stage = Stage()
    managers = [Manager(stage.peer(f"x{number}")) for number in range(MAX_BRANCHES // MAX_TRANSACTIONS_PER_CONNECTION)]
    for place, manager in enumerate(managers):
        for number in range(MAX_TRANSACTIONS_PER_CONNECTION):
            manager.begins(XaTransactionId(place, str(number).encode(), b""))
        with pytest.raises(ResourceAllocationError, match=r"at maximum limit: 1000$"):
            manager.begins()
    other = Manager(stage.peer("y"))
    with pytest.raises(ResourceAllocationError, match=r"at maximum limit: 10000$"):
        other.begins()
    managers[0].peer.leaves()
    other.begins()


def test_messages_of_prepared_branches_are_limited_together() -> None:
    _, manager, listener = in_doubt()
    limit = manager.xa._prepared
    assert limit.count == 2
    limit.count = limit.limit
    other = XaTransactionId(2, b"o", b"")
    manager.begins(other)
    manager.acknowledges(listener, "next", other)
    with pytest.raises(ResourceAllocationError, match="prepared transactions hold"):
        manager.prepares(other)
    assert listener.subscription.dispatched_count == 1
    assert manager.peer.state.uncommitted.count == 0


def test_a_full_disk_refuses_the_prepare_but_keeps_what_is_prepared() -> None:
    stage, manager, _ = in_doubt()
    stage.store.refused = ResourceAllocationError("full")
    other = XaTransactionId(2, b"o", b"")
    manager.begins(other)
    manager.sends(OUT, "never", xid=other)
    with pytest.raises(ResourceAllocationError, match="full"):
        manager.prepares(other)
    with pytest.raises(ResourceAllocationError, match="full"):
        manager.commits()
    assert manager.xa.prepared() == [X]
    stage.store.refused = None
    manager.commits()
    stage.syncs()
    assert pending(stage, OUT) == 1


@pytest.mark.parametrize("end", [Manager.commits, Manager.rolls_back])
def test_memory_is_free_after_either_end(end: Callable[[Manager], int]) -> None:
    stage, manager, listener = in_doubt()
    end(manager)
    stage.syncs()
    listener.acknowledges("next")
    output = stage.peer("d").consumes(OUT)
    for text in output.takes():
        output.acknowledges(text)
    assert (stage.memory(), manager.xa._prepared.count, manager.peer.state.branches) == (0, 0, {})


def test_a_prepared_branch_survives_a_power_cut_and_can_be_committed() -> None:
    stage, _, _ = in_doubt()
    again = stage.restarts()
    manager = Manager(again.peer("r"))
    assert manager.xa.prepared() == [X]
    listener = again.peer("c").consumes(IN)
    output = again.peer("o").consumes(OUT)
    reads(again)
    assert (listener.takes(), output.takes()) == (["next"], [])
    token = manager.commits()
    reads(again)
    again.syncs()
    assert manager.peer.is_answered(token)
    assert output.takes() == ["out"]
    assert (again.store.kept(SCHEDULED_MESSAGES), again.store.metadata[XA_BRANCHES]) == ([], {})
    assert [entry.sequences.tolist() for entry in again.store.recovered() if entry.destination.name == "IN"] == [[2]]


def test_a_prepared_branch_survives_a_power_cut_and_can_be_rolled_back() -> None:
    stage, _, _ = in_doubt()
    again = stage.restarts()
    listener = again.peer("c").consumes(IN, prefetch=1)
    reads(again)
    assert listener.takes() == ["next"]
    manager = Manager(again.peer("r"))
    token = manager.rolls_back()
    reads(again)
    again.syncs()
    assert manager.peer.is_answered(token)
    listener.leaves()
    back = again.peer("d").consumes(IN)
    reads(again)
    assert back.redelivery_counts() == [("in", 1), ("next", 2)]
    assert pending(again, OUT) == 0
    assert (again.store.kept(SCHEDULED_MESSAGES), again.store.metadata[XA_BRANCHES]) == ([], {})


def test_a_second_step_while_the_first_reads_is_refused() -> None:
    stage, _, _ = in_doubt()
    again = stage.restarts()
    manager = Manager(again.peer("r"))
    manager.commits()
    with pytest.raises(XaError, match="being finished already"):
        manager.rolls_back()
    reads(again)
    again.syncs()
    assert pending(again, OUT) == 1


def test_a_branch_whose_message_is_missing_is_not_committed_by_halves() -> None:
    stage, _, _ = in_doubt()
    again = stage.restarts()
    again.store.lose(SCHEDULED_MESSAGES, 1)
    manager = Manager(again.peer("r"))
    token = manager.commits()
    reads(again)
    with pytest.raises(XaError, match="cannot be read; roll it back"):
        manager.peer.is_answered(token)
    assert manager.xa.prepared() == [X]
    manager.rolls_back()
    reads(again)
    assert again.view(IN).pending == 2


def test_a_prepare_is_one_unit_in_the_store() -> None:
    stage = Stage()
    manager = Manager(stage.peer("x"))
    manager.begins()
    manager.sends(OUT, "1", "2")
    before = stage.store.position()
    manager.prepares()
    assert stage.store.position() == before + 1


def test_messages_that_no_branch_describes_stay_and_their_line_is_not_used() -> None:
    stage, _, _ = in_doubt()
    stage.store.discard_metadata(XA_BRANCHES, X.key)
    stage.syncs()
    again = stage.restarts()
    assert again.broker.xa.prepared() == []
    manager = Manager(again.peer("r"))
    manager.begins()
    manager.sends(OUT, "other")
    manager.prepares()
    assert [len(again.store.kept(Destination(TRANSACTION, number))) for number in ("0", "1")] == [1, 1]
    assert manager.xa.prepared() == [X]


def test_what_a_client_sends_again_after_a_reconnect_is_in_the_prepared_branch_once() -> None:
    stage, manager, _ = in_doubt()
    message = manager.peer.message(OUT, "once")
    other = XaTransactionId(2, b"o", b"")
    manager.begins(other)
    stage.broker.send(manager.peer.state, message, other, manager.peer.new_token(), stage.now)
    manager.prepares(other)
    manager.peer.leaves()
    again = Manager(stage.peer("c", reconnected=True))
    again.begins(other)
    stage.broker.send(again.peer.state, message.twin(), other, again.peer.new_token(), stage.now)
    assert again.prepares(other) == XA_OK
    again.commits(other)
    stage.syncs()
    assert pending(stage, OUT) == 1


def test_branches_are_finished_after_two_power_cuts() -> None:
    stage, _, _ = in_doubt()
    again = stage.restarts().restarts()
    Manager(again.peer("r")).commits()
    reads(again)
    again.syncs()
    final = again.restarts()
    assert (pending(final, IN), pending(final, OUT), final.broker.xa.prepared()) == (1, 1, [])


def test_an_unprepared_branch_is_gone_after_a_power_cut() -> None:
    stage = Stage()
    manager = Manager(stage.peer("x"))
    manager.begins()
    manager.sends(OUT, "never")
    stage.syncs()
    again = stage.restarts()
    assert again.broker.xa.prepared() == []
    assert pending(again, OUT) == 0


@pytest.mark.parametrize("end", [Manager.commits, Manager.rolls_back])
def test_a_power_cut_at_any_position_leaves_all_or_nothing(end: Callable[[Manager], int]) -> None:
    stage, manager, _ = in_doubt()
    end(manager)
    stage.syncs()
    seen: set[tuple[int, int, int]] = set()
    for position in range(stage.store.position() + 1):
        again = stage.restarts(position=position)
        doubt = len(again.broker.xa.prepared())
        found = (pending(again, IN), pending(again, OUT), doubt)
        seen.add(found)
        if doubt:
            assert found == (2, 0, 1)  # what is out counts
            end(Manager(again.peer("r")))
            reads(again)
            again.syncs()
            after = (pending(again, IN), pending(again, OUT), len(again.broker.xa.prepared()))
            assert after == ((1, 1, 0) if end is Manager.commits else (2, 0, 0))
        assert again.store.kept(SCHEDULED_MESSAGES) == [] or doubt == 1
    assert (2, 0, 1) in seen
    assert seen <= {(0, 0, 0), (1, 0, 0), (2, 0, 0), (2, 0, 1), (1, 1, 0)}


def test_a_durable_subscription_takes_part() -> None:
    stage = Stage()
    peer = stage.peer("c", client_id="c")
    listener = peer.consumes("topic://T", durable="s")
    stage.peer("p").sends("topic://T", "a", "b")
    stage.syncs()
    manager = Manager(peer)
    manager.begins()
    manager.acknowledges(listener, "a")
    manager.sends("topic://T", "of the branch")
    manager.prepares()
    again = stage.restarts()
    subscriber = again.peer("c", client_id="c").consumes("topic://T", durable="s")
    reads(again)
    assert subscriber.takes() == ["b"]
    Manager(again.peer("r")).commits()
    reads(again)
    again.syncs()
    reads(again)
    assert subscriber.takes() == ["of the branch"]


def test_lines_are_used_again() -> None:
    stage = Stage()
    manager = Manager(stage.peer("x"))
    for number in range(5):
        xid = XaTransactionId(1, bytes([number]), b"")
        manager.begins(xid)
        manager.sends(OUT, "m", xid=xid)
        manager.prepares(xid)
        manager.commits(xid)
    stage.syncs()
    lines = {change.destination.name for change in stage.store.log if change.destination.kind == TRANSACTION}
    assert lines == {"0"}


def test_a_record_reads_as_it_was_written() -> None:
    topic = Destination(SUBSCRIPTION, "1:c:s")
    queue = parse_destination(OUT)
    record = BranchRecord(7, [queue, queue, topic, queue], [StoredAcks(topic, [1, 2, 9])])
    found = decode_record(encode_record(record))
    assert (found.number, found.sends) == (7, [queue, queue, topic, queue])
    assert [(acks.destination, acks.sequences) for acks in found.acks] == [(topic, [1, 2, 9])]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"[]",
        b'{"line":0,"destinations":[[5,"x"]],"sends":[],"acks":[]}',
        b'{"line":0,"destinations":[],"sends":[[0,1]],"acks":[]}',
    ],
)
def test_a_record_that_cannot_be_read_stops_the_start(value: bytes) -> None:
    with pytest.raises(StoreError, match="spanwire store check"):
        decode_record(value)


def test_a_record_that_is_too_long_is_refused() -> None:
    queue = parse_destination(OUT)
    with pytest.raises(ResourceAllocationError, match="prepare smaller ones"):
        encode_record(BranchRecord(0, [], [StoredAcks(queue, list(range(1, 400_000, 2)))]))
