"""The work for a command of a client does not grow with the number of its likes.

Else many small commands together would take the square of their number. The work is the number of executed lines of
Python: the compiled build has none, and so no growth. What a command really has to look at is counted in steps, and
taken in slices: `protocols.base.REQUEST_STEPS`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.topic_policy import PRIORITY, DispatchPolicy, TopicPolicy
from spanwire.broker.routing.consumer_removal import CONSUMERS_PER_STEP
from spanwire.model.destination import TOPIC as TOPIC_KIND
from spanwire.model.destination import Destination
from spanwire.protocols.openwire.codec import _marshallers as wire
from tests.support.openwire_dialogue import OpenWirePeer, World

FEW: Final = 100
MANY: Final = 800
TESTS: Final = str(Path(__file__).parents[3])
GROWTH: Final = 1.3  # tables grow, and logarithms
INDIVIDUAL_ACK: Final = 4
REDELIVERED_ACK: Final = 3
ADD, REMOVE = 0, 1
BEGIN: Final = 0
SEARCHES: Final = ("index", "remove")  # of a list
QUEUE: Final = wire.ActiveMQQueue("Q")
TOPIC: Final = wire.ActiveMQTopic("T")
RANKED: Final = wire.ActiveMQTopic("RANKED")  # with priorityDispatchPolicy
POLICIES: Final = PolicyMap(
    [PolicyEntry(Destination(TOPIC_KIND, "RANKED"), topic=TopicPolicy(dispatch=DispatchPolicy(PRIORITY)))]
)

Commands = Callable[[OpenWirePeer, int], Any]


def lines_of(peer: OpenWirePeer, command: Any) -> int:
    """Return how many lines run until the broker has done what a command asks for."""
    octets = peer.encoder.encode(command)
    return lines_while(peer, lambda: peer.connection.receive_data(octets, peer.world.now))


def lines_while(peer: OpenWirePeer, act: Callable[[], object]) -> int:
    """Return how many lines run until the broker has done what follows from an act of a peer.

    A search in a list runs no lines, and counts as one for each entry of the list. Lines of the tests do not count:
    each turn of the broker takes some.
    """
    lines = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename.startswith(TESTS):
            return None
        lines += event == "line"
        return count

    def count_searches(frame: FrameType, event: str, called: Any) -> None:
        nonlocal lines
        if event == "c_call" and called.__name__ in SEARCHES and isinstance(called.__self__, list):
            lines += len(called.__self__)

    sys.settrace(count)
    sys.setprofile(count_searches)
    try:
        act()
        while peer.world.broker.next_timeout() == 0.0:
            peer.world.broker.run(peer.world.now)
    finally:
        sys.settrace(None)
        sys.setprofile(None)
    peer.world.settle()
    peer.received.clear()
    return lines


def consumer_of(destination: wire.ActiveMQDestination, **fields: Any) -> Commands:
    def command(peer: OpenWirePeer, number: int) -> Any:
        own: dict[str, Any] = {"prefetch_size": 1}
        for name, value in fields.items():
            own[name] = value.replace("#", str(number)) if isinstance(value, str) else value
        own["priority"] = number % 100 if own.pop("rank", False) else 0
        return wire.ConsumerInfo(consumer_id=peer.consumer_id(number + 2), destination=destination, **own)

    return command


def message(peer: OpenWirePeer, number: int, **fields: Any) -> Any:
    sent = peer.text_message(QUEUE, "x", persistent=False)
    for name, value in fields.items():
        setattr(sent, name, value)
    return sent


def session(peer: OpenWirePeer, number: int) -> Any:
    return wire.SessionInfo(wire.SessionId(connection_id=peer.connection_id, value=number + 2))


def producer(peer: OpenWirePeer, number: int) -> Any:
    return wire.ProducerInfo(producer_id=peer.producer_id(number + 2), destination=QUEUE)


def temporary(peer: OpenWirePeer, number: int) -> Any:
    return wire.DestinationInfo(
        connection_id=wire.ConnectionId(peer.connection_id),
        destination=wire.ActiveMQTempQueue(f"{peer.connection_id}:{number}"),
        operation_type=ADD,
    )


def branch(peer: OpenWirePeer, number: int) -> Any:
    return wire.TransactionInfo(
        connection_id=wire.ConnectionId(peer.connection_id),
        transaction_id=wire.XATransactionId(format_id=1, global_transaction_id=b"%d" % number, branch_qualifier=b"b"),
        type=BEGIN,
    )


COMMANDS: Final[dict[str, Commands]] = {
    "consumers of a queue": consumer_of(QUEUE),
    "consumers of a queue with priorities": consumer_of(QUEUE, rank=True),
    "exclusive consumers of a queue": consumer_of(QUEUE, exclusive=True),
    "consumers of a queue with selectors": consumer_of(QUEUE, selector="a = #"),
    "consumers of a queue with one selector": consumer_of(QUEUE, selector="a = 1"),
    "consumers of a queue with selectors for one value": consumer_of(QUEUE, selector="a = 1 AND b > #"),
    "consumers of a queue with selectors for any value": consumer_of(QUEUE, selector="a LIKE '#%'"),
    "consumers of a topic with selectors": consumer_of(TOPIC, selector="a = #"),
    "consumers of a topic with priorities": consumer_of(RANKED, rank=True),
    "consumers of a pattern": consumer_of(wire.ActiveMQTopic("T.>")),
    "consumers of several queues": consumer_of(wire.ActiveMQQueue("A,B,C")),
    "browsers": consumer_of(QUEUE, browser=True),
    "sessions": session,
    "producers": producer,
    "temporary queues": temporary,
    "transactions": lambda peer, number: peer.transaction(BEGIN, number + 1),
    "branches": branch,
    "messages of a queue": message,
    "messages of groups": lambda peer, number: message(peer, number, group_id=f"g{number}"),
    "messages in a transaction": lambda peer, number: message(peer, number, transaction_id=peer.transaction_id()),
    "destinations": lambda peer, number: message(peer, number, destination=wire.ActiveMQQueue(f"Q{number}")),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_s45_a_command_takes_no_more_work_after_many_of_its_kind(name: str) -> None:
    peer = World(policies=POLICIES).connect()
    peer.produces()
    peer.consumes(wire.ActiveMQTopic("ActiveMQ.Advisory.>"))  # advisories are part of the work
    peer.transacts(BEGIN)
    peer.consumes(QUEUE, 2_000, prefetch_size=1)
    lines = [lines_of(peer, COMMANDS[name](peer, number)) for number in range(1, MANY)]
    few, many = sorted(lines[FEW : FEW + 10])[5], sorted(lines[-10:])[5]
    assert many <= GROWTH * few, f"{few} lines after {FEW}, {many} after {MANY}"


def own_groups(peers: list[OpenWirePeer], count: int) -> None:
    """Let each consumer own a message group, whose first message is acknowledged."""
    peers[0].produces()
    for number in range(count):
        peers[0].sends(message(peers[0], number, group_id=f"g{number}"))
    for peer in peers:
        for command in [one for one in peer.received if isinstance(one, wire.MessageDispatch)]:
            assert command.consumer_id is not None and command.message is not None
            peer.acknowledges(command.message, consumer=command.consumer_id.value)


LEAVING: Final = [name for name in COMMANDS if "consumers" in name] + ["owners of groups"]


@pytest.mark.parametrize("name", LEAVING)
@pytest.mark.parametrize("is_lost", [False, True])
def test_s45_a_consumer_leaves_with_no_more_work_among_many(name: str, is_lost: bool) -> None:
    """A consumer before all others of its kind, one between and one behind them leave."""

    def lines_among(count: int) -> list[int]:
        world = World(policies=POLICIES)
        peers = [world.connect() for _ in range(4)]
        command = COMMANDS.get(name, consumer_of(QUEUE))
        for number in range(1, count + 4):
            place = {2: 1, count // 2: 2, count + 3: 3}.get(number, 0)
            peers[place].sends(command(peers[place], 0 if place else number))
        if name not in COMMANDS:
            own_groups(peers, count + 3)
        return [
            lines_while(peer, lambda peer=peer: peer.connection.receive_eof(world.now))  # type: ignore[misc]
            if is_lost
            else lines_of(peer, wire.RemoveInfo(object_id=peer.consumer_id(2)))
            for peer in peers[1:]
        ]

    few, many = lines_among(FEW), lines_among(MANY)
    assert max(many) <= GROWTH * max(few), f"{few} lines among {FEW}, {many} among {MANY}"


def test_owners_of_groups_that_leave_together_send_the_others_back_once() -> None:
    """Each owner's end frees a group whose second message a consumer with room has skipped."""
    world = World()
    stays, leaves = world.connect(), world.connect()
    for number in range(FEW):
        leaves.sends(consumer_of(QUEUE)(leaves, number))
    stays.produces()
    for number in range(2 * FEW):
        stays.sends(message(stays, number, group_id=f"g{number % FEW}"))
    stays.consumes(QUEUE, 2, prefetch_size=1_000)
    stays.sends(message(stays, 2 * FEW, group_id="own"))
    before = len([one for one in stays.received if isinstance(one, wire.MessageDispatch)])
    returns = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal returns
        returns += event == "call" and frame.f_code.co_qualname == "QueueConsumers.start_over"

    sys.settrace(count)
    try:
        leaves.connection.receive_eof(world.now)
        world.settle()
    finally:
        sys.settrace(None)
    taken = len([one for one in stays.received if isinstance(one, wire.MessageDispatch)]) - before
    assert taken == 2 * FEW
    assert returns <= 3, f"{FEW} consumers sent the others back {returns} times"


@pytest.mark.parametrize("has_backlog", [False, True])
def test_a_message_takes_no_more_work_among_many_full_consumers(has_backlog: bool) -> None:
    """One consumer has room, or gets it by an acknowledgement while messages wait for all."""

    def lines_among(count: int) -> int:
        world = World()
        peer, other = world.connect(), world.connect()
        peer.produces()
        for number in range(count):
            peer.sends(consumer_of(QUEUE)(peer, number))
            peer.sends(message(peer, number))
        other.consumes(QUEUE, 2, prefetch_size=3 if has_backlog else 1_000)
        for number in range(10):
            peer.sends(message(peer, number))
        taken = [one.message for one in other.received if isinstance(one, wire.MessageDispatch)][:3]
        lines = [
            lines_while(other, lambda sent=sent: other.acknowledges(sent, consumer=2))  # type: ignore[misc]
            if has_backlog
            else lines_of(peer, message(peer, 0))
            for sent in taken
        ]
        return sorted(lines)[1]

    few, many = lines_among(FEW), lines_among(MANY)
    assert many <= GROWTH * few, f"{few} lines among {FEW}, {many} among {MANY}"


def test_a_message_after_a_consumer_has_come_or_left_takes_no_more_work_among_many() -> None:
    def lines_among(count: int) -> list[int]:
        world = World()
        peer, other = world.connect(), world.connect()
        peer.produces()
        for number in range(count):
            peer.sends(consumer_of(QUEUE)(peer, number))
        peer.sends(message(peer, 0))
        other.consumes(QUEUE, 2, prefetch_size=1)
        came = lines_of(peer, message(peer, 0))
        other.sends(wire.RemoveInfo(object_id=other.consumer_id(2)))
        return [came, lines_of(peer, message(peer, 0))]

    few, many = lines_among(FEW), lines_among(MANY)
    assert max(many) <= GROWTH * max(few), f"{few} lines among {FEW}, {many} among {MANY}"


def test_a_durable_subscriber_counts_steps_for_others_of_its_topic() -> None:
    peer = World().connect(client_id="client")
    peer.consumes(wire.ActiveMQTopic("ActiveMQ.Advisory.>"))
    for number in range(MANY):
        peer.sends(consumer_of(TOPIC, subscription_name="s#")(peer, number))
    before = peer.world.broker.steps
    peer.sends(consumer_of(TOPIC, subscription_name="last")(peer, MANY))
    assert peer.world.broker.steps - before > MANY // CONSUMERS_PER_STEP


def test_a_consumer_that_leaves_counts_steps_for_durable_subscribers_of_its_topic() -> None:
    peer = World().connect(client_id="client")
    peer.consumes(wire.ActiveMQTopic("ActiveMQ.Advisory.>"))
    for number in range(MANY):
        peer.sends(consumer_of(TOPIC, subscription_name="s#")(peer, number))
    peer.consumes(TOPIC, MANY + 10)
    before = peer.world.broker.steps
    peer.sends(wire.RemoveInfo(object_id=peer.consumer_id(MANY + 10)))
    assert peer.world.broker.steps - before > MANY // CONSUMERS_PER_STEP


def test_a_consumer_with_a_wildcard_counts_steps_for_absent_durable_subscribers() -> None:
    peer = World().connect(client_id="client")
    for number in range(MANY):
        peer.sends(consumer_of(TOPIC, subscription_name="s#")(peer, number))
        peer.sends(wire.RemoveInfo(object_id=peer.consumer_id(number + 2)))
    before = peer.world.broker.steps
    peer.consumes(wire.ActiveMQTopic(">"), MANY + 10)
    assert peer.world.broker.steps - before > MANY // CONSUMERS_PER_STEP


@pytest.mark.parametrize("kind", [INDIVIDUAL_ACK, REDELIVERED_ACK])
@pytest.mark.parametrize("is_last_first", [False, True])
def test_an_acknowledgement_takes_no_more_work_among_many_messages_in_flight(kind: int, is_last_first: bool) -> None:
    def lines_among(count: int) -> int:
        peer = World().connect()
        peer.produces()
        peer.consumes(QUEUE, prefetch_size=2 * MANY)
        for _ in range(count):
            peer.sends(peer.text_message(QUEUE, "x", persistent=False))
        messages = peer.dispatched()[:: -1 if is_last_first else 1]
        assert len(messages) == count
        acks = [
            wire.MessageAck(
                consumer_id=peer.consumer_id(), destination=QUEUE, ack_type=kind, message_count=1,
                first_message_id=one.message_id, last_message_id=one.message_id,
            )
            for one in messages[20:40]
        ]  # fmt: skip
        lines_of(peer, acks[0])  # makes the index
        return sum(lines_of(peer, ack) for ack in acks[1:])

    assert lines_among(MANY) <= GROWTH * lines_among(FEW)
