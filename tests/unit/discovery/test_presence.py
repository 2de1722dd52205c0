"""Who of a group is there, and of how many connectors a broker may tell it."""

from __future__ import annotations

import pytest

from spanwire.discovery.agents.presence import MAX_ANNOUNCED, AnnouncedConnectors, Presence
from spanwire.model.errors import ConfigurationError


class Deaf:
    """A listener that does nothing."""

    def on_found(self, uri: str) -> None: ...

    def on_lost(self, uri: str) -> None: ...


def test_connectors_are_announced_in_their_order_until_there_are_none() -> None:
    announced = AnnouncedConnectors()
    announced.add("tcp://b:1")
    announced.add("tcp://a:2")
    assert announced.uris() == ("tcp://b:1", "tcp://a:2")
    announced.clear()
    assert announced.uris() == ()


def test_a_withdrawn_connector_is_announced_no_more() -> None:
    announced = AnnouncedConnectors()
    announced.add("tcp://a:1")
    announced.add("tcp://b:1")
    assert (announced.remove("tcp://a:1"), announced.remove("tcp://a:1")) == (True, False)
    assert announced.uris() == ("tcp://b:1",)


def test_a_broker_announces_only_so_many_connectors() -> None:
    announced = AnnouncedConnectors()
    for port in range(MAX_ANNOUNCED):
        announced.add(f"tcp://a:{port}")
    with pytest.raises(ConfigurationError, match="a broker announces 100 connectors at most"):
        announced.add("tcp://a:61616")
    assert len(announced.uris()) == MAX_ANNOUNCED


def test_a_group_is_watched_only_for_a_listener() -> None:
    assert Presence("sales", Deaf()).is_watched
    assert not Presence("sales", None).is_watched
