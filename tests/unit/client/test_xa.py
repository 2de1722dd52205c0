"""Branches of distributed transactions, as a dialogue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spanwire.client.protocol.session import ClientSession
from spanwire.client.protocol.xa import MAX_BRANCHES, XA_OK, XaBranches, branches_of
from spanwire.model.errors import IllegalStateError, JmsError, TransactionRolledBackError, XaError
from spanwire.model.ids import XaTransactionId
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.messages.identities import wire_xa_transaction_id
from tests.support.client_dialogue import URL, PlayedBroker, refusal_of

BEGIN, PREPARE, ONE_PHASE, TWO_PHASE, ROLLBACK, RECOVER, FORGET, END = 0, 1, 2, 3, 4, 5, 6, 7
RDONLY = 3
XID = XaTransactionId(7, b"global", b"branch")
OTHER = XaTransactionId(7, b"global", b"other")
NO_DELAY = "jms.redeliveryPolicy.initialRedeliveryDelay=0&jms.redeliveryPolicy.redeliveryDelay=0"


@pytest.fixture
def broker() -> PlayedBroker:
    played = PlayedBroker(f"failover:({URL})?{NO_DELAY}&initialReconnectDelay=0")
    played.lets_in()
    return played


@pytest.fixture
def session(broker: PlayedBroker) -> ClientSession:
    return broker.session("xa")


def xa_of(session: ClientSession) -> XaBranches:
    return session.branches()


def steps(commands: list[wire.Command]) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for command in commands:
        if isinstance(command, wire.TransactionInfo):
            xid = command.transaction_id
            found.append((command.type, xid.branch_qualifier or b"" if isinstance(xid, wire.XATransactionId) else b""))
    return found


def worked(broker: PlayedBroker, session: ClientSession, xid: XaTransactionId = XID) -> None:
    """A branch that was begun and ended."""
    xa_of(session).start(xid)
    broker.answers_all()
    xa_of(session).end(xid)
    broker.answers_all()


def test_sends_and_acknowledgements_between_start_and_end_name_the_branch(
    broker: PlayedBroker, session: ClientSession
) -> None:
    producer, consumer = broker.producer(session), broker.consumer(session)
    xa_of(session).start(XID)
    broker.send(producer, "x")
    begin, message = broker.answers_all()
    assert steps([begin]) == [(BEGIN, b"branch")]
    assert isinstance(message, wire.ActiveMQTextMessage)
    assert isinstance(message.transaction_id, wire.XATransactionId)
    broker.dispatches(consumer, "a", "b")
    broker.takes(consumer)
    broker.takes(consumer)
    assert broker.acknowledgements() == []
    xa_of(session).end(XID)
    acknowledgement, end = broker.answers_all()
    assert isinstance(acknowledgement, wire.MessageAck)
    assert isinstance(acknowledgement.transaction_id, wire.XATransactionId)
    assert (acknowledgement.ack_type, acknowledgement.message_count) == (2, 2)
    assert steps([end]) == [(END, b"branch")]


def test_outside_of_a_branch_nothing_is_sent(broker: PlayedBroker, session: ClientSession) -> None:
    producer = broker.producer(session)
    with pytest.raises(IllegalStateError, match=r"call xa\.start first"):
        broker.send(producer, "x")
    worked(broker, session)
    with pytest.raises(IllegalStateError, match=r"call xa\.start first"):
        broker.send(producer, "x")


def test_the_two_phases(broker: PlayedBroker, session: ClientSession) -> None:
    worked(broker, session)
    prepare = xa_of(session).prepare(XID)
    (command,) = broker.receives()
    assert isinstance(command, wire.TransactionInfo)
    assert command.type == PREPARE
    broker.sends(wire.IntegerResponse(correlation_id=command.command_id, result=XA_OK))
    assert prepare.done
    assert prepare.result == XA_OK
    with pytest.raises(IllegalStateError, match="is prepared"):
        xa_of(session).start(XID)
    commit = xa_of(session).commit(XID, False)
    assert steps(broker.answers_all()) == [(TWO_PHASE, b"branch")]
    assert refusal_of(commit) is None


def test_a_vote_of_nothing_to_do_ends_the_branch(broker: PlayedBroker, session: ClientSession) -> None:
    worked(broker, session)
    prepare = xa_of(session).prepare(XID)
    (command,) = broker.receives()
    assert isinstance(command, wire.TransactionInfo)
    broker.sends(wire.IntegerResponse(correlation_id=command.command_id, result=RDONLY))
    assert prepare.result == RDONLY
    xa_of(session).start(XID)


def test_what_was_received_in_a_branch_comes_again_when_that_is_rolled_back(
    broker: PlayedBroker, session: ClientSession
) -> None:
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a", "b", "c")
    xa_of(session).start(XID)
    broker.takes(consumer)
    xa_of(session).end(XID)
    xa_of(session).start(OTHER)
    assert broker.takes(consumer).body == "b"
    xa_of(session).end(OTHER)
    broker.answers_all()
    xa_of(session).rollback(XID, broker.now)
    assert steps(broker.answers_all()) == [(ROLLBACK, b"branch")]
    again = broker.takes(consumer)
    assert (again.body, again.delivery_count) == ("a", 2)
    assert broker.takes(consumer).body == "c"
    commit = xa_of(session).commit(OTHER, True)
    assert steps(broker.answers_all()) == [(ONE_PHASE, b"other")]
    assert refusal_of(commit) is None
    assert consumer.next_message(broker.now) is None


def test_a_commit_that_the_broker_rolled_back_says_so_and_has_the_messages_come_again(
    broker: PlayedBroker, session: ClientSession
) -> None:
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a")
    xa_of(session).start(XID)
    broker.takes(consumer)
    xa_of(session).end(XID)
    broker.answers_all()
    commit = xa_of(session).commit(XID, True)
    (command,) = broker.receives()
    broker.answers(command, Throwable("javax.transaction.xa.XAException", "rollback only xaErrorCode:100"))
    assert isinstance(refusal_of(commit), TransactionRolledBackError)
    assert broker.takes(consumer).delivery_count == 2


@pytest.mark.parametrize("name", ["javax.transaction.xa.XAException", "jakarta.jms.IllegalStateException"])
def test_an_unknown_branch_is_an_xa_error(broker: PlayedBroker, session: ClientSession, name: str) -> None:
    commit = xa_of(session).commit(XID, False)
    (command,) = broker.receives()
    broker.answers(command, Throwable(name, "not started xaErrorCode:-4"))
    assert isinstance(refusal_of(commit), XaError)


def test_the_branches_in_doubt_are_told_and_forgotten(broker: PlayedBroker, session: ClientSession) -> None:
    asked = xa_of(session).recover()
    (command,) = broker.receives()
    assert isinstance(command, wire.TransactionInfo)
    assert (command.type, command.transaction_id) == (RECOVER, None)
    found = [wire_xa_transaction_id(XID), wire_xa_transaction_id(OTHER)]
    broker.sends(wire.DataArrayResponse(correlation_id=command.command_id, data=list(found)))
    assert branches_of(asked) == [XID, OTHER]
    xa_of(session).forget(OTHER)
    assert steps(broker.answers_all()) == [(FORGET, b"other")]


def test_a_link_that_breaks_takes_every_branch_that_is_not_prepared(
    broker: PlayedBroker, session: ClientSession
) -> None:
    consumer, producer = broker.consumer(session), broker.producer(session)
    broker.dispatches(consumer, "a")
    xa_of(session).start(XID)
    broker.takes(consumer)
    broker.answers_all()
    broker.goes()
    broker.lets_in()
    broker.send(producer, "into nothing")
    assert xa_of(session).end(XID) is None
    assert broker.receives() == []
    with pytest.raises(TransactionRolledBackError):
        xa_of(session).prepare(XID)
    xa_of(session).start(XID)
    assert steps(broker.answers_all()) == [(BEGIN, b"branch")]
    assert consumer.next_message(broker.now) is None, "the broker sends it again"


def test_a_prepared_branch_outlives_the_link(broker: PlayedBroker, session: ClientSession) -> None:
    worked(broker, session)
    xa_of(session).prepare(XID)
    (command,) = broker.receives()
    assert isinstance(command, wire.TransactionInfo)
    broker.sends(wire.IntegerResponse(correlation_id=command.command_id, result=XA_OK))
    broker.goes()
    broker.lets_in()
    xa_of(session).commit(XID, False)
    assert steps(broker.answers_all()) == [(TWO_PHASE, b"branch")]


def test_a_step_in_flight_when_the_link_breaks_is_not_known(broker: PlayedBroker, session: ClientSession) -> None:
    worked(broker, session)
    prepare = xa_of(session).prepare(XID)
    broker.goes()
    refused = refusal_of(prepare)
    assert type(refused) is JmsError
    assert "xa.recover tells" in str(refused)
    broker.lets_in()
    assert steps(broker.receives()) == []


def test_a_consumer_closed_inside_a_branch_leaves_with_its_end(broker: PlayedBroker, session: ClientSession) -> None:
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a")
    xa_of(session).start(XID)
    broker.takes(consumer)
    assert session.close_consumer(consumer) is None
    broker.answers_all()
    xa_of(session).end(XID)
    sent = [type(command).__name__ for command in broker.answers_all()]
    assert sent == ["MessageAck", "TransactionInfo", "RemoveInfo"]
    assert session.take_closed_consumers() == [consumer]


def test_steps_out_of_order_are_refused_here(broker: PlayedBroker, session: ClientSession) -> None:
    xa = xa_of(session)
    with pytest.raises(IllegalStateError, match="does not work in"):
        xa.end(XID)
    xa.start(XID)
    steps_too_early: list[Callable[[], object]] = [
        lambda: xa.start(OTHER),
        lambda: xa.prepare(XID),
        lambda: xa.commit(XID, True),
    ]
    for step in steps_too_early:
        with pytest.raises(IllegalStateError, match=r"xa\.end"):
            step()
    with pytest.raises(IllegalStateError, match=r"xa\.commit"):
        session.commit(broker.now)
    with pytest.raises(IllegalStateError, match="more than 64 bytes"):
        xa.forget(XaTransactionId(1, b"x" * 65, b""))
    with pytest.raises(IllegalStateError, match="only a session"):
        broker.client.add_session("transacted").branches()


def test_ended_branches_that_nobody_settles_are_limited(broker: PlayedBroker, session: ClientSession) -> None:
    for number in range(MAX_BRANCHES):
        worked(broker, session, XaTransactionId(1, number.to_bytes(4, "big"), b""))
    with pytest.raises(IllegalStateError, match="wait for their commit"):
        xa_of(session).start(XID)
