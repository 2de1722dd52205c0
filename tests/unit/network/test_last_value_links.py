"""Last-value queues at both ends of a link: what waits is forwarded, and each broker keeps the last of what it has."""

from __future__ import annotations

from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.model.destination import parse_destination
from tests.support.network_dialogue import Network, Site

Q = "queue://Q"
KEY = "_AMQ_LVQ_NAME"
LAST_VALUES = PolicyMap([PolicyEntry(parse_destination("queue://>"), queue=QueuePolicy(last_value=True))])


def send(network: Network, site: Site, *texts: str) -> None:
    """Send texts such as ``1a``, whose first character is the key."""
    for text in texts:
        site.client().sends(Q, text, properties={KEY: int(text[0])})
        network.settles()


def test_what_was_replaced_is_not_forwarded_and_what_comes_over_a_link_replaces() -> None:
    network = Network()
    near, far = [network.site(name, policies=LAST_VALUES) for name in "AB"]
    network.link(near, far)
    network.settles()
    send(network, near, "1a", "2a", "1b")
    inbox = far.client().consumes(Q, prefetch=1, manual=True)
    network.settles()
    send(network, near, "1c", "2b", "2c", "1d")
    read: list[str] = []
    for _ in range(6):
        read += [one.text for one in inbox.reads(1)]
        network.settles()
    assert read[0] == "2a"  # it was out at the consumer when newer ones came
    assert read[1:] == ["2c", "1d"]
