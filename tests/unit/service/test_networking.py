"""Network connectors that operators add: their number, names and arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from spanwire.model.destination import parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.network.bridge.bridge_statistics import LinkCounts, LinkFailures
from spanwire.network.connector.link import NetworkConnectorSettings
from spanwire.network.connector.network_connector import NetworkConnector
from spanwire.service.networking.network_connectors import MAX_CONNECTORS
from spanwire.service.networking.networking import Networking
from tests.support.dialogue.broker_dialogue import Stage

URI = "static:(tcp://b:61616)"


class Counted:
    """Duck-typed to `Link`."""

    def __init__(self) -> None:
        self.counts = LinkCounts()
        self.counts.inbound.count(parse_destination("queue://Q"))
        self.counts.outbound.count(parse_destination("queue://Q"))
        self.resets = 0

    def view(self) -> SimpleNamespace:
        return SimpleNamespace(uri="tcp://b:61616")

    def reset(self) -> None:
        self.resets += 1


class Connector:
    """Duck-typed to `NetworkConnector`; its views are empty."""

    def __init__(self, settings: object) -> None:
        self.settings = settings
        self.is_ended = False
        self.is_started = True
        self.started_ms = self.stopped_ms = 0
        self.link = Counted()

    async def start(self, own: object) -> None:
        if "refused" in str(self.settings):
            raise ConfigurationError("the group cannot be joined")

    def end(self) -> None:
        self.is_ended = True

    def views(self) -> list[object]:
        return []

    def failures(self) -> LinkFailures:
        failures = LinkFailures()
        failures.attempts, failures.breaks, failures.local = 3, 2, 1
        return failures

    def links(self) -> list[Counted]:
        return [self.link]

    def counts(self) -> list[tuple[object, LinkCounts]]:
        counts = LinkCounts()
        counts.inbound.count(parse_destination("queue://Q"))
        name = cast(NetworkConnectorSettings, self.settings).bridge.name
        return [(SimpleNamespace(name=name, uri=URI, remote="b"), counts)]


def networking() -> Networking:
    """Networking as after the start of a broker."""
    started = Networking(())
    started.connectors._make = lambda settings: cast(NetworkConnector, Connector(settings))
    return started


def added(started: Networking, **arguments: object) -> None:
    asyncio.run(started.connectors.add_connector(cast(Mapping[str, object], {"uri": URI, **arguments})))


def names(started: Networking) -> list[object]:
    return [view["name"] for view in started.settings_views()]


def test_connectors_without_a_name_get_one() -> None:
    started = networking()
    for _ in range(3):
        added(started)
    assert names(started) == ["NC", "NC-2", "NC-3"]
    asyncio.run(started.connectors.remove_connectors({"connectors": ["NC"]}))
    added(started)
    assert names(started) == ["NC-2", "NC-3", "NC"]


def test_a_connector_may_come_while_the_counts_of_links_are_read() -> None:
    started = networking()
    started._broker = Stage().broker
    for _ in range(2):
        added(started)
    rows = started.count_rows()
    assert next(rows)["name"] == "NC"
    added(started)
    assert [row["name"] for row in rows] == ["NC-2"]


def test_a_broker_has_a_bounded_number_of_network_connectors() -> None:
    started = networking()
    for _ in range(MAX_CONNECTORS):
        added(started)
    with pytest.raises(ConfigurationError, match="there are 100 network connectors"):
        added(started)


def test_a_connector_that_cannot_start_is_not_kept() -> None:
    started = networking()
    with pytest.raises(ConfigurationError, match="cannot be joined"):
        added(started, name="refused")
    assert names(started) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"uri": 1},
        {"uri": URI, "name": ""},
        {"uri": URI, "name": 1},
        {"uri": URI, "settings": []},
        {"uri": URI, "settings": {"duplex": True}},
        {"uri": URI, "settings": {"colour": "red"}},
    ],
)
def test_a_bad_argument_adds_nothing(arguments: dict[str, object]) -> None:
    started = networking()
    with pytest.raises(ConfigurationError):
        asyncio.run(started.connectors.add_connector(arguments))
    assert names(started) == []


def test_an_added_connector_makes_room_for_one_of_the_file() -> None:
    started = networking()
    added(started, name="link")
    (former,) = started.connectors._connectors.values()
    configured = former.settings
    asyncio.run(started.connectors.replace((), (configured,)))
    assert cast(Connector, former).is_ended
    assert names(started) == ["link"]


def test_the_settings_of_a_connector_have_its_course() -> None:
    started = networking()
    added(started)
    (view,) = started.settings_views()
    assert {key: view[key] for key in ("started_ms", "attempts_failed", "local_failures", "remote_failures")} == {
        "started_ms": 0, "attempts_failed": 3, "local_failures": 1, "remote_failures": 2,
    }  # fmt: skip


def test_counters_of_a_link_are_reset_all_or_those_of_a_destination() -> None:
    started = networking()
    started._broker = Stage().broker
    added(started)
    link = cast(Connector, started.connectors._connectors["NC"]).link
    one = {"name": "NC", "uri": "tcp://b:61616", "direction": "inbound", "destination": "queue://Q"}
    asyncio.run(started.reset_link(one))
    assert link.counts.rows() == [("outbound", "queue://Q", 1), ("inbound", "queue://Q", 0)]
    assert link.resets == 0
    asyncio.run(started.reset_link({"name": "NC", "uri": "tcp://b:61616"}))
    assert link.resets == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "NC", "uri": "tcp://c:1"},
        {"name": "other", "uri": "tcp://b:61616"},
        {"name": "NC", "uri": "tcp://b:61616", "direction": "up"},
        {"name": "NC", "uri": "tcp://b:61616", "destination": 1},
    ],
)
def test_a_reset_of_no_link_is_refused(arguments: dict[str, object]) -> None:
    started = networking()
    started._broker = Stage().broker
    added(started)
    with pytest.raises(ConfigurationError):
        asyncio.run(started.reset_link(arguments))
