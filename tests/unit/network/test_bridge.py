"""A one-way bridge between two brokers: demand, forwarding, answers, breaks."""

from __future__ import annotations

from spanwire.network.settings import BridgeSettings
from tests.support.network_dialogue import Network


def test_a_message_crosses_to_the_broker_of_its_consumer() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    link = network.link(a, b, BridgeSettings(name="toB"))
    inbox = b.client().consumes("queue://Q")
    network.settles()
    assert link.running
    a.client().sends("queue://Q", "one")
    network.settles()
    assert inbox.texts == ["one"]
    assert a.queue("Q") == (1, 1, 0)
    assert inbox.received[0].path == ("A",)
