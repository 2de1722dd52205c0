"""Presences: the consumed queues and the joined rooms of a client (RFC 6121; XEP-0045).

    available, without an address      the queue of the client's own name, unless the priority is negative
    available or subscribe, a queue    the queue
    available, a room with a nick      the room; another nick changes the name there
    unavailable or unsubscribe         ends it

Queues and rooms last as long as the connection.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConsumerInfo
from spanwire.protocols.xmpp.codec.addresses import Jid, jid_of, parse_jid
from spanwire.protocols.xmpp.codec.elements import CLIENT, Element
from spanwire.protocols.xmpp.codec.errors import StanzaError
from spanwire.protocols.xmpp.consumer import BROKER, MAX_NICK, ClientOutput, XmppConsumer
from spanwire.protocols.xmpp.destinations import Destinations
from spanwire.protocols.xmpp.stanzas import GROUP_CHAT

PREFETCH: Final = 100  # messages written before the socket has taken the first ones
SESSION: Final = -1
MUC: Final = "http://jabber.org/protocol/muc"
MUC_USER: Final = MUC + "#user"
ROSTER: Final = "jabber:iq:roster"
OWN_PRESENCE: Final = "110"  # status of the client's own presence in a room
NEW_NICK: Final = "303"

BEGINNINGS: Final = ("", "subscribe")
ENDS: Final = ("unavailable", "unsubscribe")


class Presences:
    """The consumers of one client, by destination."""

    def __init__(
        self,
        broker: Broker,
        state: ConnectionState,
        output: ClientOutput,
        destinations: Destinations,
        own_queue: Destination | None,
    ) -> None:
        self._broker: Final[Broker] = broker
        self._state: Final[ConnectionState] = state
        self._output: Final[ClientOutput] = output
        self._destinations: Final[Destinations] = destinations
        self._own_queue: Final[Destination | None] = own_queue
        self._consumers: Final[dict[str, XmppConsumer]] = {}
        self._count = 0

    def find(self, destination: Destination) -> XmppConsumer | None:
        """Return the client's consumer of a queue or topic."""
        consumer = self._consumers.get(destination.qualified_name)
        if consumer is not None and consumer.is_closed:
            del self._consumers[destination.qualified_name]
            return None
        return consumer

    def handle(self, stanza: Element, kind: str, now: Time) -> None:
        """Begin or end consumption.

        Raises:
            JmsError: the client may not consume, or the address names no destination.
        """
        to = stanza.attributes.get("to")
        if to is None:
            self._handle_own(stanza, kind, now)
            return
        if kind not in BEGINNINGS and kind not in ENDS:
            return  # probes, and answers to what the broker never asks
        jid = parse_jid(to)
        is_room = stanza.child(MUC, "x") is not None
        destination = self._destinations.find(jid, is_room=is_room)
        if jid.resource and not is_room and destination.kind != TOPIC:
            topic = self._destinations.find(jid, is_room=True)
            if self.find(topic) is not None:
                destination = topic
        if destination.kind == TOPIC:
            self._handle_room(jid, destination, kind, now)
        else:
            self.handle_queue(jid, destination, kind in BEGINNINGS, kind, now)

    def handle_queue(self, jid: Jid, destination: Destination, begins: bool, kind: str, now: Time) -> None:
        """Begin or end the consumption of a queue, and tell the client for the roster."""
        address = Jid(jid.local, jid.domain)
        consumer = self.find(destination)
        if not begins:
            if consumer is not None:
                self._remove(consumer, now)
                self._push(consumer.address, "none")
            self._write_presence(str(address), "unsubscribed" if kind == "unsubscribe" else "unavailable")
            return
        if consumer is None:
            consumer = self._add(destination, address, "", now)
            self._push(address, "both")
        if kind == "subscribe":
            self._write_presence(str(address), "subscribed")
        self._write_presence(str(address), "")
        self._start(consumer, now)

    def _handle_own(self, stanza: Element, kind: str, now: Time) -> None:
        """Begin or end the consumption of the client's own queue."""
        queue = self._own_queue
        if queue is None:
            return
        consumer = self.find(queue)
        priority = stanza.child(CLIENT, "priority")
        wants_messages = priority is None or not priority.text.strip().startswith("-")
        if kind == "unavailable" or (kind == "" and not wants_messages):
            if consumer is not None:
                self._remove(consumer, now)
            return
        if kind != "" or consumer is not None:
            return
        address = jid_of(queue, self._output.jid.domain)
        try:
            consumer = self._add(queue, address, "", now)
        except JmsError as error:
            self.write_notice(f"No direct messages reach you: {error}")
            return
        self._start(consumer, now)

    def _handle_room(self, jid: Jid, destination: Destination, kind: str, now: Time) -> None:
        consumer = self.find(destination)
        if kind in ENDS:
            if consumer is not None:
                self._remove(consumer, now)
                self._write_occupant(consumer.address, consumer.nick, "unavailable", [OWN_PRESENCE])
            return
        nick = jid.resource
        if not nick or len(nick) > MAX_NICK:
            raise StanzaError("modify", "jid-malformed", "a room is entered with a nick: room@domain/nick")
        if consumer is None:
            room = Jid(jid.local, jid.domain)
            consumer = self._add(destination, room, nick, now)
            self._write_occupant(room, BROKER, "", [])
            self._write_occupant(room, nick, "", [OWN_PRESENCE])
            subject = Element(CLIENT, "message", self._attributes(str(room), GROUP_CHAT))
            subject.add(Element(CLIENT, "subject"))
            self._output.write(subject)
            self._start(consumer, now)
            return
        if consumer.nick != nick:
            self._write_occupant(consumer.address, consumer.nick, "unavailable", [NEW_NICK, OWN_PRESENCE], nick)
            consumer.nick = nick
        self._write_occupant(consumer.address, nick, "", [OWN_PRESENCE])

    def _add(self, destination: Destination, address: Jid, nick: str, now: Time) -> XmppConsumer:
        """Return a new consumer, without a dispatch so far."""
        self._count += 1
        connection_id = self._state.connection_id
        consumer = XmppConsumer(self._count, destination, address, nick, connection_id, self._output)
        info = ConsumerInfo(ConsumerId(connection_id, SESSION, self._count), destination, PREFETCH)
        consumer.broker_side = self._broker.add_consumer(self._state, info, consumer, now, automatic=True)
        self._consumers[destination.qualified_name] = consumer
        return consumer

    def _start(self, consumer: XmppConsumer, now: Time) -> None:
        broker_side = consumer.broker_side
        if broker_side is not None:
            self._broker.start_consumer(broker_side, now)

    def _remove(self, consumer: XmppConsumer, now: Time) -> None:
        del self._consumers[consumer.destination.qualified_name]
        consumer_id = ConsumerId(self._state.connection_id, SESSION, consumer.number)
        self._broker.remove_consumer(self._state, consumer_id, LAST_DELIVERED_UNKNOWN, now)

    def _attributes(self, sender: str, kind: str) -> dict[str, str]:
        attributes = {"from": sender, "to": str(self._output.jid)}
        if kind:
            attributes["type"] = kind
        return attributes

    def _write_presence(self, sender: str, kind: str) -> None:
        self._output.write(Element(CLIENT, "presence", self._attributes(sender, kind)))

    def _write_occupant(self, room: Jid, nick: str, kind: str, statuses: list[str], new_nick: str = "") -> None:
        """Write the presence of a participant of a room."""
        presence = Element(CLIENT, "presence", self._attributes(f"{room}/{nick}", kind))
        inner = presence.add(Element(MUC_USER, "x"))
        role = "none" if kind else "moderator" if nick == BROKER else "participant"
        item = {"affiliation": "owner" if nick == BROKER else "member", "role": role}
        if new_nick:
            item["nick"] = new_nick
        inner.add(Element(MUC_USER, "item", item))
        for status in statuses:
            inner.add(Element(MUC_USER, "status", {"code": status}))
        self._output.write(presence)

    def write_notice(self, text: str) -> None:
        """Write a message from the broker."""
        notice = Element(CLIENT, "message", self._attributes(self._output.jid.domain, "headline"))
        notice.add(Element(CLIENT, "body", text=text))
        self._output.write(notice)

    def _push(self, address: Jid, subscription: str) -> None:
        """Show a changed entry of the roster."""
        self._count += 1
        push = Element(CLIENT, "iq", {"type": "set", "id": f"roster-{self._count}", "to": str(self._output.jid)})
        query = push.add(Element(ROSTER, "query"))
        query.add(Element(ROSTER, "item", {"jid": str(address), "subscription": subscription}))
        self._output.write(push)
