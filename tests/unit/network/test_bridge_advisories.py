"""Bridges that come and go are told on a topic of their own (ActiveMQ, "Advisory Message")."""

from __future__ import annotations

import pytest

from spanwire.model.message import FORMAT_OPENWIRE_10
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import decode_message
from spanwire.protocols.primitive_map import decode_map
from tests.support.network_dialogue import Inbox, Network

BRIDGES = "topic://ActiveMQ.Advisory.NetworkBridge"


def told(inbox: Inbox) -> list[dict[str, object]]:
    """The properties of each advisory beside those of its origin, and the broker that it carries."""
    found: list[dict[str, object]] = []
    for one in inbox.received:
        advisory = decode_message(one.message.raw, 12)
        every = decode_map(advisory.marshalled_properties or b"")
        properties = {name: value for name, (_, value) in every.items() if not name.startswith("origin")}
        carried = advisory.data_structure
        assert isinstance(carried, wire.BrokerInfo)
        assert carried.broker_id is not None
        found.append({**properties, "broker": carried.broker_name, "id": carried.broker_id.value})
    return found


def test_a_bridge_is_told_when_it_starts_and_when_it_ends() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    listener = a.client().consumes(BRIDGES)
    link = network.link(a, b)
    network.settles()
    late = a.client().consumes(BRIDGES)
    link.breaks()
    network.settles()
    first = told(listener)
    assert first[0] == {
        "started": True,
        "createdByDuplex": False,
        "remoteIp": "",  # B says none here
        "broker": "brokerB",
        "id": "B",
    }
    assert first[1] == {"started": False, "broker": "brokerB", "id": "B"}
    assert told(late)[:2] == first[:2]


@pytest.mark.parametrize("duplex", [False, True])
def test_the_other_end_of_a_duplex_link_is_a_bridge_too(duplex: bool) -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    there = b.client().consumes(BRIDGES)
    network.link(a, b, BridgeSettings(duplex=duplex))
    network.settles()
    assert [(one["started"], one["createdByDuplex"], one["id"]) for one in told(there)] == [(True, True, "A")] * duplex


@pytest.mark.parametrize("asked", [False, True])
def test_a_message_that_could_not_be_forwarded_is_told_with_its_cause_where_that_is_asked_for(asked: bool) -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    listener = a.client().consumes("topic://ActiveMQ.Advisory.NetworkBridge.ForwardFailure")
    link = network.link(a, b, BridgeSettings(tells_failures=asked))
    consumer = b.client()
    queue = consumer.temporary_queue().qualified_name
    consumer.consumes(queue)
    network.settles()
    link.stalled = True
    sent = a.client().sends(queue, "late", persistent=False)
    network.settles()
    consumer.leaves()
    network.settles()
    link.stalled = False
    network.settles()
    assert len(listener.received) == asked
    for one in listener.received:
        advisory = decode_message(one.message.raw, 12)
        _, cause = decode_map(advisory.marshalled_properties or b"")["cause"]
        assert queue.partition("//")[2] in str(cause)
        told_of = advisory.data_structure
        assert isinstance(told_of, wire.ActiveMQTextMessage) and told_of.content is not None
        assert sent.format_id == FORMAT_OPENWIRE_10 and told_of.content.endswith(b"late")
