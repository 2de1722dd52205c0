"""Quotas: one more than allowed is refused with the known text, and nobody else notices."""

from __future__ import annotations

import pytest

from spanwire.broker.connections.connection_state import MAX_SESSIONS_PER_CONNECTION, MAX_TRANSACTIONS_PER_CONNECTION
from spanwire.broker.connections.connections import MAX_CONNECTIONS
from spanwire.broker.destinations.destination_map import MAX_DESTINATIONS
from spanwire.broker.destinations.destinations import MAX_REMOTE_TEMPORARY, MAX_TEMPORARY_PER_CONNECTION
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.ports import Principal
from spanwire.model.acks import POISON_ACK
from spanwire.model.destination import MAX_COMPOSITE_PARTS
from spanwire.model.errors import (
    AuthenticationError,
    AuthorizationError,
    IllegalStateError,
    InvalidClientIdError,
    InvalidDestinationError,
    JmsError,
    ResourceAllocationError,
)
from spanwire.model.ids import ConsumerId, ProducerId, SessionId
from spanwire.model.info import (
    MAX_CONSUMERS_PER_CONNECTION,
    MAX_PRODUCERS_PER_CONNECTION,
    ConnectionInfo,
    ConsumerInfo,
    ProducerInfo,
)
from tests.support.dialogue.broker_dialogue import Listener, Stage, destination

QUEUE = "queue://Q"


@pytest.mark.large
def test_s45_connections_are_limited_and_a_place_that_became_free_is_given() -> None:
    stage = Stage(persistent=False)
    peers = [stage.peer(f"p{number}") for number in range(MAX_CONNECTIONS)]
    with pytest.raises(ResourceAllocationError, match=f"at its maximum of {MAX_CONNECTIONS} connections"):
        stage.peer("more")
    listener = peers[0].consumes(QUEUE)
    peers[1].sends(QUEUE, "1")
    assert listener.takes() == ["1"]
    peers[-1].leaves()
    stage.peer("more")


def test_s45_open_transactions_are_limited_per_connection() -> None:
    stage = Stage()
    peer, neighbour = stage.peer("p"), stage.peer("n")
    for number in range(MAX_TRANSACTIONS_PER_CONNECTION):
        peer.begins(number)
    with pytest.raises(ResourceAllocationError, match="at maximum limit: 1000"):
        peer.begins(MAX_TRANSACTIONS_PER_CONNECTION)
    neighbour.begins(1)
    peer.rolls_back(0)
    peer.begins(MAX_TRANSACTIONS_PER_CONNECTION)


@pytest.mark.large
def test_s45_a_bridge_announces_only_so_many_temporary_destinations() -> None:
    stage = Stage()
    bridge, neighbour = stage.peer("b"), stage.peer("n")
    for number in range(MAX_REMOTE_TEMPORARY):
        remote = destination(f"temp-queue://ID:far:{number}:1")
        stage.broker.add_remote_temporary(bridge.state, remote, ("ID:other",), stage.now)
    more = destination("temp-queue://ID:far:more:1")
    with pytest.raises(ResourceAllocationError, match=f"at most {MAX_REMOTE_TEMPORARY} temporary destinations"):
        stage.broker.add_remote_temporary(bridge.state, more, ("ID:other",), stage.now)
    stage.broker.add_remote_temporary(neighbour.state, more, ("ID:other",), stage.now)
    neighbour.temporary()


def test_s45_sessions_are_limited_per_connection() -> None:
    stage = Stage()
    peer, neighbour = stage.peer("p"), stage.peer("n")
    for number in range(2, MAX_SESSIONS_PER_CONNECTION + 1):
        peer.session(number)
    peer.session(1)  # announced before
    with pytest.raises(ResourceAllocationError, match=f"at maximum limit: {MAX_SESSIONS_PER_CONNECTION}"):
        peer.session(MAX_SESSIONS_PER_CONNECTION + 1)
    neighbour.session(2)
    stage.broker.remove_session(peer.state, SessionId(peer.connection_id, 2), -1, stage.now)
    peer.session(MAX_SESSIONS_PER_CONNECTION + 1)


def test_s45_consumers_are_limited_per_connection() -> None:
    stage = Stage()
    peer, neighbour = stage.peer("p"), stage.peer("n")
    listeners = [peer.consumes(QUEUE) for _ in range(MAX_CONSUMERS_PER_CONNECTION)]
    with pytest.raises(ResourceAllocationError) as refused:
        peer.announces("queue://NEW")
    assert str(refused.value) == "Can't add consumer on connection ID:p:1: at maximum limit: 1000"
    assert not stage.has("queue://NEW")
    neighbour.consumes(QUEUE)
    listeners[0].leaves()
    peer.consumes(QUEUE)


def test_s45_producers_are_limited_per_connection() -> None:
    stage = Stage()
    peer, neighbour = stage.peer("p"), stage.peer("n")
    for number in range(MAX_PRODUCERS_PER_CONNECTION):
        peer.producer(QUEUE, number)
    with pytest.raises(ResourceAllocationError) as refused:
        peer.producer("queue://NEW", 9_999)
    assert str(refused.value) == "Can't add producer on connection ID:p:1: at maximum limit: 1000"
    assert not stage.has("queue://NEW")
    neighbour.producer(QUEUE)
    assert stage.view(QUEUE).producers == MAX_PRODUCERS_PER_CONNECTION + 1


def test_s45_temporary_destinations_are_limited_per_connection() -> None:
    stage = Stage()
    peer, neighbour = stage.peer("p"), stage.peer("n")
    for number in range(MAX_TEMPORARY_PER_CONNECTION):
        peer.temporary(number)
    with pytest.raises(ResourceAllocationError, match="at maximum limit: 1000"):
        peer.temporary(9_999)
    neighbour.temporary()
    peer.removes(f"temp-queue://{peer.connection_id}:0")
    peer.temporary(9_999)


@pytest.mark.large
def test_s45_destinations_are_limited_for_clients_and_never_for_the_broker_itself() -> None:
    stage = Stage(persistent=False)
    peer = stage.peer("p")
    listener = peer.consumes(QUEUE)
    peer.sends(QUEUE, "1")
    for number in range(MAX_DESTINATIONS - 1):
        stage.broker.configure_destination(destination(f"topic://T.{number}"))
    attempts = (
        lambda: peer.creates("queue://ONE.MORE"),
        lambda: peer.sends("queue://ONE.MORE", "1"),
        lambda: peer.announces("queue://ONE.MORE"),
        lambda: peer.producer("queue://ONE.MORE"),
        lambda: peer.temporary(),
    )
    for attempt in attempts:
        with pytest.raises(IllegalStateError, match=f"number of destinations allowed \\({MAX_DESTINATIONS}\\)"):
            attempt()
    assert not stage.has("queue://ONE.MORE")
    assert peer.state.temporary == {}
    peer.sends(QUEUE, "2")
    listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    assert stage.view("queue://ActiveMQ.DLQ").pending == 1


def test_s45_a_policy_limits_the_destinations_under_it() -> None:
    stage = Stage(
        PolicyEntry(destination("queue://A.>"), max_destinations=2),
        PolicyEntry(destination("topic://A.>")),
        persistent=False,
    )
    peer = stage.peer("p")
    peer.sends("queue://A.1,queue://A.2", "1")
    with pytest.raises(IllegalStateError) as refused:
        peer.sends("queue://A.3", "1")
    assert str(refused.value) == (
        "The maximum number of destinations allowed (2) under the policy of queue://A.> has already been reached: "
        "queue://A.3 is not made; remove some or raise maxDestinations"
    )
    peer.sends("queue://A.1,queue://B.1,topic://A.3", "1")
    peer.temporary()
    peer.removes("queue://A.1")
    with pytest.raises(IllegalStateError, match="under the policy"):
        peer.sends("queue://A.4,queue://A.5", "1")
    assert not stage.has("queue://A.4")
    peer.sends("queue://A.4", "1")
    stage.broker.configure_destination(destination("queue://A.5"))
    assert stage.has("queue://A.5"), "what the broker makes for itself is never refused"


def test_s45_the_configuration_says_how_many_messages_a_connection_may_leave_uncommitted() -> None:
    stage = Stage(max_uncommitted=3)
    peer, neighbour = stage.peer("p"), stage.peer("n")
    for other in (peer, neighbour):
        other.begins(1)
    peer.sends(QUEUE, "1", "2", "3", transaction=1)
    with pytest.raises(ResourceAllocationError, match="holds 3 uncommitted messages; at most 3 are allowed"):
        peer.sends(QUEUE, "4", transaction=1)
    neighbour.sends(QUEUE, "5", transaction=1)
    neighbour.commits(1)
    stage.settle()
    assert stage.view(QUEUE).pending == 1


def test_s45_a_composite_counts_its_parts() -> None:
    stage = Stage()
    peer = stage.peer("p")
    parts = [f"A{number}" for number in range(MAX_COMPOSITE_PARTS + 1)]
    with pytest.raises(InvalidDestinationError, match=f"at most {MAX_COMPOSITE_PARTS}"):
        peer.sends("queue://" + ",".join(parts), "1")
    peer.sends("queue://" + ",".join(parts[1:]), "1")
    assert stage.broker.statistics().destinations == MAX_COMPOSITE_PARTS


def test_s35_a_client_id_is_held_by_one_connection_at_a_time() -> None:
    stage = Stage()
    first = stage.peer("a", client_id="dup")
    with pytest.raises(InvalidClientIdError) as refused:
        stage.peer("b", client_id="dup")
    assert str(refused.value) == "Broker: stage - Client: dup already connected from tcp://a:1"
    first.leaves()
    second = stage.peer("b", client_id="dup")
    first.leaves()
    with pytest.raises(InvalidClientIdError):
        stage.peer("c", client_id="dup")
    second.leaves()


def test_s5_a_connection_id_is_held_by_one_connection_at_a_time() -> None:
    stage = Stage()
    victim = stage.peer("a", user="alice")
    listener = victim.consumes(QUEUE)
    with pytest.raises(InvalidClientIdError):
        stage.peer("a", user="mallory")
    stage.peer("p").sends(QUEUE, "1")
    assert listener.takes() == ["1"]
    assert stage.connection_view(victim).user_name == "alice"


def test_s5_cve_2026_74761_nobody_acts_for_another_connection() -> None:
    stage = Stage()
    victim, mallory = stage.peer("v"), stage.peer("m")
    own_producer = victim.producer(QUEUE)
    listener = victim.consumes(QUEUE)
    victim.session(2)
    foreign = victim.connection_id
    broker, state, now = stage.broker, mallory.state, stage.now
    info = ConsumerInfo(ConsumerId(foreign, 1, 5), destination(QUEUE))
    with pytest.raises(AuthorizationError):
        broker.add_session(state, SessionId(foreign, 3))
    with pytest.raises(AuthorizationError):
        broker.remove_session(state, SessionId(foreign, 2), -1, now)
    with pytest.raises(AuthorizationError):
        broker.add_producer(state, ProducerInfo(ProducerId(foreign, 1, 5), destination(QUEUE)), now)
    with pytest.raises(AuthorizationError):
        broker.add_consumer(state, info, Listener(mallory, info), now)
    with pytest.raises(JmsError, match="that had not been registered"):
        broker.remove_producer(state, own_producer.producer_id, now)
    with pytest.raises(JmsError, match="that had not been registered"):
        broker.remove_consumer(state, listener.info.consumer_id, -1, now)
    stage.peer("p").sends(QUEUE, "1")
    assert listener.takes() == ["1"]
    assert stage.view(QUEUE).producers == 1


class OneUser:
    """Duck-typed to `spanwire.broker.ports.Authenticator`."""

    def authenticate(self, info: ConnectionInfo) -> Principal:
        if info.user_name != "user":
            raise AuthenticationError(f"User name [{info.user_name}] or password is invalid.")
        return Principal("user", frozenset({"users"}))


def test_who_is_not_let_in_leaves_no_trace() -> None:
    stage = Stage(authenticator=OneUser())
    with pytest.raises(AuthenticationError, match=r"User name \[nobody\] or password is invalid\."):
        stage.peer("a", user="nobody", client_id="id")
    assert stage.broker.connection_views() == []
    peer = stage.peer("a", user="user", client_id="id")
    assert peer.state.principal.groups == frozenset({"users"})


def test_a_consumer_announced_twice_is_refused_and_the_first_one_lives() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    with pytest.raises(IllegalStateError):
        stage.broker.add_consumer(peer.state, listener.info, listener, stage.now)
    stage.peer("p").sends(QUEUE, "1")
    assert listener.takes() == ["1"]
    assert stage.view(QUEUE).consumers == 1


def test_the_statistics_of_the_tutorial() -> None:
    stage = Stage()
    stage.peer("p").sends("queue://FOO.BAR", "1")
    assert stage.view("queue://FOO.BAR").enqueued == 1
    listener = stage.peer("c").consumes("queue://FOO.BAR")
    view = stage.view("queue://FOO.BAR")
    assert (view.dispatched, view.dequeued, view.in_flight, view.pending, view.consumers) == (1, 0, 1, 1, 1)
    listener.acknowledges("1")
    view = stage.view("queue://FOO.BAR")
    assert (view.dispatched, view.dequeued, view.in_flight, view.pending, view.memory_bytes) == (1, 1, 0, 0, 0)


def test_the_statistics_of_the_broker_are_the_sums() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes("queue://A,queue://B")
    producer = stage.peer("p")
    producer.sends("queue://A,B", "1")
    producer.sends("queue://C", "2", expiration_ms=1)
    listener.acknowledges("1", count=2, first="1")
    totals = stage.broker.statistics()
    assert (totals.connections, totals.destinations) == (2, 4)
    assert (totals.enqueued, totals.dispatched, totals.expired, totals.pending) == (3, 2, 1, 1)
    assert totals.memory_bytes == sum(view.memory_bytes for view in stage.broker.destination_views())


def test_the_view_of_a_connection() -> None:
    stage = Stage()
    peer = stage.peer("c", client_id="me", user="u")
    peer.consumes(QUEUE)
    peer.producer(QUEUE)
    view = stage.connection_view(peer)
    assert (view.client_id, view.user_name, view.remote_address, view.protocol) == ("me", "u", "tcp://c:1", "test")
    assert (view.consumers, view.producers, view.slow) == (1, 1, False)
    assert "secret" not in repr(peer.state.info)
    peer.leaves()
    assert stage.broker.connection_views() == []
