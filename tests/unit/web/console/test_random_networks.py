"""The map of random networks: brokers, directions and states are those of the network, as far as anybody tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.environment import Time
from spanwire.network.reports.known_brokers import Peer, Row, read_rows
from spanwire.network.reports.network_reports import NetworkReports
from spanwire.web.console.network.known_network import known_network


@dataclass(frozen=True)
class Opened:
    """A link: the broker that has opened it, the other one, and whether messages go both ways."""

    near: str
    far: str
    is_duplex: bool
    runs: bool

    def view(self, teller: str) -> Mapping[str, object]:
        """The row of one of its ends."""
        return {
            "name": f"from-{self.near}-to-{self.far}", "uri": f"tcp://{self.far}:1", "reason": "", "demand": 0,
            "remote": self.far if teller == self.near else self.near, "state": "running" if self.runs else "waiting",
            "duplex": self.is_duplex, "accepted": teller == self.far, "dequeued": 1, "received": 2,
        }  # fmt: skip


class Named:
    """A broker as a report needs it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.broker_id = f"ID:{name}"

    def find_destination(self, destination: object) -> None:
        return None


class Still:
    """A clock that stands."""

    def now(self) -> Time:
        return Time(1_000.0, 0)


async def nobody(peer: Peer, watch_s: int, told: str) -> list[Row]:
    return []


def own_row(name: str, links: list[Opened]) -> Row:
    """What a broker tells of itself. The far end of a link that does not run has forgotten it."""
    views = [one.view(name) for one in links if one.near == name or (one.far == name and one.is_duplex and one.runs)]
    guests = [one.near for one in links if one.far == name and one.runs and not one.is_duplex]
    reports = NetworkReports(Named(name), lambda: views, list, Still(), nobody, guests=lambda: guests)
    return read_rows(reports.report(0))[0]


def asked(links: list[Opened]) -> list[str]:
    """The brokers that tell: the first one, and those that a link leads to which such a broker has opened."""
    found = ["b0"]
    for name in found:
        found += [one.far for one in links if one.near == name and one.runs and one.far not in found]
    return found


@st.composite
def networks(draw: st.DrawFn) -> list[Opened]:
    count = draw(st.integers(3, 12))
    pairs = list(permutations([f"b{number}" for number in range(count)], 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=30))
    return [Opened(near, far, draw(st.booleans()), draw(st.booleans())) for near, far in chosen]


@given(networks())
def test_the_map_of_a_random_network_has_its_links_in_both_directions_with_their_states(links: list[Opened]) -> None:
    tellers = asked(links)
    network = known_network([own_row(name, links) for name in tellers])
    truth = set()
    for one in links:
        if one.near in tellers or (one.far in tellers and one.runs):
            state = "running" if one.runs else "waiting"
            truth |= {(one.near, one.far, state)} | ({(one.far, one.near, state)} if one.is_duplex else set())
    shown = [(link.near, link.far, link.state) for link in network.links.values()]
    assert set(shown) == truth
    named = [(link.near, link.far, link.name) for link in network.links.values()]
    assert len(named) == len(set(named))
    assert set(network.brokers) == {"b0", *tellers, *(name for near, far, _ in truth for name in (near, far))}
    out_of_reach = {one.near for one in links if one.far == "b0" and one.runs} - set(tellers)
    assert {name for name, broker in network.brokers.items() if broker.is_guest} == out_of_reach
