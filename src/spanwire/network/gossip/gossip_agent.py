"""The agent of a gossip connector: reports members to the connector's links.

Other agents report announcements in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.discovery.groups.gossip_settings import GossipSettings
from spanwire.network.connector.discovered_links import DiscoveredLinks
from spanwire.network.gossip.gossip import Gossip
from spanwire.network.gossip.kept_members import Linked
from spanwire.network.gossip.link_plan import LinkPlan, Seen
from spanwire.network.gossip.seed_link import SeedLink
from spanwire.network.reports.known_brokers import Peer


class GossipAgent:
    """Drives the links of one connector.

    `spanwire.discovery` describes agents; a gossip agent makes no announcements.
    """

    def __init__(
        self,
        settings: GossipSettings,
        duplex: bool,
        retry: ReconnectSettings,
        gossip: Gossip,
        links: DiscoveredLinks,
        seeds: Callable[[], Sequence[SeedLink]],
    ) -> None:
        self._duplex: Final = duplex
        self._gossip: Final = gossip
        self._links: Final = links
        self._seeds: Final = seeds
        self._plan: Final = LinkPlan(gossip.members.name, settings, duplex, retry, links)
        self._seen = Seen()
        self._is_linked_by_members = False

    def is_served(self, name: str) -> bool:
        """Return True if the broker ``name`` has a link to this broker with precedence over a link from here."""
        return self._plan.is_served(name, self._seen)

    @property
    def is_linked_by_others(self) -> bool:
        """True if members have opened duplex links to this broker, so that it needs none of its own to them.

        A duplex link of a broker that does not gossip says nothing of the members.
        """
        return self._duplex and self._is_linked_by_members

    async def start(self) -> None:
        """Begin to link."""
        self._gossip.join(self)

    def announce(self, uri: str) -> None:
        """Do nothing: a broker tells all of its open connectors."""

    def withdraw(self, uri: str) -> None:
        """Do nothing, as `announce`."""

    def ignore(self, uri: str) -> None:
        """Do nothing: members are known by name, and no member has this broker's name."""

    def on_failure(self, uri: str, uptime_s: float) -> None:
        """Note that the broker at ``uri`` could not be used, or only for ``uptime_s`` seconds."""
        self._plan.on_failure(uri, uptime_s, self._gossip.now())

    def stop(self) -> None:
        """Link no more; may be called twice."""
        self._gossip.leave(self)
        self._plan.end()

    def tick(self, now: float, members: dict[str, tuple[str, ...]], accepted: frozenset[str]) -> None:
        """Open and end links."""
        links = {uri: peer.name for uri, link in self._links.links.items() if (peer := link.peer()) is not None}
        seeds = frozenset(link.running_remote for link in self._seeds()) - {""}
        self._seen = Seen(links, seeds, accepted)
        self._is_linked_by_members = not accepted.isdisjoint(members)
        for seed in self._seeds():
            seed.make_way()
        self._plan.tick(now, members, self._seen)

    def recall(self, members: dict[str, Linked], now: float) -> None:
        """Try the addresses of members that were linked in the last run."""
        self._plan.recall(members, now)

    def linked(self, now: float) -> dict[str, Linked]:
        """Return the members that were linked lately by name."""
        return self._plan.linked(now)

    def name_of(self, uri: str) -> str:
        """Return the name of the member at an address; "" if unknown."""
        return self._plan.name_of(uri)

    def peers(self) -> list[Peer]:
        """Return the remote brokers of the running links."""
        return [peer for seed in self._seeds() if (peer := seed.peer()) is not None] + self._links.peers()
