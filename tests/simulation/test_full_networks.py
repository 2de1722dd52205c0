"""Networks whose brokers are all at their memory limit, with messages on no disk, drain when somebody consumes."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from spanwire.broker.dispatch.memory_usage import EMPTY_SHARE, HOP_SHARE, MAX_HOP_SHARES, OVERSHOOT_SHARE, MemoryUsage
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import Inbox, Network, Site

LIMIT = 40_000
BODY = "x" * 500  # some thirty of them fill a broker
COUNT = 60


def full_network(names: str, *, duplex: bool, ring: bool = False, prefetch: int = 5) -> tuple[Network, list[Site]]:
    """Brokers in a row or a ring, linked both ways."""
    network = Network()
    sites = [network.site(name, memory_limit_bytes=LIMIT) for name in names]
    settings = BridgeSettings(
        duplex=duplex, prefetch_size=prefetch, message_ttl=len(names), consumer_ttl=len(names), decrease_priority=False
    )
    for near, far in [*pairwise(sites), *([(sites[-1], sites[0])] if ring else [])]:
        network.link(near, far, settings)
        if not duplex:
            network.link(far, near, settings)
    network.settles()
    return network, sites


def fill(site: Site, queue: str) -> None:
    client = site.client()
    for number in range(COUNT):
        client.sends(f"queue://{queue}", f"{site.name}{number} {BODY}", persistent=False)
    assert client.state.parked


def settle(network: Network) -> None:
    network.settles()
    for _ in range(3):
        network.environment.advance(2)
        network.runs_timers()


@pytest.mark.parametrize("duplex", [True, False])
@pytest.mark.parametrize("prefetch", [1, 5, 1000])
def test_two_full_brokers_that_send_to_each_other_drain(duplex: bool, prefetch: int) -> None:
    network, (a, b) = full_network("AB", duplex=duplex, prefetch=prefetch)
    fill(a, "TO-B")
    fill(b, "TO-A")
    inboxes = [b.client().consumes("queue://TO-B"), a.client().consumes("queue://TO-A")]
    settle(network)
    assert [len(set(inbox.texts)) for inbox in inboxes] == [COUNT, COUNT]


@pytest.mark.parametrize("names", ["ABC", "ABCD"])
def test_a_full_chain_whose_ends_send_to_each_other_drains(names: str) -> None:
    network, sites = full_network(names, duplex=True)
    first, last = sites[0], sites[-1]
    fill(first, "FORTH")
    fill(last, "BACK")
    for middle in sites[1:-1]:
        fill(middle, "FORTH")
        fill(middle, "BACK")
    inboxes = [last.client().consumes("queue://FORTH"), first.client().consumes("queue://BACK")]
    settle(network)
    assert [len(set(inbox.texts)) for inbox in inboxes] == [COUNT * (len(names) - 1)] * 2


@pytest.mark.large
@pytest.mark.parametrize("seed", range(4))
def test_a_full_ring_where_everybody_sends_to_everybody_drains(seed: int) -> None:
    choose = Random(seed)
    network, sites = full_network("ABC", duplex=choose.random() < 0.5, ring=True, prefetch=choose.choice((1, 5, 1000)))
    for site in sites:
        for target in choose.sample(sites, len(sites)):
            if target is not site:
                fill(site, f"TO-{target.name}")
    inboxes: list[Inbox] = []
    for site in choose.sample(sites, len(sites)):
        inboxes.append(site.client().consumes(f"queue://TO-{site.name}"))
        settle(network)
    assert [len(set(inbox.texts)) for inbox in inboxes] == [2 * COUNT] * 3, f"seed {seed}"


def test_what_a_link_brings_to_a_full_broker_without_consumers_stays_bounded() -> None:
    network, (a, b) = full_network("AB", duplex=True)
    reader = b.client().consumes("queue://TO-B", prefetch=1, manual=True)
    fill(b, "OWN")
    fill(a, "TO-B")
    settle(network)
    size = next(iter(a.clients[0].state.parked)).message.size
    most = LIMIT * (100 + OVERSHOOT_SHARE + HOP_SHARE) // 100 + 2 * size
    destination = b.broker.find_destination(reader.info.destination)
    assert destination is not None and destination.usage.parent is not None
    assert 0 < destination.usage.used_bytes <= LIMIT * (OVERSHOOT_SHARE + HOP_SHARE) // 100 + 2 * size
    assert destination.usage.parent.used_bytes <= most


def test_the_reserve_grows_with_the_way_behind_a_message_and_ends() -> None:
    whole = MemoryUsage(1000)
    destination = MemoryUsage(0, whole)
    destination.add(1)
    taken: list[int] = []
    for hops in (1, 2, MAX_HOP_SHARES, 60):
        while destination.takes_forwarded(hops):
            whole.add(1)
        taken.append(whole.used_bytes)
    assert taken == [1120, 1140, 1200, 1200]
    empty = MemoryUsage(0, whole)
    while empty.takes_forwarded(60):
        whole.add(1)
    assert whole.used_bytes == 1200 + 10 * EMPTY_SHARE
