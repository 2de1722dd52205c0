"""Durable subscriptions of bridges that are taken up again: without a conduit, with another selector, and while the
messages of the one before are not answered.
"""

from __future__ import annotations

import logging

import pytest

from spanwire.model.destination import parse_destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import Inbox, Link, Network, Site

T = "topic://T"
UNSHARED = BridgeSettings(conduit=False)


def pair(settings: BridgeSettings) -> tuple[Network, Site, Site, Link]:
    network = Network()
    a, b = network.site("A"), network.site("B")
    return network, a, b, network.link(a, b, settings)


def break_off(*links: Link) -> None:
    for link in links:
        link.enabled = False
        link.breaks()


def subscribe(site: Site, selector: str | None = None) -> Inbox:
    """The durable subscriber ``s`` of the client ``c``."""
    inbox = site.client("c").consumes(T, durable="s", selector=selector)
    site.network.settles()
    return inbox


def go_away(inbox: Inbox) -> None:
    inbox._client.leaves()
    inbox._client.site.network.settles()


def unsubscribe(site: Site) -> None:
    client = site.client("c")
    site.broker.unsubscribe(client.state, "s", site.network.now)
    client.leaves()


def send(site: Site, *numbers: int) -> None:
    client = site.client()
    for number in numbers:
        client.sends(T, f"m{number}", properties={"n": number})
    site.network.settles()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def durable_names(site: Site) -> list[str]:
    return [terms.name for terms in site.broker.operations.durable_terms()]


def demand_count(link: Link) -> int:
    assert link.bridge is not None
    return link.bridge.demand_count


def test_pending_messages_of_a_route_are_forwarded_when_another_route_serves_the_subscriber() -> None:
    network = Network()
    a, b, c = (network.site(name) for name in "ABC")
    links = {}
    for near, far in ((a, b), (a, c), (c, b)):
        name = near.name + far.name
        settings = BridgeSettings(name=name, conduit=False, message_ttl=2, consumer_ttl=2, decrease_priority=False)
        links[name] = network.link(near, far, settings)
    links["AC"].enabled = False
    inbox = subscribe(b)
    break_off(links["AB"])
    send(a, 1)
    links["AC"].enabled = True
    network.settles()
    send(a, 2)
    assert inbox.texts == ["m2"]
    links["AB"].enabled = True
    network.settles()
    send(a, 3)
    assert inbox.texts == ["m2", "m1", "m3"]


def test_a_durable_subscriber_that_is_away_gets_what_was_sent_while_the_link_was_down() -> None:
    network, a, b, link = pair(UNSHARED)
    go_away(subscribe(b))
    break_off(link)
    send(a, 1)
    a.crashes()
    link.enabled = True
    network.settles()
    break_off(link)
    assert subscribe(b).texts == ["m1"]


def test_a_durable_subscription_keeps_its_selector_over_a_restart() -> None:
    network, a, b, link = pair(UNSHARED)
    go_away(subscribe(b, "n > 1"))
    break_off(link)
    send(a, 1, 2)
    a.crashes()
    link.enabled = True
    network.settles()
    send(a, 0, 3)
    assert link.bridge is not None and link.bridge.statistics().sent == 2
    assert subscribe(b, "n > 1").texts == ["m2", "m3"]
    assert demand_count(link) == 1


def test_a_durable_subscriber_that_comes_back_uses_the_subscription_that_it_had(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, a, b, link = pair(UNSHARED)
    go_away(subscribe(b))
    send(a, 1)
    assert subscribe(b).texts == ["m1"]
    assert (demand_count(link), warnings(caplog)) == (1, [])


@pytest.mark.parametrize("broken", [True, False])
def test_a_durable_subscriber_with_another_selector_gets_what_that_selects(broken: bool) -> None:
    network, a, b, link = pair(UNSHARED)
    go_away(subscribe(b, "n > 1"))
    if broken:
        break_off(link)
    send(a, 2)
    inbox = subscribe(b, "n < 1")
    link.enabled = True
    network.settles()
    send(a, 0, 3)
    assert inbox.texts == ["m0"]
    assert (demand_count(link), durable_names(a)) == (1, ["NC-DS_brokerA_T_c_s"])


def test_an_unsubscribe_ends_the_subscription_here_after_a_restart() -> None:
    network, a, b, link = pair(UNSHARED)
    go_away(subscribe(b))
    a.crashes()
    network.settles()
    assert demand_count(link) == 1
    unsubscribe(b)
    network.settles()
    assert (demand_count(link), durable_names(a)) == (0, [])


def test_consumers_of_a_forced_durable_topic_share_a_subscription_without_selector() -> None:
    _, a, b, link = pair(BridgeSettings(conduit=False, forced_durable=(parse_destination(T),)))
    inboxes = [b.client().consumes(T, selector=selector) for selector in ("n = 1", "n = 2")]
    b.network.settles()
    send(a, 1, 2)
    assert [inbox.texts for inbox in inboxes] == [["m1"], ["m2"]]
    assert (demand_count(link), durable_names(a)) == (1, ["NC-DS_brokerA_T"])


@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("conduit", [False, True])
def test_a_sync_makes_and_ends_durable_subscriptions(
    conduit: bool, duplex: bool, caplog: pytest.LogCaptureFixture
) -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    go_away(subscribe(b, "n > 1"))
    link = network.link(a, b, BridgeSettings(conduit=conduit, sync_durable=True, duplex=duplex))
    network.settles()
    assert durable_names(a) == ["NC-DS_brokerA_T" if conduit else "NC-DS_brokerA_T_c_s"]
    break_off(link)
    send(a, 1, 2)
    link.enabled = True
    network.settles()
    break_off(link)
    assert subscribe(b, "n > 1").texts == ["m2"]
    for client in list(b.clients):
        client.leaves()
    unsubscribe(b)
    link.enabled = True
    network.settles()
    assert (demand_count(link), durable_names(a), warnings(caplog)) == (0, [], [])


def test_a_connector_that_becomes_a_conduit_loses_no_message() -> None:
    network, a, b, link = pair(UNSHARED)
    go_away(subscribe(b, "n > 1"))
    break_off(link)
    send(a, 1, 2)
    link.settings = BridgeSettings()
    link.enabled = True
    network.settles()
    other = b.client("other").consumes(T, durable="o")
    network.settles()
    send(a, 1)
    assert (subscribe(b, "n > 1").texts, other.texts) == (["m2"], ["m1"])


@pytest.mark.parametrize("settings", [BridgeSettings(), UNSHARED])
def test_a_durable_subscription_that_is_made_anew_is_served_while_a_message_is_not_answered(
    settings: BridgeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    network, a, b, link = pair(settings)
    go_away(subscribe(b))
    link.stalled = True
    send(a, 1)
    unsubscribe(b)
    inbox = subscribe(b)
    link.stalled = False
    network.settles()
    send(a, 2)
    assert inbox.texts == ["m1", "m2"]  # the first one arrives after the subscription
    assert (demand_count(link), len(durable_names(a)), warnings(caplog)) == (1, 1, [])


@pytest.mark.parametrize("conduit", [False, True])
def test_a_subscriber_that_comes_back_while_a_message_is_not_answered_gets_it_once(
    conduit: bool, caplog: pytest.LogCaptureFixture
) -> None:
    network, a, b, link = pair(BridgeSettings(conduit=conduit, dynamic_only=True))
    inbox = subscribe(b)
    link.stalled = True
    send(a, 1, 2)
    go_away(inbox)
    inbox = subscribe(b)
    link.stalled = False
    network.settles()
    send(a, 3)
    assert sorted(inbox.texts) == ["m1", "m2", "m3"]
    assert (demand_count(link), warnings(caplog)) == (1, [])
