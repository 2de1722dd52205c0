"""Composites, wildcards, temporary destinations, coming and going."""

from __future__ import annotations

import pytest

from spanwire.broker.destinations.destinations import MAX_AWAITED_TEMPORARY
from spanwire.model.destination import parse_destination
from spanwire.model.errors import (
    AuthorizationError,
    DestinationDoesNotExistError,
    InvalidDestinationError,
    JmsError,
)
from spanwire.model.ids import ProducerId
from spanwire.model.info import ProducerInfo
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.dialogue.text_format import original_of
from tests.support.recording_authorizer import RecordingAuthorizer

QUEUE = "queue://Q"


def test_a_composite_sends_one_copy_to_each_part() -> None:
    stage = Stage()
    a, b, t = (
        stage.peer(name).consumes(text) for name, text in (("a", "queue://A"), ("b", "queue://B"), ("t", "topic://T"))
    )
    stage.peer("p").sends("queue://A,B,topic://T,A", "1")
    (copy,) = a.takes_deliveries()
    assert copy.message.destination.qualified_name == "queue://A"
    assert original_of(copy.message) == "queue://A,B,topic://T,A"
    assert (b.takes(), t.takes()) == (["1"], ["1"])


def test_a_composite_consumer_hears_all_of_its_parts() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes("queue://A,topic://T,queue://B", prefetch=2)
    producer = stage.peer("p")
    producer.sends("queue://B", "1")
    producer.sends("topic://T", "2")
    producer.sends("queue://A", "3")
    assert listener.takes() == ["1", "2"]
    listener.acknowledges("2")
    assert listener.takes() == ["3"]
    listener.leaves()
    assert (stage.view("queue://A").pending, stage.view("queue://B").pending) == (1, 0)
    assert stage.memory() > 0
    assert stage.peer("d").consumes("queue://A").redelivery_counts() == [("3", 1)]


def test_a_second_consumer_of_composites_hears_of_messages_that_wait_while_it_is_full() -> None:
    stage = Stage()
    producer, peer = stage.peer("p"), stage.peer("c")
    peer.consumes("queue://A,queue://B", prefetch=1)
    producer.sends("queue://B", "it fills the first")
    producer.sends("queue://A", "the first was told of it")
    peer.consumes("queue://A", prefetch=1)
    second = peer.consumes("queue://A,topic://C", prefetch=1)
    producer.sends("topic://C", "it fills the second")
    producer.sends("queue://A", "nobody has room")
    second.acknowledges("it fills the second")
    assert second.out == ["it fills the second", "nobody has room"]


@pytest.mark.parametrize("name", ["A,", ",A", "A,,B", " ", "A\nB"])
def test_a_bad_name_in_a_composite_is_refused_and_nothing_is_sent(name: str) -> None:
    stage = Stage()
    listener = stage.peer("c").consumes("queue://A")
    with pytest.raises(InvalidDestinationError):
        stage.peer("p").sends(f"queue://{name}", "1")
    assert listener.takes() == []


def test_a_wildcard_consumer_hears_destinations_that_are_there_and_that_come_later() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends("queue://A.1", "1")
    listener = stage.peer("c").consumes("queue://A.*")
    producer.sends("queue://A.2", "2")
    producer.sends("queue://A.2.X", "no")
    producer.sends("queue://B.2", "no")
    producer.sends("topic://A.3", "no")
    assert listener.takes() == ["1", "2"]
    listener.acknowledges("2")
    listener.leaves()
    producer.sends("queue://A.3", "3")
    assert stage.view("queue://A.3").consumers == 0


def test_a_wildcard_send_reaches_the_destinations_that_match_and_makes_none() -> None:
    stage = Stage()
    listeners = [stage.peer(name).consumes(f"queue://A.{name}") for name in "xy"]
    outside = stage.peer("o").consumes("queue://B.x")
    producer = stage.peer("p")
    producer.sends("queue://A.*", "1")
    assert [listener.takes() for listener in listeners] == [["1"], ["1"]]
    assert outside.takes() == []
    producer.sends("queue://NOBODY.>", "2")
    assert not stage.has("queue://NOBODY.>")


def test_a_pattern_is_no_destination() -> None:
    stage = Stage()
    for name in ("queue://A.>", "topic://*.B", "queue://>"):
        with pytest.raises(InvalidDestinationError):
            stage.peer(f"p{name}").creates(name)
        assert not stage.has(name)


@pytest.mark.parametrize("kind", ["temp-queue", "temp-topic"])
def test_only_the_owner_consumes_a_temporary_destination_and_everybody_may_send_to_it(kind: str) -> None:
    stage = Stage()
    owner, other = stage.peer("o"), stage.peer("x")
    name = owner.temporary(kind=kind)
    listener = owner.consumes(name)
    other.sends(name, "reply")
    assert listener.takes() == ["reply"]
    for browser in (False, True):
        with pytest.raises(InvalidDestinationError, match="Cannot use a Temporary destination from another Connection"):
            other.announces(name, browser=browser)
    with pytest.raises(InvalidDestinationError, match="from another Connection"):
        other.removes(name)
    assert stage.has(name)


@pytest.mark.parametrize("text", ["temp-queue://{0},queue://B", "queue://B,temp-queue://{0}", "temp-queue://{0}?a=1"])
def test_s7_cve_2026_61487_a_composite_does_not_hide_a_temporary_destination(text: str) -> None:
    stage = Stage()
    owner, other = stage.peer("o"), stage.peer("x")
    name = owner.temporary().removeprefix("temp-queue://")
    with pytest.raises(InvalidDestinationError):
        other.announces(text.format(name))
    assert not stage.has("queue://B")
    assert other.state.consumers == {}


@pytest.mark.parametrize("pattern", ["temp-queue://>", "temp-queue://*", "temp-queue://ID:o:1:>"])
def test_s6_cve_2026_54475_no_pattern_listens_to_temporary_destinations_of_others(pattern: str) -> None:
    stage = Stage()
    owner, other = stage.peer("o"), stage.peer("x")
    name = owner.temporary()
    with pytest.raises(JmsError):
        other.announces(pattern)
    owner.sends(name, "secret")
    assert stage.view(name).consumers == 0


@pytest.mark.parametrize(
    "name", ["ID:o:1:7", "anything", "ID:x:11:1", "ID:x:1", "ID:x:1:2:1", "ID:x:1:a.>", "ID:x:1:a.*"]
)
def test_a_connection_names_only_its_own_temporary_destinations(name: str) -> None:
    stage = Stage()
    stage.peer("o")
    peer = stage.peer("x")
    with pytest.raises((AuthorizationError, InvalidDestinationError)):
        peer.creates(f"temp-queue://{name}")
    assert peer.state.temporary == {}
    assert not stage.has(f"temp-queue://{name}")


def test_a_temporary_destination_goes_with_its_owner_and_is_not_made_again() -> None:
    stage = Stage()
    owner, other = stage.peer("o"), stage.peer("x")
    name = owner.temporary()
    other.sends(name, "1", persistent=False)
    owner.leaves()
    assert not stage.has(name)
    assert stage.memory() == 0
    for action in (lambda: other.sends(name, "2"), lambda: other.producer(name), lambda: other.announces(name)):
        with pytest.raises(DestinationDoesNotExistError) as refused:
            action()
        assert str(refused.value) == name


def test_a_send_may_make_the_temporary_destination_of_a_client_that_comes_back() -> None:
    stage = Stage(temporary_by_send=True)
    stage.peer("p").sends("temp-queue://ID:late:1:1", "a", "b", persistent=False)
    owner = stage.peer("late")
    with pytest.raises(DestinationDoesNotExistError):
        owner.consumes("temp-queue://ID:late:1:1")
    with pytest.raises(JmsError):
        stage.peer("other").creates("temp-queue://ID:late:1:1")
    name = owner.temporary()
    assert owner.consumes(name).takes() == ["a", "b"]
    owner.leaves()
    assert not stage.has(name)


def test_what_a_send_made_goes_with_the_connection_whose_name_it_has() -> None:
    stage = Stage(temporary_by_send=True)
    owner, producer = stage.peer("late"), stage.peer("p")
    producer.sends("temp-queue://ID:late:1:1,temp-topic://ID:late:1:2,queue://Q", "a", persistent=False)
    assert stage.has("temp-queue://ID:late:1:1") and stage.has("temp-topic://ID:late:1:2")
    owner.leaves()
    assert not stage.has("temp-queue://ID:late:1:1") and not stage.has("temp-topic://ID:late:1:2")
    assert stage.has("queue://Q")


def test_of_those_that_sends_made_only_so_many_are_kept() -> None:
    stage = Stage(temporary_by_send=True)
    producer = stage.peer("p")
    for number in range(MAX_AWAITED_TEMPORARY + 2):
        producer.sends(f"temp-queue://ID:late:1:{number}", "a", persistent=False)
    names = stage.names()
    there = [f"temp-queue://ID:late:1:{number}" in names for number in range(MAX_AWAITED_TEMPORARY + 2)]
    assert there == [False, False] + [True] * MAX_AWAITED_TEMPORARY


def test_a_producer_makes_the_temporary_destination_it_names_only_where_that_is_allowed() -> None:
    for allowed in (True, False):
        stage = Stage(temporary_by_send=allowed)
        peer = stage.peer("p")
        info = ProducerInfo(ProducerId(peer.connection_id, 1, 9), parse_destination("temp-queue://ID:late:1:1"))
        if allowed:
            stage.broker.add_producer(peer.state, info, stage.now)
        else:
            with pytest.raises(DestinationDoesNotExistError):
                stage.broker.add_producer(peer.state, info, stage.now)
        assert stage.has("temp-queue://ID:late:1:1") == allowed


def test_no_pattern_makes_temporary_destinations() -> None:
    with pytest.raises(DestinationDoesNotExistError):
        Stage(temporary_by_send=True).peer("p").sends("temp-queue://>", "a")


def test_the_owner_removes_a_temporary_destination_that_nobody_consumes() -> None:
    stage = Stage()
    owner = stage.peer("o")
    name = owner.temporary()
    listener = owner.consumes(name)
    with pytest.raises(JmsError, match=f"Destination: {name} still has an active subscription"):
        owner.removes(name)
    listener.leaves()
    owner.removes(name)
    owner.removes(name)
    assert not stage.has(name)
    owner.creates(name)
    assert stage.has(name)


def test_a_queue_in_use_is_not_removed_and_an_unknown_one_is_no_error() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    with pytest.raises(JmsError) as refused:
        peer.removes(QUEUE)
    assert str(refused.value).startswith("Destination: queue://Q still has an active subscription")
    listener.leaves()
    peer.removes(QUEUE)
    peer.removes("queue://UNKNOWN")
    assert not stage.has(QUEUE)


def test_a_removed_queue_takes_its_messages_along() -> None:
    stage = Stage()
    peer = stage.peer("c")
    peer.sends(QUEUE, "1", "2")
    peer.sends(QUEUE, "3", persistent=False)
    peer.removes(QUEUE)
    assert stage.memory() == 0
    peer.sends(QUEUE, "4")
    assert peer.consumes(QUEUE).takes() == ["4"]


def test_messages_still_out_when_their_queue_goes_do_not_come_back() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    peer.sends(QUEUE, "1")
    peer.begins(1)
    listener.acknowledges("1", transaction=1)
    listener.leaves()
    peer.removes(QUEUE)
    peer.creates(QUEUE)
    peer.rolls_back(1)
    assert stage.view(QUEUE).pending == 0
    assert stage.memory() == 0


def test_producers_are_counted_where_they_are() -> None:
    stage = Stage()
    peer = stage.peer("p")
    peer.producer("queue://A,topic://T", 1)
    again = peer.producer("queue://A", 2)
    peer.producer("queue://A", 2)  # announced twice
    peer.producer(None, 3)
    assert (stage.view("queue://A").producers, stage.view("topic://T").producers) == (2, 1)
    stage.broker.remove_producer(peer.state, again.producer_id, stage.now)
    assert stage.view("queue://A").producers == 1
    stage.peer("admin").removes("queue://A")
    stage.peer("admin2").creates("queue://A")
    peer.leaves()
    assert (stage.view("queue://A").producers, stage.view("topic://T").producers) == (0, 0)


def test_a_send_asks_for_the_physical_destination() -> None:
    authorizer = RecordingAuthorizer()
    stage = Stage(authorizer=authorizer)
    peer = stage.peer("p", user="u")
    peer.sends(QUEUE, "1")
    assert authorizer.take() == [("u", "write", QUEUE), ("u", "admin", QUEUE)]
    peer.sends(QUEUE, "2")
    assert authorizer.take() == [("u", "write", QUEUE)]
    peer.sends("queue://Q?consumer.exclusive=true", "3")
    assert authorizer.take() == [("u", "write", QUEUE)]
    peer.begins(1)
    peer.sends(QUEUE, "4", transaction=1)
    assert authorizer.take() == [("u", "write", QUEUE)]


def test_a_composite_and_a_wildcard_ask_for_each_physical_destination() -> None:
    authorizer = RecordingAuthorizer()
    stage = Stage(authorizer=authorizer)
    peer = stage.peer("p", user="u")
    peer.creates("queue://A")
    peer.creates("queue://B")
    authorizer.take()
    peer.sends("queue://A,topic://T?x=1,queue://B", "1")
    asked = authorizer.take()
    assert {("u", "write", name) for name in ("queue://A", "queue://B", "topic://T")} <= set(asked)
    assert ("u", "admin", "topic://T") in asked
    peer.sends("queue://*", "2")
    assert set(authorizer.take()) == {("u", "write", "queue://A"), ("u", "write", "queue://B")}


def test_s8_cve_2026_46605_every_creation_and_removal_needs_the_right() -> None:
    authorizer = RecordingAuthorizer(
        ("u", "admin", QUEUE), ("u", "admin", "topic://T"), ("u", "admin", "temp-queue://ID:p:1:1")
    )
    stage = Stage(authorizer=authorizer)
    peer = stage.peer("p", user="u")
    for name in (QUEUE, "topic://T"):
        attempts = (
            lambda name=name: peer.creates(name),
            lambda name=name: peer.sends(name, "1"),
            lambda name=name: peer.producer(name),
            lambda name=name: peer.announces(name),
            lambda name=name: peer.announces(f"queue://OTHER,{name}"),
            lambda name=name: peer.sends(f"queue://OTHER,{name}", "1"),
            lambda name=name: peer.producer(f"queue://OTHER,{name}"),
        )
        for attempt in attempts:
            with pytest.raises(AuthorizationError, match=f"User u is not authorized to create: {name}"):
                attempt()
            assert not stage.has(name)
            assert not stage.has("queue://OTHER"), "a refused request leaves nothing behind"
            assert peer.state.consumers == {}
            assert peer.state.producers == {}
    with pytest.raises(AuthorizationError):
        peer.temporary()
    admin = stage.peer("a", user="admin")
    admin.creates(QUEUE)
    peer.sends(QUEUE, "fine")
    with pytest.raises(AuthorizationError):
        peer.removes(QUEUE)
    assert stage.view(QUEUE).pending == 1


def test_without_the_right_to_write_nothing_is_sent_or_made() -> None:
    stage = Stage(authorizer=RecordingAuthorizer(("u", "write", "queue://RO")))
    peer = stage.peer("p", user="u")
    attempts = (
        lambda: peer.sends("queue://RO", "1"),
        lambda: peer.sends("queue://NEW,queue://RO", "1"),
        lambda: peer.sends("queue://RO,topic://NEW", "1"),
        lambda: peer.producer("queue://RO"),
        lambda: peer.producer("queue://NEW,queue://RO"),
    )
    for attempt in attempts:
        with pytest.raises(AuthorizationError, match="User u is not authorized to write to: queue://RO"):
            attempt()
        assert not any(stage.has(name) for name in ("queue://RO", "queue://NEW", "topic://NEW"))
    stage.peer("a", user="admin").creates("queue://RO")
    with pytest.raises(AuthorizationError):
        peer.sends("queue://*", "1")
    assert stage.view("queue://RO").pending == 0


def test_without_the_right_to_read_nothing_is_consumed_browsed_or_made() -> None:
    stage = Stage(authorizer=RecordingAuthorizer(("u", "read", "queue://WO"), ("u", "read", "queue://DENIED.>")))
    peer = stage.peer("c", user="u")
    for text in ("queue://WO", "queue://NEW,queue://WO", "queue://WO?x=1"):
        for browser in (False, True):
            with pytest.raises((AuthorizationError, InvalidDestinationError)):
                peer.announces(text, browser=browser)
            assert not stage.has("queue://WO")
            assert not stage.has("queue://NEW")
    with pytest.raises(AuthorizationError, match=r"not authorized to read from: queue://DENIED\.>"):
        peer.announces("queue://DENIED.>")
    assert peer.state.consumers == {}


def test_a_wildcard_consumer_is_left_out_where_it_may_not_read() -> None:
    authorizer = RecordingAuthorizer(("u", "read", "queue://A.secret"), ("u", "read", "queue://A.later"))
    stage = Stage(authorizer=authorizer)
    producer = stage.peer("p")
    producer.sends("queue://A.secret", "no")
    producer.sends("queue://A.open", "yes")
    listener = stage.peer("c", user="u").consumes("queue://A.>")
    producer.sends("queue://A.later", "no")
    producer.sends("queue://A.secret", "no")
    producer.sends("queue://A.new", "also")
    assert listener.takes() == ["yes", "also"]
    assert ("u", "read", "queue://A.>") in authorizer.asked
    assert ("u", "read", "queue://A.later") in authorizer.asked
    assert stage.view("queue://A.secret").consumers == 0


def test_the_broker_asks_nobody_for_its_own_dead_letters() -> None:
    authorizer = RecordingAuthorizer(("*", "*", "queue://ActiveMQ.DLQ"))
    stage = Stage(authorizer=authorizer)
    stage.peer("p").sends(QUEUE, "1", expiration_ms=1)
    assert stage.view("queue://ActiveMQ.DLQ").pending == 1
    assert not any(name == "queue://ActiveMQ.DLQ" for _, _, name in authorizer.asked)
    with pytest.raises(AuthorizationError):
        stage.peer("c").consumes("queue://ActiveMQ.DLQ")


def test_rights_are_those_of_the_connection_and_not_of_the_message() -> None:
    stage = Stage(authorizer=RecordingAuthorizer(("u", "write", QUEUE)))
    stage.peer("a", user="admin").creates(QUEUE)
    with pytest.raises(AuthorizationError):
        stage.peer("p", user="u").sends(QUEUE, "1", connection_id="ID:a:1")


@pytest.mark.parametrize(
    "name",
    [
        "topic://ActiveMQ.Advisory.Connection",
        "topic://ActiveMQ.Advisory.Consumer.Queue.Q",
        "topic://ActiveMQ.Advisory.>",
        "queue://Q,topic://ActiveMQ.Advisory.Queue",
    ],
)
def test_s9_cve_2021_26118_clients_write_no_advisories_and_rights_hold_afterwards(name: str) -> None:
    stage = Stage(authorizer=RecordingAuthorizer(("u", "write", "queue://RO")))
    peer = stage.peer("p", user="u")
    listener = stage.peer("c").consumes("topic://ActiveMQ.Advisory.>,topic://ActiveMQ.Advisory.Queue")
    for attempt in (lambda: peer.sends(name, "forged"), lambda: peer.producer(name.replace(".>", ".X"))):
        with pytest.raises(AuthorizationError, match="is not authorized to write to"):
            attempt()
    assert listener.takes() == []
    assert not stage.has(QUEUE)
    with pytest.raises(AuthorizationError):
        peer.sends("queue://RO", "1")


def test_a_wildcard_send_leaves_advisory_topics_out() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes("topic://ActiveMQ.Advisory.Queue")
    ordinary = stage.peer("d").consumes("topic://ActiveMQ.Other")
    peer = stage.peer("p")
    peer.sends("topic://ActiveMQ.>", "1")
    peer.sends("topic://>", "2")
    assert listener.takes() == []
    assert ordinary.takes() == ["1", "2"]
