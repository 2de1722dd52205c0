"""The links of a network connector to brokers that an agent has found.

A found broker is a claim of whoever is in reach. So it gets a link only at an address that makes sense, of a transport
that brokers use, with TLS as this broker's own configuration says; few of them, and few new ones at a time. A login is
sent to nobody whom TLS has not verified, unless the configuration says so.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from spanwire.broker.broker import Broker
from spanwire.discovery.address import DiscoveredAddress, read_address
from spanwire.discovery.sightings import DiscoveryListener
from spanwire.network.connector.link import (
    MAX_REASON,
    DiscoverySettings,
    Link,
    LinkView,
    NetworkConnectorSettings,
    RemoteAddress,
)
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.transports.loop.turn import Turn

MAX_LINKS: Final = 100  # of one connector, as many as a static: uri may list
MAX_NEW_LINKS: Final = 20  # in a second: a beacon costs its sender less than the connection that it asks for
MAX_REASONS: Final = 1_000  # that are remembered so that a line does not come again with each try
MAX_REPORTS: Final = 20  # lines about what was found and is not used

logger = logging.getLogger(__name__)


class Finder(Protocol):
    """The part of an agent that its listener uses."""

    def failed(self, uri: str, uptime_s: float) -> None:
        """What was found there could not be used, or only for ``uptime_s`` seconds."""
        ...

    def ignore(self, uri: str) -> None:
        """This broker is there itself: it is not found."""
        ...


class DiscoveredLink(Link):
    """One life of a link; whether there is another is up to the agent."""

    def __init__(
        self,
        uri: str,
        links: DiscoveredLinks,
        settings: NetworkConnectorSettings,
        remote: RemoteAddress,
        broker: Broker,
        broker_url: str,
        turn: Turn,
        routes: NetworkRoutes,
    ) -> None:
        super().__init__(settings, remote, broker, broker_url, turn, routes)
        self.discovered_uri: Final = uri
        self.address: Final = (remote.host, remote.port)
        self._links: Final = links

    @property
    def leads_to_itself(self) -> bool:
        """Whether it has led back to this broker."""
        return self._leads_to_itself

    async def _wait_for_retry(self, uptime_s: float) -> bool:
        if self._leads_to_itself:
            logger.info("network connector %s: discovered %s is this broker itself",
                        self._settings.bridge.name, self._remote.uri)  # fmt: skip
        elif self._links.note_failure(self.discovered_uri, self._reason, uptime_s):
            logger.warning("network connector %s: discovered %s: %s",
                           self._settings.bridge.name, self._remote.uri, self._reason)  # fmt: skip
        self._links.on_link_ended(self, uptime_s)
        return True


class DiscoveredLinks(DiscoveryListener):
    """All links of one connector to brokers that were found. `set_agent` before the first is found."""

    def __init__(
        self,
        settings: NetworkConnectorSettings,
        discovery: DiscoverySettings,
        broker: Broker,
        broker_url: str,
        turn: Turn,
        routes: NetworkRoutes,
    ) -> None:
        self.links: Final[dict[str, DiscoveredLink]] = {}
        self._settings: Final = settings
        self._discovery: Final = discovery
        self._broker: Final = broker
        self._broker_url: Final = broker_url
        self._turn: Final = turn
        self._routes: Final = routes
        self._agent: Finder | None = None
        self._reasons: Final[dict[str, str]] = {}
        self._unlinked: Final[dict[str, str]] = {}  # what is announced and has no link, and why
        self._report_count = 0
        self._second = 0
        self._new_links = 0

    def set_agent(self, agent: Finder) -> None:
        """The agent that finds, and is told of what could not be used."""
        self._agent = agent

    def on_found(self, uri: str) -> None:
        """A link, if the address is one and there is room."""
        address = read_address(uri)
        obstacle = "it is no address of a broker that speaks OpenWire" if address is None else self._obstacle(address)
        if address is None or obstacle:
            self._report_unused(uri, obstacle)
            return
        if self._is_crowded(address):
            self._report_failure(uri, 0.0)
            return
        remote = RemoteAddress(
            address.uri,
            address.host,
            address.port,
            self._discovery.tls if address.is_encrypted else None,
            address.max_inactivity_ms,
        )
        link = DiscoveredLink(
            uri, self, self._settings, remote, self._broker, self._broker_url, self._turn, self._routes
        )
        self.links[uri] = link
        if uri not in self._reasons:  # what has failed is tried again without a line each time
            logger.info("Establishing network connection between from vm://%s to %s", self._broker.name, address.uri)
        link.start()

    def on_lost(self, uri: str) -> None:
        """Its link ends, at once."""
        self._unlinked.pop(uri, None)
        link = self.links.pop(uri, None)
        if link is not None:
            link.end()

    def on_link_ended(self, link: DiscoveredLink, uptime_s: float) -> None:
        """A link is over after so many seconds of use."""
        if self.links.pop(link.discovered_uri, None) is None:
            return
        if link.leads_to_itself and self._agent is not None:
            self._agent.ignore(link.discovered_uri)
        else:
            self._report_failure(link.discovered_uri, uptime_s)

    def note_failure(self, uri: str, reason: str, uptime_s: float) -> bool:
        """Whether a link that ended is worth a line: not for the reason for which the one before it did not come up."""
        self._note_unlinked(uri, reason)
        if uptime_s <= 0.0 and self._reasons.get(uri) == reason:
            return False
        if len(self._reasons) >= MAX_REASONS:
            self._reasons.clear()
        self._reasons[uri] = reason
        return True

    def stop(self) -> None:
        """Connect no more; open sockets are closed with all others."""
        for link in self.links.values():
            link.stop()

    def end(self) -> None:
        """Connect no more, and close what is open."""
        for link in self.links.values():
            link.end()
        self.links.clear()

    def views(self) -> list[LinkView]:
        """One per link; one of the connector itself while there is none, with what was discovered in vain."""
        if self.links:
            return [link.view() for link in self.links.values()]
        reason = "; ".join([f"{uri}: {reason}" for uri, reason in self._unlinked.items()])[:MAX_REASON]
        return [
            LinkView(
                name=self._settings.bridge.name,
                uri=self._discovery.uri,
                remote="",
                state="looking",
                reason=reason or "no broker was discovered",
                demand=0,
                in_flight=0,
                enqueued=0,
                dequeued=0,
                duplex=self._settings.bridge.duplex,
            )
        ]

    def _obstacle(self, address: DiscoveredAddress) -> str:
        """Why there must be no link, whoever listens there."""
        bridge, discovery = self._settings.bridge, self._discovery
        has_login = any(
            (bridge.user_name, bridge.password, bridge.remote_user_name, bridge.remote_password)
        )  # that of this end is sent there, too, as long as there is no other
        if not has_login or discovery.sends_login:
            return ""
        if not address.is_encrypted:
            return (
                "it would be sent the login of the connector without TLS; let that broker announce an ssl connector, "
                "or set sendLoginToDiscovered"
            )
        if discovery.tls.trust_store is None:
            return (
                "it would be sent the login of the connector and any certificate holds; give <sslContext> a trustStore "
                "or set sendLoginToDiscovered"
            )
        return ""

    def _is_crowded(self, address: DiscoveredAddress) -> bool:
        """Whether there are enough links, in all, to this address, or in this second."""
        if len(self.links) >= MAX_LINKS:
            return True
        if any(link.address == (address.host, address.port) for link in self.links.values()):
            return True
        second = int(self._turn.clock.now().monotonic)
        if second != self._second:
            self._second, self._new_links = second, 0
        self._new_links += 1
        return self._new_links > MAX_NEW_LINKS

    def _report_failure(self, uri: str, uptime_s: float) -> None:
        if self._agent is not None:
            self._agent.failed(uri, uptime_s)

    def _note_unlinked(self, uri: str, reason: str) -> None:
        if uri in self._unlinked or len(self._unlinked) < MAX_REASONS:
            self._unlinked[uri] = reason

    def _report_unused(self, uri: str, obstacle: str) -> None:
        self._note_unlinked(uri, obstacle)
        if self._report_count < MAX_REPORTS:
            self._report_count += 1
            more = "" if self._report_count < MAX_REPORTS else "; others are not reported"
            logger.warning("network connector %s: discovered %s is not used: %s%s",
                           self._settings.bridge.name, uri, obstacle, more)  # fmt: skip
