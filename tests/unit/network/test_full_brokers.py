"""What is forwarded between brokers whose memory is full: it takes room once, and it always waits."""

from __future__ import annotations

from spanwire.broker.connections.connection_state import MAX_PARKED_BYTES
from spanwire.model.destination import parse_destination
from spanwire.model.message import FORMAT_STOMP
from tests.support.network_dialogue import Network, Site
from tests.unit.network.test_rogue_remotes import Q, Remote

LIMIT = 200_000
BODY = "x" * 50_000


def used(site: Site) -> int:
    destination = site.broker.find_destination(parse_destination(Q))
    assert destination is not None
    return destination.usage.used_bytes


def test_a_message_of_another_protocol_that_is_on_its_way_takes_room_once() -> None:
    remote = Remote().runs()
    client = remote.site.client()
    openwire = Network().site("A").client().sends(Q, "x" * 1000, persistent=False)
    stomp = remote.site.formats.converted(openwire, FORMAT_STOMP)
    remote.site.broker.send(client.state, stomp, None, -1, remote.network.now)
    before = used(remote.site)
    assert before > 1000
    remote.advises(remote.consumer())
    remote.listens()
    assert remote.bridge.in_flight == 1
    assert used(remote.site) == before


def test_what_another_broker_forwards_waits_however_much_of_others_waits() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B", memory_limit_bytes=LIMIT)
    link = network.link(a, b)
    b.client().consumes("queue://FORWARDED", manual=True)
    network.settles()
    client = b.client()
    while client.state.parked_bytes <= MAX_PARKED_BYTES:
        client.sends(Q, BODY, persistent=False)
    for _ in range(4):
        a.client().sends("queue://FORWARDED", BODY, persistent=False)
    network.settles()
    bridge = link.bridge
    assert bridge is not None and link.running
    assert bridge.statistics().failed == 0 and bridge.in_flight >= 3
    inbox = b.client().consumes(Q)
    network.settles()
    for _ in range(5):
        network.environment.advance(2)
        network.runs_timers()
    assert set(inbox.texts) == {BODY}
    assert bridge.in_flight == 0
