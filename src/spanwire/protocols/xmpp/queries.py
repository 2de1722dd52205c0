"""Queries of a client: service discovery, roster, ping, version, session.

Sources: XEP-0030 (service discovery), XEP-0199 (ping), XEP-0092 (version).
"""

from __future__ import annotations

from typing import Final

from spanwire import __version__
from spanwire.model.destination import QUEUE, TOPIC
from spanwire.model.environment import Time
from spanwire.protocols.xmpp.codec.addresses import QUEUES, TOPICS, Jid, jid_of, parse_jid, service_of, unescape_local
from spanwire.protocols.xmpp.codec.elements import Element
from spanwire.protocols.xmpp.codec.errors import StanzaError
from spanwire.protocols.xmpp.consumer import ClientOutput
from spanwire.protocols.xmpp.destinations import Destinations
from spanwire.protocols.xmpp.presences import MUC, ROSTER, Presences
from spanwire.protocols.xmpp.replies import reply
from spanwire.protocols.xmpp.stanzas import HEADERS, RECEIPTS
from spanwire.protocols.xmpp.stream_output import SESSION

INFO: Final = "http://jabber.org/protocol/disco#info"
ITEMS: Final = "http://jabber.org/protocol/disco#items"
PING: Final = "urn:xmpp:ping"
VERSION: Final = "jabber:iq:version"

FEATURES: Final = (INFO, ITEMS, PING, VERSION, HEADERS, RECEIPTS)
ROOM_FEATURES: Final = (INFO, ITEMS, MUC, "muc_open", "muc_public", "muc_unmoderated", "muc_semianonymous")
QUEUE_FEATURES: Final = (INFO, ITEMS, HEADERS, RECEIPTS)


class Queries:
    """Answers the queries of one client."""

    def __init__(self, output: ClientOutput, destinations: Destinations, presences: Presences) -> None:
        self._output: Final[ClientOutput] = output
        self._destinations: Final[Destinations] = destinations
        self._presences: Final[Presences] = presences

    def handle(self, iq: Element, kind: str, now: Time) -> None:
        """Answer a query; answers from the client are ignored.

        Raises:
            JmsError: the query is malformed or not supported.
        """
        if kind in ("result", "error"):
            return
        if kind not in ("get", "set") or "id" not in iq.attributes or len(iq.children) != 1:
            raise StanzaError("modify", "bad-request", "an iq needs an id, the type get or set, and one element")
        query = iq.children[0]
        answer = reply(iq, str(self._output.jid), "result")
        to = iq.attributes.get("to")
        jid = Jid("", self._output.jid.domain) if to is None else parse_jid(to)
        if service_of(jid, self._output.jid.domain) is None:
            raise StanzaError("cancel", "remote-server-not-found", f"{jid.domain[:80]} is no domain of this broker")
        if query.namespace == INFO and kind == "get":
            answer.children.append(self._info(jid, query))
        elif query.namespace == ITEMS and kind == "get":
            answer.children.append(self._items(jid, query))
        elif query.namespace == ROSTER:
            if kind == "set":
                self._change_roster(query, now)
            else:
                answer.children.append(self._roster())
        elif query.namespace == VERSION and kind == "get":
            version = answer.add(Element(VERSION, "query"))
            version.add(Element(VERSION, "name", text="Spanwire"))
            version.add(Element(VERSION, "version", text=__version__))
        elif query.namespace not in (PING, SESSION):
            raise StanzaError("cancel", "service-unavailable", f"the query {query.namespace[:80]!r} is not supported")
        self._output.write(answer)

    def _info(self, jid: Jid, query: Element) -> Element:
        """Return the identity of an address."""
        kind = self._service(jid, query)
        answer = Element(INFO, "query")
        name = unescape_local(jid.local)
        if kind == QUEUE and not name and jid.domain == self._output.jid.domain:
            identity = {"category": "server", "type": "im", "name": "Spanwire"}
            features: tuple[str, ...] = FEATURES
        elif kind == TOPIC:
            identity = {"category": "conference", "type": "text", "name": name or "Topics"}
            features = ROOM_FEATURES
        else:
            identity = {"category": "component", "type": "generic", "name": name or "Queues"}
            features = QUEUE_FEATURES
        answer.add(Element(INFO, "identity", identity))
        for feature in features:
            answer.add(Element(INFO, "feature", {"var": feature}))
        return answer

    def _items(self, jid: Jid, query: Element) -> Element:
        """Return the items below an address: the services of the broker, queues or topics."""
        kind = self._service(jid, query)
        answer = Element(ITEMS, "query")
        domain = self._output.jid.domain
        if jid.local or kind not in (QUEUE, TOPIC):
            return answer
        if jid.domain == domain:
            answer.add(Element(ITEMS, "item", {"jid": f"{QUEUES}.{domain}", "name": "Queues"}))
            answer.add(Element(ITEMS, "item", {"jid": f"{TOPICS}.{domain}", "name": "Topics"}))
            return answer
        for destination in self._destinations.readable(kind):
            address = str(jid_of(destination, domain))
            answer.add(Element(ITEMS, "item", {"jid": address, "name": destination.name}))
        return answer

    def _service(self, jid: Jid, query: Element) -> int:
        kind = service_of(jid, self._output.jid.domain)
        if kind is None or query.attributes.get("node"):
            raise StanzaError("cancel", "item-not-found", "this node does not exist here")
        return kind

    def _roster(self) -> Element:
        """Return the readable queues of the client; the consumed queues are subscribed."""
        answer = Element(ROSTER, "query")
        for destination in self._destinations.readable(QUEUE):
            consumed = self._presences.find(destination) is not None
            address = str(jid_of(destination, self._output.jid.domain))
            attributes = {"jid": address, "name": destination.name, "subscription": "both" if consumed else "none"}
            item = answer.add(Element(ROSTER, "item", attributes))
            item.add(Element(ROSTER, "group", text="Queues"))
        return answer

    def _change_roster(self, query: Element, now: Time) -> None:
        """End the consumption of a removed queue; names and groups of a client are not kept."""
        item = query.child(ROSTER, "item")
        if item is None or len(query.children) != 1:
            raise StanzaError("modify", "bad-request", "a change of the roster needs one item")
        jid = parse_jid(item.attributes.get("jid", ""))
        destination = self._destinations.find(jid)
        if item.attributes.get("subscription") == "remove" and destination.is_queue:
            self._presences.handle_queue(jid, destination, False, "unsubscribe", now)
