"""Executes the messages of a logged-in client in the broker.

Presences and queries have modules of their own.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.ports import NO_TOKEN
from spanwire.model.acks import POISON_ACK, MessageAck
from spanwire.model.destination import QUEUE, TOPIC, Destination, check_name
from spanwire.model.environment import Time
from spanwire.model.errors import InvalidDestinationError, JmsError, SpanwireError
from spanwire.model.ids import MessageId, ProducerId, SessionId
from spanwire.model.info import ProducerCounts, ProducerInfo
from spanwire.protocols.xmpp.codec.addresses import Jid, parse_jid
from spanwire.protocols.xmpp.codec.elements import CLIENT, Element
from spanwire.protocols.xmpp.codec.errors import StanzaError, XmppProtocolError
from spanwire.protocols.xmpp.consumer import ClientOutput
from spanwire.protocols.xmpp.destinations import Destinations
from spanwire.protocols.xmpp.presences import Presences
from spanwire.protocols.xmpp.queries import Queries
from spanwire.protocols.xmpp.replies import UNANSWERED, error_reply
from spanwire.protocols.xmpp.stanzas import FORMAT, GROUP_CHAT, RECEIPTS, message_view

SESSION: Final = -1  # the hidden session of a client's consumers and producer
PRODUCER: Final = 1
MAX_ID: Final = 1_024  # characters of the id of a message, which is kept until the broker has stored the message
CANNOT_CARRY: Final = "XMPP cannot carry the message"

logger = logging.getLogger(__name__)


class ClientSession:
    """The work of one client with the address ``jid``.

    ``pending`` are the sends not finished by the broker, by token, without their contents.
    """

    def __init__(
        self, broker: Broker, state: ConnectionState, jid: Jid, chunks: list[bytes], *, has_queue: bool
    ) -> None:
        """Without ``has_queue``, an anonymous client, no queue has the name of the user."""
        self.state: Final[ConnectionState] = state
        self.jid: Final[Jid] = jid
        self.pending: Final[dict[int, Element]] = {}
        self._broker: Final[Broker] = broker
        self._token = NO_TOKEN
        self._sequence = 0
        self._producer_id: Final[ProducerId] = ProducerId(state.connection_id, SESSION, PRODUCER)
        self._counts: Final[ProducerCounts] = ProducerCounts()
        self._output: Final[ClientOutput] = ClientOutput(jid, chunks, broker.formats, broker.environment)
        self._destinations: Final[Destinations] = Destinations(broker, state.principal, jid.domain)
        self._own_queue: Final[Destination | None] = own_queue(state.principal.name) if has_queue else None
        self._presences: Final[Presences] = Presences(broker, state, self._output, self._destinations, self._own_queue)
        self._queries: Final[Queries] = Queries(self._output, self._destinations, self._presences)

    def begin(self, now: Time) -> None:
        """Announce the client's hidden session and producer."""
        self._broker.add_session(self.state, SessionId(self.state.connection_id, SESSION))
        self._broker.add_producer(self.state, ProducerInfo(self._producer_id, counts=self._counts), now)

    def next_token(self) -> int:
        """Return a new token for an answer of the broker."""
        self._token += 1
        return self._token

    def handle(self, stanza: Element, now: Time) -> None:
        """Execute a stanza, and answer a refused one by an error.

        Raises:
            XmppProtocolError: the element is no stanza.
        """
        if stanza.namespace != CLIENT:
            raise XmppProtocolError("unsupported-stanza-type", f"{stanza.name[:40]!r} is no stanza of a client")
        kind = stanza.attributes.get("type", "")
        try:
            if stanza.name == "message":
                if kind != "error":
                    self._send(stanza, now)
            elif stanza.name == "presence":
                self._presences.handle(stanza, kind, now)
            elif stanza.name == "iq":
                self._queries.handle(stanza, kind, now)
            else:
                raise XmppProtocolError("unsupported-stanza-type", f"{stanza.name[:40]!r} is no stanza of a client")
        except JmsError as error:
            if kind not in UNANSWERED:
                self._output.write(error_reply(stanza, str(self.jid), error))

    def complete(self, token: int, error: SpanwireError | None) -> None:
        """Answer a send finished by the broker, if the stanza asks for a receipt or was refused."""
        stanza = self.pending.pop(token, None)
        if stanza is None:
            if error is not None:  # one of several destinations refuses a message that had to wait
                self._presences.write_notice(str(error))
            return
        if error is not None:
            self._output.write(error_reply(stanza, str(self.jid), error))
        elif stanza.child(RECEIPTS, "request") is not None:
            self._write_receipt(stanza)

    def acknowledge_undelivered(self, now: Time) -> None:
        """Move messages without a form in XMPP to the dead letter queue."""
        undelivered = self._output.undelivered
        while undelivered:  # the room of one message can bring the next
            entry = undelivered.pop(0)
            broker_side = entry.consumer.broker_side
            if broker_side is None or broker_side.removed:
                continue  # its messages are back in the queue
            ack = MessageAck(POISON_ACK, entry.message_id, entry.message_id, cause=CANNOT_CARRY)
            try:
                self._broker.acknowledge(self.state, broker_side, ack, None, NO_TOKEN, now)
            except SpanwireError as error:
                logger.warning(
                    "message %s could not become a dead letter, and stays with its consumer: %s",
                    entry.message_id,
                    error,
                )

    @property
    def has_undelivered(self) -> bool:
        """Return True while messages wait for `acknowledge_undelivered`."""
        return bool(self._output.undelivered)

    def _send(self, stanza: Element, now: Time) -> None:
        """Send a message; a stanza without a body, such as a chat state, is no message."""
        is_group = stanza.attributes.get("type") == GROUP_CHAT
        if stanza.child(CLIENT, "body") is None:
            if is_group and stanza.child(CLIENT, "subject") is not None:
                raise StanzaError("auth", "forbidden", "a topic has no subject that could be changed")
            return
        if len(stanza.attributes.get("id", "")) > MAX_ID:
            raise StanzaError("modify", "bad-request", f"the id of a message has more than {MAX_ID} characters")
        destination, nick = self._target(stanza, is_group)
        self._sequence += 1
        message_id = MessageId(self._producer_id, self._sequence)
        view = message_view(stanza, message_id, destination, self.jid, nick, now.wall_ms)
        if not is_group:
            view.reply_to = self._own_queue
        message = self._broker.formats.format(FORMAT).encode_from_view(view)
        self._counts.sent += 1
        token = self.next_token()
        self.pending[token] = without_contents(stanza)
        try:
            is_done = self._broker.send(self.state, message, None, token, now)
        except JmsError:
            self.pending.pop(token, None)
            raise
        if is_done:
            self.complete(token, None)

    def _target(self, stanza: Element, is_group: bool) -> tuple[Destination, str]:
        """Return the destination of a message, and the sender's nick there."""
        to = stanza.attributes.get("to")
        if to is None:
            if self._own_queue is None:
                raise StanzaError("modify", "jid-malformed", "the message names no queue or topic")
            return self._own_queue, ""
        jid = parse_jid(to)
        destination = self._destinations.find(jid, is_room=is_group)
        if jid.resource and destination.kind == TOPIC:
            raise StanzaError("cancel", "feature-not-implemented", "messages in a room are for all; leave out the nick")
        consumer = self._presences.find(destination)
        return destination, consumer.nick if consumer is not None and is_group else ""

    def _write_receipt(self, stanza: Element) -> None:
        """Write the receipt of a message (XEP-0184): the broker has stored it."""
        attributes = {"to": str(self.jid)}
        sender = stanza.attributes.get("to")
        if sender:
            attributes["from"] = sender
        receipt = Element(CLIENT, "message", attributes)
        receipt.add(Element(RECEIPTS, "received", {"id": stanza.attributes.get("id", "")}))
        self._output.write(receipt)


def without_contents(stanza: Element) -> Element:
    """Return the part of a message for the receipt or the error."""
    kept = Element(CLIENT, stanza.name)
    for name in ("to", "id"):
        if name in stanza.attributes:
            kept.attributes[name] = stanza.attributes[name]
    request = stanza.child(RECEIPTS, "request")
    if request is not None:
        kept.add(Element(RECEIPTS, "request"))
    return kept


def own_queue(user: str) -> Destination | None:
    """Return the queue for direct messages to a user; None if the name cannot name one queue."""
    try:
        check_name(user)
    except InvalidDestinationError:
        return None
    queue = Destination(QUEUE, user)
    return None if queue.is_composite or queue.is_pattern else queue
