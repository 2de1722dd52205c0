"""The links of a network connector to discovered brokers.

Any machine in reach can announce a broker. So a link needs a valid address of a transport for brokers, with TLS as in
this broker's configuration. The number of links and of new links is limited. Without TLS verification no login is sent,
unless the configuration permits it.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from spanwire.broker.broker import Broker
from spanwire.discovery.addresses.address import DiscoveredAddress, read_address
from spanwire.discovery.groups.sightings import DiscoveryListener
from spanwire.network.bridge.bridge_statistics import LinkFailures
from spanwire.network.connector.link import (
    MAX_REASON,
    DiscoverySettings,
    Link,
    LinkView,
    NetworkConnectorSettings,
    RemoteAddress,
)
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.reports.known_brokers import Peer
from spanwire.transports.loop.turn import Turn

MAX_LINKS: Final = 100  # links of one connector, as many as a static: uri may list
MAX_NEW_LINKS: Final = 20  # attempts a second; a beacon costs its sender less than a connection costs this broker
MAX_REASONS: Final = 1_000  # remembered reasons, so that each is logged once and not at every attempt
MAX_REPORTS: Final = 20  # log lines about unused addresses; anybody can announce addresses

logger = logging.getLogger(__name__)


class Finder(Protocol):
    """The part of an agent used by its listener."""

    def on_failure(self, uri: str, uptime_s: float) -> None:
        """Note that a broker could not be used, or only for ``lived`` seconds."""
        ...

    def ignore(self, uri: str) -> None:
        """Never report this address, the broker's own."""
        ...


class DiscoveredLink(Link):
    """One attempt of a link; the agent decides about another attempt."""

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
        """True if the link leads back to this broker."""
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
    """Owns the links of one connector to discovered brokers. Call `set_agent` before the first discovery."""

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
        self.ended_failures: Final = LinkFailures()  # of links that have ended
        self._settings: Final = settings
        self._discovery: Final = discovery
        self._broker: Final = broker
        self._broker_url: Final = broker_url
        self._turn: Final = turn
        self._routes: Final = routes
        self._agent: Finder | None = None
        self._reasons: Final[dict[str, str]] = {}
        self._unlinked: Final[dict[str, str]] = {}  # announced addresses without a link, and the reasons
        self._unusable: Final[dict[str, str]] = {}  # those of brokers to which no attempt is made
        self._report_count = 0
        self._second = 0
        self._new_links = 0

    def set_agent(self, agent: Finder) -> None:
        """Set the agent of the discoveries, to be told of unusable brokers."""
        self._agent = agent

    def on_found(self, uri: str) -> None:
        """Open a link, if the address is valid and there is room."""
        address = read_address(uri)
        obstacle = "it is no address of a broker that speaks OpenWire" if address is None else self._obstacle(address)
        if address is None or obstacle:
            self._report_unused(uri, obstacle)
            if address is not None and len(self._unusable) < MAX_REPORTS:
                self._unusable[uri] = obstacle
            return
        self._unusable.pop(uri, None)
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
        if uri not in self._reasons:  # repeated attempts are not logged
            logger.info("Establishing network connection between from vm://%s to %s", self._broker.name, address.uri)
        link.start()

    def on_lost(self, uri: str) -> None:
        """Close the link at once."""
        self._unlinked.pop(uri, None)
        self._unusable.pop(uri, None)
        link = self.links.pop(uri, None)
        if link is not None:
            self.ended_failures.add(link.failures)
            link.end()

    def on_link_ended(self, link: DiscoveredLink, uptime_s: float) -> None:
        """Tell the agent about a link closed after so many seconds of use."""
        if self.links.pop(link.discovered_uri, None) is None:
            return
        self.ended_failures.add(link.failures)
        if link.leads_to_itself and self._agent is not None:
            self._agent.ignore(link.discovered_uri)
        else:
            self._report_failure(link.discovered_uri, uptime_s)

    def note_failure(self, uri: str, reason: str, uptime_s: float) -> bool:
        """Note the reason of a failure. Returns True if it deserves a log line.

        The reason of the attempt before gets no second line, unless the link was up meanwhile.
        """
        self._note_unlinked(uri, reason)
        if uptime_s <= 0.0 and self._reasons.get(uri) == reason:
            return False
        if len(self._reasons) >= MAX_REASONS:
            self._reasons.clear()
        self._reasons[uri] = reason
        return True

    def stop(self) -> None:
        """Stop connecting; open sockets stay open."""
        for link in self.links.values():
            link.stop()

    def end(self) -> None:
        """Stop connecting, and close open sockets."""
        for link in self.links.values():
            link.end()
        self.links.clear()

    def peers(self) -> list[Peer]:
        """Return the remote brokers of the running links."""
        return [peer for link in self.links.values() if (peer := link.peer()) is not None]

    def idle_view(self) -> LinkView:
        """Return the view of the connector with the unused addresses, while there is no link."""
        reason = "; ".join([f"{uri}: {reason}" for uri, reason in self._unlinked.items()])[:MAX_REASON]
        return self._view_without_link(self._discovery.uri, "looking", reason or "no broker was discovered")

    def unusable_views(self) -> list[LinkView]:
        """Return a view per discovered broker to which no attempt is made, `MAX_REPORTS` at most."""
        return [self._view_without_link(uri, "waiting", reason) for uri, reason in self._unusable.items()]

    def _view_without_link(self, uri: str, state: str, reason: str) -> LinkView:
        return LinkView(
            name=self._settings.bridge.name,
            uri=uri,
            remote="",
            state=state,
            reason=reason,
            demand=0,
            in_flight=0,
            enqueued=0,
            dequeued=0,
            duplex=self._settings.bridge.duplex,
        )

    def _obstacle(self, address: DiscoveredAddress) -> str:
        """Return the reason against any link to an address; "" for none."""
        bridge, discovery = self._settings.bridge, self._discovery
        has_login = any(
            (bridge.user_name, bridge.password, bridge.remote_user_name, bridge.remote_password)
        )  # the local login is sent to the remote broker, too, unless there is another one
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
        """Return True for a crowd: enough links in all, to ``address``, or in this second."""
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
            self._agent.on_failure(uri, uptime_s)

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
