"""Brokers that nobody has named are all called localhost: their links stay up side by side, and nothing is lost."""

from __future__ import annotations

import logging

import pytest

from spanwire.model.routing import UNNAMED
from spanwire.network.bridge.remote_broker import refusal_text
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.network.demand.remote_registry import RemoteBrokerRegistry, name_elsewhere
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from tests.support.network_dialogue import Link, Network, Site
from tests.unit.network.test_false_brokers import Impostor

T = "topic://T"
CLIENT_ID = "NC_localhost_outbound"  # of ActiveMQ's connectors without a name, at brokers without one


def unnamed(network: Network, name: str) -> Site:
    return network.site(name, broker_name=UNNAMED)


def check_up(links: list[Link]) -> None:
    assert all(link.running and not link.reasons for link in links), [link.reasons for link in links]


@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("hub_name", ["hub", UNNAMED])
def test_leaves_without_a_name_send_topic_messages_to_one_hub(duplex: bool, hub_name: str) -> None:
    network = Network()
    hub = network.site("H", broker_name=hub_name)
    leaves = [unnamed(network, name) for name in "XYZ"]
    links = [network.link(leaf, hub, BridgeSettings(duplex=duplex)) for leaf in leaves]
    inbox = hub.client().consumes(T)
    network.settles()
    for number in range(5):
        for leaf in leaves:
            leaf.client().sends(T, f"{leaf.name}{number}", persistent=False)
        network.settles()
    assert sorted(inbox.texts) == sorted(f"{name}{number}" for name in "XYZ" for number in range(5))
    check_up(links)


def test_a_hub_sends_topic_messages_to_durable_subscribers_at_leaves_without_a_name() -> None:
    for duplex in (False, True):
        network = Network()
        hub = network.site("H")
        leaves = [unnamed(network, name) for name in "XYZ"]
        links = [
            network.link(leaf, hub, BridgeSettings(duplex=True))
            if duplex
            else network.link(hub, leaf, BridgeSettings())
            for leaf in leaves
        ]
        inboxes = [leaf.client("subscriber").consumes(T, durable="s") for leaf in leaves]
        network.settles()
        hub.client().sends(T, "one")
        network.settles()
        links[1].breaks()
        hub.client().sends(T, "two")
        network.settles()
        assert [inbox.texts for inbox in inboxes] == [["one", "two"]] * 3
        lines = {key.partition(":")[2] for key in hub.broker.assembly.map.durables}
        assert lines == {
            f"NC_{label}_inbound_brokerH:NC-DS_brokerH_T" for label in ("localhost", "localhost-2", "localhost-3")
        }


def test_brokers_without_a_name_that_are_all_linked_stay_linked() -> None:
    network = Network()
    sites = [unnamed(network, name) for name in "XYZ"]
    links = [network.link(near, far, BridgeSettings()) for near in sites for far in sites if near is not far]
    inboxes = [site.client().consumes(T) for site in sites]
    network.settles()
    for site in sites:
        site.client().sends(T, site.name)
    network.settles()
    check_up(links)
    assert [sorted(inbox.texts) for inbox in inboxes] == [["X", "Y", "Z"]] * 3


def test_a_broker_without_a_name_takes_its_own_broken_connection_over_at_once() -> None:
    network = Network()
    hub, leaf, other = network.site("H"), unnamed(network, "X"), unnamed(network, "Y")
    link, link_of_other = (network.link(one, hub, BridgeSettings()) for one in (leaf, other))
    network.settles()
    broken, half_open = link.bridge, link.peer
    assert broken is not None and half_open is not None
    link.bridge, link.peer = None, None  # the leaf has noticed the break, the hub has not
    broken.receive_eof(network.now)
    network.settles()
    assert half_open.closed
    check_up([link, link_of_other])


def test_leaves_of_another_kind_with_one_client_id_are_told_apart_by_their_ids() -> None:
    hub = Network().site("H")
    first, second, third = (Impostor(hub) for _ in range(3))
    for number, (leaf, broker_id) in enumerate([(first, "X"), (second, "Y"), (third, "X")]):
        leaf.introduces(broker_id, UNNAMED)
        leaf.says(wire.ConnectionInfo(connection_id=wire.ConnectionId(f"ID:{number}"), client_id=CLIENT_ID))
    assert [leaf.is_refused for leaf in (second, third)] == [False, False]
    assert [leaf.connection.closed for leaf in (first, second, third)] == [True, False, False]


def test_labels_are_free_again_when_the_last_link_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    registry = RemoteBrokerRegistry()
    for broker_id in ("X", "X", "Y"):
        registry.add_link(broker_id, UNNAMED, "H", "hub")
        registry.reserve_label(broker_id, UNNAMED)
    assert [registry.label(one, UNNAMED) for one in "XYZ"] == ["localhost", "localhost-2", "localhost-3"]
    (warning,) = caplog.messages
    assert "brokerId Y has no brokerName" in warning and "give each broker a brokerName" in warning
    registry.remove_link("X")
    assert registry.label("Z", UNNAMED) == "localhost-3"
    registry.remove_link("X")
    assert registry.label("Z", UNNAMED) == "localhost"
    assert registry.label("Z", "named") == "named"


def test_a_broker_without_a_name_has_its_id_in_its_client_ids_at_others() -> None:
    assert name_elsewhere("X", "brokerX") == "brokerX"
    assert name_elsewhere("X", UNNAMED) == "localhost-X"


@pytest.mark.parametrize(("name", "duplex"), [(UNNAMED, True), (UNNAMED, False), ("brokerX", True)])
def test_a_duplex_link_that_ends_before_it_is_up_leads_to_a_hint_at_the_name(name: str, duplex: bool) -> None:
    network = Network()
    leaf, hub = network.site("X", broker_name=name), network.site("H")
    link = network.link(leaf, hub, BridgeSettings(duplex=duplex))
    link.connects()
    while link.bridge is not None and link.bridge.remote_name == "":
        link.flush()
        link.deliver(1)
    bridge = link.bridge
    assert bridge is not None
    bridge.receive_data(FrameEncoder(WireFormat()).encode(wire.ShutdownInfo()), network.now)
    assert ("give each broker a brokerName" in bridge.reason) == (name == UNNAMED and duplex), bridge.reason


def test_a_client_id_that_is_taken_leads_to_a_hint_at_the_name() -> None:
    taken = Throwable("javax.jms.InvalidClientIDException", "Client: NC_localhost_outbound already connected")
    assert refusal_text(taken).endswith("give each broker a brokerName of its own, and each of its connectors a name")
    assert refusal_text(Throwable("java.io.IOException", "no")) == "java.io.IOException: no"
