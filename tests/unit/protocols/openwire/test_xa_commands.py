"""Branches of distributed transactions over OpenWire: each type of TransactionInfo with its answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.model.errors import ResourceAllocationError
from spanwire.protocols.base import REQUEST_STEPS
from spanwire.protocols.openwire.codec import _marshallers as wire
from tests.support.openwire_dialogue import LateStore, OpenWirePeer, World, text_of

VECTORS = Path(__file__).parents[3] / "vectors" / "exceptions.json"
QUEUE = wire.ActiveMQQueue("XAQ")
BEGIN, PREPARE, COMMIT_ONE_PHASE, COMMIT_TWO_PHASE, ROLLBACK, RECOVER, FORGET, END = range(8)
UNKNOWN = {
    "xaraw-end-unknown": END,
    "xaraw-prepare-unknown": PREPARE,
    "xaraw-commit1-unknown": COMMIT_ONE_PHASE,
    "xaraw-commit2-unknown": COMMIT_TWO_PHASE,
    "xaraw-rollback-unknown": ROLLBACK,
    "xaraw-forget-unknown": FORGET,
}
WORK = -1
STEPS: dict[str, tuple[list[int], int]] = {
    "xaraw-begin-twice": ([], BEGIN),
    "xaraw-commit2-active": ([WORK], COMMIT_TWO_PHASE),
    "xaraw-commit1-prepared": ([WORK, PREPARE], COMMIT_ONE_PHASE),
    "xaraw-commit-twice": ([WORK, PREPARE, COMMIT_TWO_PHASE], COMMIT_TWO_PHASE),
    "xaraw-commit2-empty": ([], COMMIT_TWO_PHASE),
    "xaraw-begin-prepared": ([WORK, PREPARE], BEGIN),
    "xaraw-forget-prepared": ([WORK, PREPARE], FORGET),
}


def rows() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for row in json.loads(VECTORS.read_text(encoding="utf-8"))["cases"]:
        found[row["id"]] = row
    return found


ROWS = rows()


def xid_of(name: str) -> wire.XATransactionId:
    """The id that a row's text names."""
    return wire.XATransactionId(
        format_id=4711, global_transaction_id=name.replace("xaraw", "r").encode(), branch_qualifier=b"\x01"
    )


def info(xid: wire.XATransactionId | None, kind: int) -> wire.TransactionInfo:
    return wire.TransactionInfo(transaction_id=xid, type=kind)


def works(peer: OpenWirePeer, xid: wire.XATransactionId, text: str = "work") -> None:
    message = peer.text_message(QUEUE, text)
    message.transaction_id = xid
    peer.succeeds(message)


def votes(peer: OpenWirePeer, xid: wire.XATransactionId) -> int:
    command_id = peer.requests(info(xid, PREPARE))
    if peer.world.store is not None:
        peer.world.stores()
    answer = peer.receives(wire.IntegerResponse)
    assert answer.correlation_id == command_id
    return answer.result


def tells(peer: OpenWirePeer, command: wire.TransactionInfo, row: dict[str, str]) -> None:
    """The answer that the row says, and the connection lives on."""
    if row["exception"] is None:
        peer.succeeds(command)
    else:
        class_name, text = peer.fails(command)
        assert text == row["message"]
        assert f"{class_name}: {text}" in row["causes"]
    peer.succeeds(peer.transaction(BEGIN))


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_command_about_an_unknown_branch_is_answered_as_clients_know_it(name: str) -> None:
    tells(World().connect(), info(xid_of(name), UNKNOWN[name]), ROWS[name])


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_a_branch_is_answered_as_clients_know_it(name: str) -> None:
    peer = World().connect()
    peer.produces(QUEUE)
    xid = xid_of(name)
    steps, last = STEPS[name]
    peer.succeeds(info(xid, BEGIN))
    for step in steps:
        if step == WORK:
            works(peer, xid)
        elif step == PREPARE:
            assert votes(peer, xid) == 0
        else:
            peer.succeeds(info(xid, step))
    tells(peer, info(xid, last), ROWS[name])


def test_a_message_of_an_unknown_branch_is_refused() -> None:
    peer = World().connect()
    peer.produces(QUEUE)
    row = ROWS["xaraw-send-unknown"]
    message = peer.text_message(QUEUE, "work")
    message.transaction_id = xid_of(row["id"])
    assert peer.fails(message)[1] == row["message"]


def test_a_prepare_without_work_votes_read_only_and_one_with_work_twice_yes() -> None:
    peer = World().connect()
    peer.produces(QUEUE)
    xid = xid_of("x")
    peer.succeeds(info(xid, BEGIN))
    assert votes(peer, xid) == 3
    peer.succeeds(info(xid, BEGIN))
    works(peer, xid)
    assert (votes(peer, xid), votes(peer, xid)) == (0, 0)


def test_a_prepare_is_answered_when_the_store_has_it() -> None:
    world = World(store=LateStore())
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    xid = xid_of("x")
    peer.succeeds(info(xid, BEGIN))
    works(peer, xid)
    command_id = peer.requests(info(xid, PREPARE))
    peer.receives_nothing()
    world.stores()
    answer = peer.receives(wire.IntegerResponse)
    assert (answer.correlation_id, answer.result) == (command_id, 0)
    command_id = peer.requests(info(xid, COMMIT_TWO_PHASE))
    peer.receives_nothing()
    world.stores()
    assert peer.receives(wire.Response).correlation_id == command_id
    assert [text_of(message) for message in peer.dispatched()] == ["work"]


def test_recover_lists_what_is_prepared() -> None:
    peer = World().connect()
    peer.produces(QUEUE)
    for name in ("x", "y"):
        peer.succeeds(info(xid_of(name), BEGIN))
        works(peer, xid_of(name))
    votes(peer, xid_of("y"))
    command_id = peer.requests(wire.TransactionInfo(connection_id=wire.ConnectionId(peer.connection_id), type=RECOVER))
    answer = peer.receives(wire.DataArrayResponse)
    assert answer.correlation_id == command_id
    found = [xid for xid in answer.data or [] if isinstance(xid, wire.XATransactionId)]
    assert [(xid.format_id, xid.global_transaction_id, xid.branch_qualifier) for xid in found] == [
        (4711, b"y", b"\x01")
    ]


def test_an_id_that_is_too_long_is_refused() -> None:
    peer = World().connect()
    xid = wire.XATransactionId(format_id=1, global_transaction_id=b"g" * 65, branch_qualifier=b"b")
    assert "more than 64 bytes" in (peer.fails(info(xid, BEGIN))[1] or "")


@pytest.mark.parametrize("kind", [PREPARE, COMMIT_TWO_PHASE, FORGET])
def test_a_local_transaction_knows_one_phase_only(kind: int) -> None:
    peer = World().connect()
    peer.succeeds(peer.transaction(BEGIN))
    assert "is for XA transactions" in (peer.fails(peer.transaction(kind))[1] or "")


def test_a_commit_in_one_phase_after_a_refused_acknowledgement_rolls_back() -> None:
    peer = World().connect()
    peer.consumes(QUEUE)
    xid = xid_of("x")
    peer.succeeds(info(xid, BEGIN))
    peer.acknowledges(peer.text_message(QUEUE, "never sent"), transaction_id=xid)
    peer.receives(wire.ConnectionError)
    class_name, text = peer.fails(info(xid, COMMIT_ONE_PHASE))
    assert class_name == "javax.transaction.xa.XAException"
    assert (text or "").endswith("xaErrorCode:100")


def test_a_refused_prepare_of_many_messages_leaves_no_vote_for_another_command() -> None:
    store = LateStore()
    world = World(store=store)
    peer = world.connect()
    peer.produces(QUEUE)
    xid = xid_of("x")
    peer.succeeds(info(xid, BEGIN))
    for _ in range(JOB_STEPS + 1):
        works(peer, xid)
    store.refused = ResourceAllocationError("no")
    command_id = peer.requests(info(xid, PREPARE))
    world.settle()
    assert peer.receives(wire.ExceptionResponse).correlation_id == command_id
    store.refused = None
    peer._command_id = command_id - 1  # command ids come again after 2,147,483,647
    assert peer.requests(peer.text_message(QUEUE, "behind")) == command_id
    world.stores()
    assert type(peer.receives(wire.Response)) is wire.Response


@pytest.mark.large
def test_requests_about_branches_count_steps_and_those_in_doubt_are_not_listed_many_times_in_one_turn() -> None:
    world = World()
    peer = world.connect()
    peer.produces(QUEUE)
    before = world.broker.steps
    for number in range(JOB_STEPS):
        xid = xid_of(f"x{number}")
        peer.succeeds(info(xid, BEGIN))
        works(peer, xid)
        assert votes(peer, xid) == 0
    assert world.broker.steps - before >= 3 * JOB_STEPS
    data = b""
    for number in range(JOB_STEPS):
        request = info(None, RECOVER)
        request.command_id = 1_000 + number
        request.response_required = True
        data += peer.encoder.encode(request)
    before = world.broker.steps
    peer.connection.receive_data(data, world.now)
    assert world.broker.steps - before <= 2 * REQUEST_STEPS
    assert peer.connection.holds_requests
    world.settle()
    answers = [command for command in peer.received if isinstance(command, wire.DataArrayResponse)]
    assert [answer.correlation_id for answer in answers] == [1_000 + number for number in range(JOB_STEPS)]
    assert {len(answer.data or []) for answer in answers} == {JOB_STEPS}
