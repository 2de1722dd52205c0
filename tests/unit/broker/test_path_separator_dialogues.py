"""Clients may write another separator than a dot; there is one destination for both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.plugins.event_log import EventLogSettings
from spanwire.broker.plugins.path_separator_plugin import MAX_KNOWN, dotted
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.model.destination import QUEUE, Destination, check_name
from spanwire.model.errors import InvalidDestinationError
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.support.dialogue.text_format import original_of

SLASHES = PluginSettings(path_separator="/")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("queue://a/b", "queue://a.b"),
        ("topic://a/*/c", "topic://a.*.c"),
        ("topic://a/>", "topic://a.>"),
        ("queue:///a//b /", "queue://a.b"),
        ("queue://a.b", "queue://a.b"),
        ("queue://a/b,topic://c/d,e", "queue://a.b,topic://c.d,e"),
        ("queue://a,b/c", "queue://a,b.c"),
        ("temp-queue://ID:host/1:1", "temp-queue://ID:host/1:1"),
    ],
)
def test_names_are_written_with_dots(name: str, expected: str) -> None:
    assert dotted(destination(name), "/") == destination(expected)


def test_a_name_of_separators_alone_is_none() -> None:
    with pytest.raises(InvalidDestinationError, match="empty name"):
        dotted(destination("queue:////"), "/")


@given(st.text(alphabet="ab/. ", min_size=1, max_size=12))
def test_what_has_its_dots_stays_as_it_is(name: str) -> None:
    try:
        check_name(name)
        once = dotted(Destination(QUEUE, name), "/")
    except InvalidDestinationError:
        return
    assert "/" not in once.name
    assert dotted(once, "/") == once


def test_whoever_uses_either_separator_meets_at_one_destination() -> None:
    stage = Stage(plugins=SLASHES)
    peer = stage.peer("p")
    peer.producer("queue://a/b")
    peer.sends("queue://a/b", "1")
    peer.sends("queue://a.b", "2")
    listener = stage.peer("c").consumes("queue://a/b")
    assert listener.takes() == ["1", "2"]
    assert {original_of(delivery.message) for delivery in listener.deliveries} == {None}
    assert {str(delivery.message.destination) for delivery in listener.deliveries} == {"queue://a.b"}
    assert stage.view("queue://a.b").producers == 1
    assert not stage.has("queue://a/b")
    stage.settle()
    again = stage.restarts()
    reader = again.peer("d").consumes("queue://a.b")
    again.settle()
    assert reader.takes() == ["1", "2"]


def test_wildcards_and_transactions_know_the_separator() -> None:
    stage = Stage(plugins=SLASHES)
    listener = stage.peer("c").consumes("topic://a/*")
    peer = stage.peer("p")
    peer.begins(1)
    peer.sends("topic://a/b", "1", transaction=1)
    peer.commits(1)
    stage.settle()
    assert listener.takes() == ["1"]


def test_destinations_are_made_and_removed_by_either_name() -> None:
    stage = Stage(plugins=SLASHES)
    peer = stage.peer("p")
    peer.creates("queue://a/b")
    assert stage.has("queue://a.b")
    peer.removes("queue://a/b")
    assert not stage.has("queue://a.b")


def test_temporary_destinations_keep_their_names() -> None:
    stage = Stage(plugins=SLASHES)
    peer = stage.peer("a/b")
    name = peer.temporary()
    listener = peer.consumes(name)
    stage.peer("p").sends(name, "1")
    assert listener.takes() == ["1"]


def test_another_character_can_be_the_separator() -> None:
    stage = Stage(plugins=PluginSettings(path_separator="|"))
    stage.peer("p").sends("queue://a|b/c", "1")
    assert stage.has("queue://a.b/c")


def test_a_broker_that_logs_events_can_have_one_too() -> None:
    stage = Stage(plugins=PluginSettings(path_separator="/", event_log=EventLogSettings()))
    stage.peer("p").sends("queue://a/b", "1")
    assert stage.has("queue://a.b")


def test_without_the_plugin_a_slash_is_a_character_like_any_other() -> None:
    stage = Stage()
    stage.peer("p").sends("queue://a/b", "1")
    assert stage.has("queue://a/b")


def test_many_names_are_remembered_and_forgotten() -> None:
    stage = Stage(plugins=SLASHES)
    peer = stage.peer("p")
    for number in range(MAX_KNOWN + 2):
        peer.sends(f"topic://a/{number}", "1")
    assert stage.has(f"topic://a.{MAX_KNOWN + 1}")
