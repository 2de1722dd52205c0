from __future__ import annotations

import threading

import pytest

from spanwire.model.errors import JmsError
from spanwire.pipeline.link.control_answers import ControlError
from spanwire.pipeline.watch.board import StatusBoard
from spanwire.pipeline.watch.broker_status import MAX_BROKERS, nameable, status_links
from spanwire.pipeline.watch.publisher import MAX_PAUSE_S, PUBLISH_S, BrokerPublisher, StatusLink, publishing
from spanwire.pipeline.watch.status import FAILED, RUNNING, STOPPED, PipelineStatus, RouteStatus


class Link:
    """A broker that does what a test says."""

    def __init__(self) -> None:
        self.published: list[PipelineStatus] = []
        self.error: Exception | None = None
        self.must_stop = False
        self.opened = self.closed = 0

    def connect(self) -> StatusLink:
        self.opened += 1
        return self

    def publish(self, status: PipelineStatus, text: str) -> bool:
        if self.error is not None:
            raise self.error
        assert text
        self.published.append(status)
        return self.must_stop

    def close(self) -> None:
        self.closed += 1


def board() -> StatusBoard:
    made = StatusBoard("p", "r", "h", 0)
    made.add(RouteStatus("orders", RUNNING))
    return made


def test_the_status_is_published_again_over_one_connection_and_a_stop_is_heard() -> None:
    link, stop = Link(), threading.Event()
    publisher = BrokerPublisher(board(), link.connect, stop.set, lambda: 7)
    assert publisher.publish() == publisher.publish() == PUBLISH_S
    assert (link.opened, [one.at_ms for one in link.published], stop.is_set()) == (1, [7, 7], False)
    link.must_stop = True
    publisher.publish()
    assert stop.is_set()


def test_a_broker_that_is_away_is_tried_ever_later_over_a_new_connection() -> None:
    link = Link()
    publisher = BrokerPublisher(board(), link.connect, lambda: None, lambda: 7)
    link.error = JmsError("away")
    pauses = [publisher.publish() for _ in range(6)]
    assert pauses == [10.0, 20.0, 40.0, MAX_PAUSE_S, MAX_PAUSE_S, MAX_PAUSE_S]
    assert link.opened == link.closed == 6 and not publisher.has_given_up
    link.error = None
    assert publisher.publish() == PUBLISH_S


@pytest.mark.parametrize("code", ["malformed", "unauthorized"])
def test_a_broker_that_will_never_take_the_status_is_left_alone(code: str) -> None:
    link = Link()
    link.error = ControlError(code, f"{code}: no")
    publisher = BrokerPublisher(board(), link.connect, lambda: None, lambda: 7)
    publisher.publish()
    assert publisher.has_given_up


def test_a_broker_that_is_no_spanwire_gets_nothing() -> None:
    publisher = BrokerPublisher(board(), lambda: None, lambda: None, lambda: 7)
    publisher.publish()
    assert publisher.has_given_up


def test_the_last_status_says_that_the_routes_are_stopped() -> None:
    link = Link()
    with publishing(board(), [link.connect], lambda: None, lambda: 7):
        pass
    assert link.published[-1].routes[0].state == STOPPED and link.closed == 1


def test_the_last_status_has_the_error_that_ended_the_program() -> None:
    link = Link()
    with pytest.raises(JmsError), publishing(board(), [link.connect], lambda: None, lambda: 7):
        raise JmsError("no Java")
    last = link.published[-1].routes[0]
    assert (last.state, last.last_error) == (FAILED, "no Java")


def test_each_broker_of_a_pipeline_gets_one_connection() -> None:
    a, b = {"url": "tcp://a:1", "destination": "queue://A"}, {"url": "tcp://b:1", "clientId": "x", "cursor": "c"}
    assert len(status_links([a, b, a, {**a, "user": "u", "password": "p"}])) == 3
    assert len(status_links({"url": f"tcp://a:{number}"} for number in range(1, 99))) == MAX_BROKERS
    assert status_links([{"url": "nonsense://"}]) == []


def test_names_that_a_broker_refuses_are_made_acceptable() -> None:
    assert nameable("my routes (new).yaml") == "my_routes_new_.yaml"
    assert nameable("") == "_" and len(nameable("x" * 500)) == 100
