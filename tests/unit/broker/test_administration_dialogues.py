"""What an operator sees of a broker as a whole, and what he removes: subscriptions, destinations, connections."""

from __future__ import annotations

import pytest

from spanwire.broker.admin.views import ConsumerView, DurableView
from spanwire.model.destination import parse_destination as parsed
from spanwire.model.errors import InvalidDestinationError, JmsError
from spanwire.model.info import ConnectionInfo
from tests.support.dialogue.broker_dialogue import Stage

MESSAGE_ADVISORIES = "topic://NEWS"


def away(stage: Stage, client_id: str, name: str, topic: str = MESSAGE_ADVISORIES, selector: str | None = None) -> None:
    peer = stage.peer(f"{client_id}-{name}", client_id)
    peer.consumes(topic, durable=name, selector=selector)
    peer.leaves()


def durable(stage: Stage, name: str) -> DurableView:
    overview = stage.broker.overview
    (found,) = [durable for durable in overview.durables() if durable.terms.name == name]
    return overview.durable_view(found, stage.now.monotonic)


def test_messages_for_absent_durable_subscribers_are_counted() -> None:
    stage = Stage()
    away(stage, "app", "plain")
    away(stage, "app", "all", "topic://>")
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1", "2", "3")
    totals = stage.broker.statistics()
    assert (totals.pending, totals.durable_pending) == (6, 6)
    assert (totals.durable_subscriptions, totals.durable_subscriptions_away) == (2, 2)
    assert (stage.view(MESSAGE_ADVISORIES).pending, stage.view(MESSAGE_ADVISORIES).durable_subscriptions) == (3, 2)


def test_a_durable_subscription_shows_its_terms_backlog_and_absence() -> None:
    stage = Stage()
    away(stage, "app", "some", selector="a = 1")
    stage.waits(90)
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1", properties={"a": 1})
    view = durable(stage, "some")
    assert (view.client_id, view.topic, view.selector, view.active) == ("app", MESSAGE_ADVISORIES, "a = 1", False)
    assert (view.away_s, view.pending, view.in_flight) == (90, 1, 0)
    stage.peer("again", "app").consumes(MESSAGE_ADVISORIES, durable="some", selector="a = 1")
    view = durable(stage, "some")
    assert (view.active, view.away_s, view.pending, view.in_flight) == (True, None, 1, 1)


def test_a_full_disk_and_the_use_of_the_store_are_told() -> None:
    stage = Stage()
    assert not stage.broker.statistics().disk_full
    stage.has_room(False)
    assert stage.broker.statistics().disk_full
    assert stage.broker.statistics().store_bytes == stage.store.used_bytes()


def test_consumers_are_listed_with_their_clients() -> None:
    stage = Stage()
    stage.peer("c", "app").consumes("queue://Q", selector="a = 1")
    stage.peer("p").sends("queue://Q", "1", properties={"a": 1})
    overview = stage.broker.overview
    (view,) = [
        overview.consumer_view(state, one) for state in overview.connections() for one in overview.consumers(state)
    ]
    assert isinstance(view, ConsumerView)
    assert (view.client_id, view.destination, view.selector, view.in_flight) == ("app", "queue://Q", "a = 1", 1)


def test_producers_are_listed_with_their_clients() -> None:
    stage = Stage()
    peer = stage.peer("p", "app")
    peer.producer("queue://Q", 1)
    peer.producer(None, 2)
    overview = stage.broker.overview
    (state,) = overview.connections()
    views = {one.destination: one for one in [overview.producer_view(state, one) for one in overview.producers(state)]}
    assert views.keys() == {"queue://Q", None}
    assert (views["queue://Q"].client_id, views["queue://Q"].window_bytes) == ("app", 0)


def test_totals_over_destinations_are_left_out_on_request() -> None:
    stage = Stage()
    stage.peer("p").sends("queue://Q", "1")
    overview = stage.broker.overview
    with_totals = overview.statistics()
    totals = overview.totals(with_destinations=False)
    while totals.add():
        pass
    without = overview.statistics_of(totals)
    assert (with_totals.enqueued, with_totals.pending) == (1, 1)
    assert (without.enqueued, without.pending, without.connections) == (0, 0, with_totals.connections)


def test_an_operator_logs_in_without_a_connection() -> None:
    stage = Stage()
    before = stage.broker.statistics().connections
    principal = stage.broker.administration.log_in(ConnectionInfo("", user_name="anna"), stage.now)
    assert principal.groups == frozenset()
    assert stage.broker.statistics().connections == before


def test_an_operator_removes_the_subscription_of_an_absent_client() -> None:
    stage = Stage()
    away(stage, "app", "gone")
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1", "2")
    assert stage.broker.administration.remove_subscription("app", "gone", stage.now) == 2
    stage.settle()
    assert stage.broker.statistics().durable_subscriptions == 0
    assert stage.memory() == 0
    stage.restarts()
    assert stage.broker.statistics().durable_subscriptions == 0


def test_a_subscription_in_use_or_unknown_is_not_removed() -> None:
    stage = Stage()
    stage.peer("c", "app").consumes(MESSAGE_ADVISORIES, durable="used")
    with pytest.raises(JmsError, match="in use"):
        stage.broker.administration.remove_subscription("app", "used", stage.now)
    with pytest.raises(InvalidDestinationError, match="No durable subscription exists"):
        stage.broker.administration.remove_subscription("other", "used", stage.now)
    assert stage.broker.statistics().durable_subscriptions == 1


def test_only_what_is_empty_and_unused_is_deleted() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes("queue://USED")
    stage.peer("p").sends("queue://FULL", "1")
    away(stage, "app", "s")
    stage.peer("t").sends(MESSAGE_ADVISORIES, "1")
    for name, reason in (
        ("queue://USED", "1 consumers"),
        ("queue://FULL", "1 messages"),
        (MESSAGE_ADVISORIES, "1 durable"),
    ):
        with pytest.raises(JmsError, match=reason):
            stage.broker.administration.remove_destination(parsed(name), stage.now)
        assert stage.has(name)
    with pytest.raises(InvalidDestinationError, match="there is no queue://NONE"):
        stage.broker.administration.remove_destination(parsed("queue://NONE"), stage.now)
    listener.leaves()
    stage.broker.administration.remove_destination(parsed("queue://USED"), stage.now)
    assert not stage.has("queue://USED")


def test_a_disconnected_client_gives_its_messages_back_and_hears_why() -> None:
    stage = Stage()
    peer, other = stage.peer("c", "app"), stage.peer("d", "other")
    peer.consumes("queue://Q")
    stage.peer("p").sends("queue://Q", "1")
    assert stage.broker.administration.disconnect("app", stage.now) == [peer.connection_id]
    assert peer.state.removed
    assert "an operator has disconnected" in str(peer.closed_with)
    assert other.consumes("queue://Q").takes() == ["1"]
    assert stage.broker.administration.disconnect("app", stage.now) == []


def test_a_queue_for_which_messages_still_wait_for_the_disk_is_not_removed() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends("queue://Q", "a", transaction=1)
    token = producer.commits(1)
    with pytest.raises(JmsError, match="queue://Q has 1 messages: purge it first"):
        stage.broker.administration.remove_destination(parsed("queue://Q"), stage.now)
    stage.settle()
    assert producer.is_answered(token)
    assert stage.peer("c").consumes("queue://Q").takes() == ["a"]
