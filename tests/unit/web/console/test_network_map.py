"""The map of the network: what brokers have told, places that stay, clusters, routes and findings on it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from starlette.testclient import TestClient

from spanwire.web.console.network.known_network import MAX_BROKERS, KnownNetwork, known_network
from spanwire.web.console.network.map_grid import CELL_X, CELL_Y, MapGrid
from spanwire.web.console.network.map_layout import MOST_DRAWN, RADIUS, layout
from spanwire.web.console.network.map_page import MAX_RATES
from spanwire.web.routes import application
from tests.support.fake_broker_link import LINK, SUMMARY, FakeBrokerLink

HOST: Final = "http://127.0.0.1:8161"
FILES: Final = """\
<broker brokerName="{name}" dataDirectory="x"><transportConnectors>
<transportConnector name="openwire" uri="tcp://127.0.0.1:{port}"/></transportConnectors>
<networkConnectors>{links}</networkConnectors></broker>
"""
Row = dict[str, object]


def link_to(remote: str, *ways: list[str], **changed: object) -> Row:
    return {**LINK, "name": f"to-{remote}", "remote": remote, "ways": list(ways), **changed}


def told(name: str, *links: Row, **more: object) -> Row:
    return {"name": name, "id": f"ID:{name}", "kind": "spanwire", "silence": "", "age_s": 2.0, "links": list(links),
            **more}  # fmt: skip


def page_of(*brokers: Row, path: str = "/admin/network-map", files: tuple[str, ...] = (), **facts: object) -> str:
    link = FakeBrokerLink()
    link.answers["summary"] = {**SUMMARY, **facts}
    link.answers["network"] = {"brokers": list(brokers)}
    link.answers["console"] = {"network_files": list(files)}
    client = TestClient(application(link, is_loopback=True), base_url=HOST)
    text: str = client.get(path, auth=("anna", "a-word")).text
    return text


def ring(count: int) -> KnownNetwork:
    names = [f"b{number:04}" for number in range(count)]
    return known_network([told(near, link_to(far)) for near, far in pairwise([*names, names[0]])])


def test_links_behind_the_linked_broker_are_drawn_with_their_state() -> None:
    text = page_of(
        told("orders", link_to("billing")),
        told("billing", link_to("tax", state="waiting", reason="connection refused", waiting=7, rate=2.5)),
    )
    assert (
        '<th scope="row">billing</th><td class="word" data-label="To">tax</td><td data-label="Link">to-tax</td>' in text
    )
    assert "<small>connection refused</small>" in text
    assert text.count('class="way good"') == text.count('class="way bad"') == 1
    assert "7 messages wait; 2.5 messages a second; 2 reconnects" in text


def test_a_duplex_link_has_two_directions_and_the_end_that_tells_counts() -> None:
    here = link_to("b", name="d", duplex=True, received=9, received_rate=1.0)
    network = known_network([told("a", here)])
    assert {key: link.forwarded for key, link in network.links.items()} == {("a", "b", "d"): 4, ("b", "a", "d"): 9}
    there = {**LINK, "name": "d", "remote": "a", "accepted": True, "dequeued": 11, "demand": 6, "state": "running"}
    network = known_network([told("a", here), told("b", there)])
    assert (network.links["b", "a", "d"].forwarded, network.links["b", "a", "d"].demand) == (11, 6)
    assert network.links["a", "b", "d"].forwarded == 4


def test_an_activemq_that_tells_its_bridges_is_drawn_with_them() -> None:
    network = known_network([
        told("a", link_to("old")),
        told("old", {"name": "on", "remote": "c", "incoming": False}, {"name": "to-old", "remote": "a",
             "incoming": True}, kind="activemq"),
    ])  # fmt: skip
    assert network.brokers["old"].kind == "activemq"
    assert set(network.links) == {("a", "old", "to-old"), ("old", "c", "on")}
    assert network.links["a", "old", "to-old"].state == "running"


def test_brokers_beyond_are_reported_by_their_consumers() -> None:
    network = known_network([told("a", link_to("b")), told("b")], [link_to("b", ["ID:b", "ID:tax"])])
    assert [(link.near, link.far) for link in network.links.values() if not link.is_known] == [("b", "ID:tax")]
    assert network.brokers["ID:tax"].kind == "reported"


def test_a_broker_that_tells_nothing_is_named_with_the_reason() -> None:
    text = page_of(told("orders", link_to("b")), told("b", kind="", silence="cannot be asked: refused"))
    assert "b cannot be asked: refused." in text
    assert 'class="broker silent"' in text


def test_a_broker_that_has_opened_its_link_is_drawn_and_said_to_be_out_of_reach() -> None:
    incoming = {"name": "", "remote": "tax", "state": "running", "incoming": True}
    accepted = link_to("shop", accepted=True, duplex=True)
    text = page_of(told("orders", incoming, accepted))
    assert '<th scope="row">tax</th><td class="word" data-label="To">orders</td>' in text
    assert "tax has opened a link of one way to this broker. This broker has no login there" in text
    assert "the right of links at both brokers: then the map shows what is beyond" in text
    assert "shop has opened a duplex link to this broker and was invited to report." in text
    assert (text.count("cannot be asked</text>"), text.count("has not reported</text>")) == (1, 1)
    text = page_of(
        told("orders", incoming, link_to("billing")), told("billing", link_to("tax")), told("tax", link_to("orders"))
    )
    assert "no login there" not in text
    assert (
        text.count('<th scope="row">tax</th><td class="word" data-label="To">orders</td>') == 1 and "to-orders" in text
    )


def test_a_broker_alone_says_how_it_is_linked() -> None:
    text = page_of(told("orders"))
    assert "This broker is linked to no other one" in text
    assert "this broker</text>" in text


def test_a_broker_of_an_earlier_version_has_a_map_of_its_own_links() -> None:
    assert "to-billing" in page_of()


def test_a_standby_is_named() -> None:
    assert "A standby waits" in page_of(told("orders"), standby=True)
    assert "A standby waits" not in page_of(told("orders"), standby=False)


@pytest.mark.parametrize("count", [1, 2, 3, 12, MOST_DRAWN])
def test_no_broker_covers_another_one_or_its_name(count: int) -> None:
    drawn = layout(ring(count))
    assert len(drawn.places) == count and not drawn.is_clustered
    for index, one in enumerate(drawn.places):
        assert RADIUS <= one.x <= drawn.width - RADIUS and RADIUS <= one.y <= drawn.height - RADIUS
        for other in drawn.places[index + 1 :]:
            assert abs(one.x - other.x) >= 140 or abs(one.y - other.y) >= 60


def test_leaves_of_a_star_are_beside_their_hub() -> None:
    hubs = [f"hub{number}" for number in range(4)]
    edges = [(f"{hub}-{leaf}", hub) for hub in hubs for leaf in range(6)] + list(pairwise(hubs))
    names = sorted({name for edge in edges for name in edge})
    grid = MapGrid({name: (index * 7 % 11 / 11, index * 5 % 13 / 13) for index, name in enumerate(names)}, edges)
    before = lengths(grid.compact(), edges)
    grid.shorten()
    cells = grid.compact()
    assert len(set(cells.values())) == len(names)
    assert lengths(cells, edges) < before / 2
    assert all(lengths(cells, [edge]) < 3 * CELL_X for edge in edges if "-" in edge[0])


def lengths(cells: dict[str, tuple[float, int]], edges: Sequence[tuple[str, str]]) -> float:
    """The length of all lines."""
    ends = [(cells[near], cells[far]) for near, far in edges]
    return sum(math.hypot((a[0] - b[0]) * CELL_X, (a[1] - b[1]) * CELL_Y) for a, b in ends)


def test_a_small_map_has_rates_and_backlogs_on_its_lines() -> None:
    text = page_of(told("orders", link_to("billing", rate=2.5, waiting=1200)), told("billing"))
    assert ">2.5/s, 1,200 wait</text>" in text
    assert "/s</text>" not in page_of(told("orders", link_to("billing", rate=0)))
    many = [told(f"b{number}", link_to(f"b{number + 1}", rate=2.5)) for number in range(MAX_RATES + 1)]
    assert ">2.5/s" not in page_of(*many)


def test_brokers_of_a_large_map_lead_to_those_around_them() -> None:
    names = [f"b{number}" for number in range(MOST_DRAWN + 5)]
    rows = [told(near, link_to(far)) for near, far in pairwise(names)]
    assert 'tabindex="-1"><circle class="broker' in page_of(*rows)
    assert 'tabindex="-1"' not in page_of(*rows[:5]).partition("<svg")[2]


def test_brokers_keep_their_places_when_a_state_changes() -> None:
    names = "abcdefgh"
    before = layout(known_network([told("own", *(link_to(name) for name in names))]))
    changed = (link_to(name, state="waiting", dequeued=9) for name in reversed(names))
    after = layout(known_network([told("own", *changed)]))
    assert {(one.name, one.x, one.y) for one in after.places} == {(one.name, one.x, one.y) for one in before.places}


def test_a_large_network_is_drawn_as_clusters_that_open_around_a_broker() -> None:
    network = ring(1_000)
    drawn = layout(network)
    assert drawn.is_clustered and len(drawn.places) <= MOST_DRAWN
    assert sum(len(one.members) for one in drawn.places) == 1_000
    around = layout(network, "b0500")
    assert (around.is_clustered, len(around.places), around.beyond) == (False, MOST_DRAWN, 1_000 - MOST_DRAWN)
    assert {"b0499", "b0500", "b0501"} <= {one.name for one in around.places}


def test_the_broker_that_a_map_is_about_is_marked_for_the_middle_of_a_narrow_window() -> None:
    rows = [told("own", link_to("b"), link_to("c")), told("b"), told("c")]
    assert middles(page_of(*rows)) == ["own"]
    assert middles(page_of(*rows, path="/admin/network-map?around=b")) == ["b"]
    many = [told(f"b{number}", link_to(f"b{(number + 1) % 150}")) for number in range(150)]
    assert len(middles(page_of(*many))) == 1  # the cluster of this broker


def middles(text: str) -> list[str]:
    return re.findall(r" data-middle><title>([^<]+)</title>", text)


def test_a_map_has_a_limit_and_counts_the_others() -> None:
    network = known_network([told("own"), *(told(f"b{number}") for number in range(MAX_BROKERS + 5))])
    assert (len(network.brokers), network.omitted) == (MAX_BROKERS, 6)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """The files of three brokers in a row; the last link does not take messages of two hops."""
    links = {"a": ("b", 2), "b": ("c", 3)}
    names = []
    for number, name in enumerate("abc", 1):
        target = links.get(name)
        connector = (
            ""
            if target is None
            else f'<networkConnector name="to-{target[0]}" userName="u" password="pw-4711" uri="static:(tcp://127.0.0.1:6100{target[1]})"/>'
        )
        path = tmp_path / f"{name}.xml"
        path.write_text(FILES.format(name=name, port=61000 + number, links=connector))
        names.append(str(path))
    return tuple(names)


def test_a_route_is_drawn_and_told_hop_by_hop_with_links_that_are_closed(files: tuple[str, ...]) -> None:
    brokers = (told("a", link_to("b")), told("b"))
    text = page_of(*brokers, path="/admin/network-map?from=a&destination=ORDERS&to=b", files=files)
    assert "<li>a → b by to-b, priority -5 <small>" in text
    assert text.count('class="way hop"') == 1
    text = page_of(*brokers, path="/admin/network-map?from=a&destination=ORDERS&to=c", files=files)
    assert "no route" in text and "the consumer is 2 hops away and consumerTTL is 1" in text
    assert 'class="way closed"' in text and "in a file alone" in text
    assert f"name={files[0].replace('/', '%2F')}&amp;line=3" in text


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("from=x&destination=Q", "none of these files is that of broker &#39;x&#39;"),
        ("from=a&destination=Q&selector=%29", "selector"),
        ("from=a&destination=Q&to=b&kind=topic", "a → b by to-b"),
    ],
)
def test_a_question_is_answered_or_told_to_be_wrong(files: tuple[str, ...], query: str, answer: str) -> None:
    assert answer in page_of(told("a"), path=f"/admin/network-map?{query}", files=files)


def test_a_route_needs_a_file() -> None:
    assert "without a configuration file" in page_of(told("a"), path="/admin/network-map?destination=Q")


def test_findings_lead_to_their_line_which_has_no_password(files: tuple[str, ...]) -> None:
    text = page_of(told("a"), path="/admin/network-lint", files=files)
    assert "fault</span> <small>rule 2</small>" in text and "consumerTTL is 1" in text
    line = page_of(told("a"), path=f"/admin/network-file?name={files[0]}&line=3", files=files)
    assert 'class="meant"' in line and "networkConnector" in line
    assert "pw-4711" not in line
    assert "that is no line of" in page_of(path="/admin/network-file?name=/etc/passwd&line=1", files=files)
