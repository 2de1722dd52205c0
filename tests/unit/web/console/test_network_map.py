"""The map of the network: what a broker knows, places that stay, and a table of the same."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from spanwire.web.console.network.known_network import MAX_BROKERS, known_network
from spanwire.web.console.network.map_layout import HEIGHT, WIDTH, layout
from spanwire.web.routes import application
from tests.support.fake_broker_link import LINK, SUMMARY, FakeBrokerLink

HOST = "http://127.0.0.1:8161"


def link_to(name: str, *ways: list[str], **changed: object) -> dict[str, object]:
    return {**LINK, "name": f"to-{name}", "remote": name, "ways": list(ways), **changed}


def page_of(*links: dict[str, object], **facts: object) -> str:
    link = FakeBrokerLink()
    link.answers["summary"] = {**SUMMARY, **facts, "network_connectors": list(links)}
    client = TestClient(application(link, is_loopback=True), base_url=HOST)
    text: str = client.get("/admin/network-map", auth=("vera", "v-word")).text
    return text


def test_brokers_beyond_are_reported_and_not_seen() -> None:
    text = page_of(link_to("billing", ["ID:billing", "ID:tax"]))
    assert 'name=to-billing">to-billing</a>' in text
    assert '<th scope="row">ID:tax</th><td>beyond billing</td><td>reported, not seen</td>' in text
    assert text.count('class="way reported"') == text.count('class="way good"') == 1


def test_a_broken_link_is_drawn_as_such_with_its_reason() -> None:
    text = page_of(link_to("billing", state="waiting", reason="connection refused"))
    assert 'class="way bad"' in text
    assert "<small>connection refused</small>" in text


def test_a_broker_alone_says_how_it_is_linked() -> None:
    text = page_of()
    assert "This broker is linked to no other one" in text
    assert "this broker</text>" in text


def test_a_standby_is_named() -> None:
    assert "A standby waits" in page_of(standby=True)
    assert "A standby waits" not in page_of(standby=False)


@pytest.mark.parametrize("count", [0, 1, 3, 12, 99])
def test_no_box_covers_another_one(count: int) -> None:
    drawn = layout(known_network("own", "own", [link_to(f"b{number}") for number in range(count)]))
    assert len(drawn.places) == count + 1
    for index, one in enumerate(drawn.places):
        assert 0 <= one.x <= drawn.width - WIDTH and 0 <= one.y <= drawn.height - HEIGHT
        for other in drawn.places[index + 1 :]:
            assert abs(one.x - other.x) >= WIDTH or abs(one.y - other.y) >= HEIGHT


def test_brokers_keep_their_places_when_a_state_changes() -> None:
    links = [link_to(name) for name in "abcdefgh"]
    before = layout(known_network("own", "own", links))
    links = [link_to(name, state="waiting", dequeued=9) for name in reversed("abcdefgh")]
    after = layout(known_network("own", "own", links))
    assert [(one.broker.key, one.x, one.y) for one in after.places] == [
        (one.broker.key, one.x, one.y) for one in before.places
    ]


def test_a_ring_leads_back_to_no_broker_twice() -> None:
    network = known_network("own", "A", [link_to("B", ["B", "C"]), link_to("C", ["C", "B", "A"])])
    assert list(network.brokers) == ["A", "B", "C"]
    assert len(layout(network).curves) == 4


def test_a_map_has_a_limit_and_counts_the_others() -> None:
    network = known_network("own", "own", [link_to(f"b{number:03}") for number in range(MAX_BROKERS + 6)])
    assert (len(network.brokers), network.omitted) == (MAX_BROKERS, 7)
