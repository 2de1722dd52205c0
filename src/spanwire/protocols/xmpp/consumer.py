"""A consumer of an XMPP client: the source is a queue, or a room with the client as a participant."""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import MessageConsumer
from spanwire.model.destination import Destination
from spanwire.model.environment import Environment
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.ids import MessageId
from spanwire.model.message import Message
from spanwire.model.message_view import MessageView
from spanwire.protocols.xmpp.codec.addresses import Jid, jid_of, parse_jid
from spanwire.protocols.xmpp.codec.elements import CLIENT, Element, encode_element
from spanwire.protocols.xmpp.codec.errors import StanzaError
from spanwire.protocols.xmpp.stanzas import CHAT_TYPES, FROM, GROUP_CHAT, NICK, message_stanza, property_text

MAX_NICK: Final = 255  # characters of a nick, which other clients may choose; four bytes each fit an address
BROKER: Final = "broker"  # nick of a sender without one, as in ActiveMQ

logger = logging.getLogger(__name__)


class Undelivered:
    """A message without a form in XMPP, to become a dead letter."""

    __slots__ = ("consumer", "message_id")

    def __init__(self, consumer: XmppConsumer, message_id: MessageId) -> None:
        self.consumer: Final[XmppConsumer] = consumer
        self.message_id: Final[MessageId] = message_id


class ClientOutput:
    """The output of a connection and its consumers: ``chunks`` for the client ``jid``.

    ``undelivered`` is emptied at each flush.
    """

    def __init__(self, jid: Jid, chunks: list[bytes], formats: MessageFormats, environment: Environment) -> None:
        self.jid: Final[Jid] = jid
        self.chunks: Final[list[bytes]] = chunks
        self.formats: Final[MessageFormats] = formats
        self.environment: Final[Environment] = environment
        self.undelivered: Final[list[Undelivered]] = []

    def write(self, stanza: Element) -> None:
        """Append a stanza."""
        self.chunks.append(encode_element(stanza))


class XmppConsumer(MessageConsumer):
    """Writes the messages of one destination as stanzas.

    ``address`` is the address of the queue or room, as written by the client. ``nick`` is the client's own name in a
    room, "" for a queue. ``broker_side`` is the broker's subscription.
    """

    def __init__(
        self, number: int, destination: Destination, address: Jid, nick: str, connection_id: str, output: ClientOutput
    ) -> None:
        self.number: Final[int] = number
        self.destination: Final[Destination] = destination
        self.address: Final[Jid] = address
        self.nick = nick
        self.broker_side: Subscription | None = None
        self.is_closed = False  # by the broker
        self._connection_id: Final[str] = connection_id
        self._output: Final[ClientOutput] = output

    @property
    def is_room(self) -> bool:
        """Return True for a room, False for a queue."""
        return bool(self.nick)

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Write a message stanza, or put the message aside if XMPP cannot carry the message."""
        output = self._output
        try:
            view = output.formats.view(message)
            view.redelivery_count = redelivery_count
            sender = self._room_sender(view, message) if self.is_room else self._queue_sender(view)
            now = output.environment.now()
            stanza = message_stanza(view, sender, str(output.jid), self._type(view), now.wall_ms)
        except (JmsError, ProtocolError) as error:
            logger.warning(
                "message %s cannot be written for %s: %s; it becomes a dead letter",
                message.message_id,
                self.destination,
                error,
            )
            output.undelivered.append(Undelivered(self, message.message_id))
            return
        output.write(stanza)

    def dispatch_end(self) -> None:
        """Do nothing: no XMPP client browses or pulls."""

    def close(self, reason: JmsError) -> None:
        """Tell the client that the broker has ended the consumer."""
        self.is_closed = True
        sender = f"{self.address}/{self.nick}" if self.is_room else str(self.address)
        attributes = {"type": "unavailable", "from": sender, "to": str(self._output.jid)}
        presence = Element(CLIENT, "presence", attributes)
        presence.add(Element(CLIENT, "status", text=str(reason)))
        self._output.write(presence)

    def switch_to_pull(self) -> bool:
        """Return False, because XMPP has no pull."""
        return False

    def _type(self, view: MessageView) -> str:
        if self.is_room:
            return GROUP_CHAT
        return view.type if view.type in CHAT_TYPES else "chat"

    def _room_sender(self, view: MessageView, message: Message) -> str:
        """Return the sender as a participant of the room."""
        if message.producer_id.connection_id == self._connection_id:
            return f"{self.address}/{self.nick}"
        nick = property_text(view, NICK) or view.user_id or BROKER
        return f"{self.address}/{nick if nick.isprintable() and len(nick) <= MAX_NICK else BROKER}"

    def _queue_sender(self, view: MessageView) -> str:
        """Return the sending client of the message, else the destination for replies, else the queue."""
        written = property_text(view, FROM)
        if written:
            try:
                return str(parse_jid(written))
            except StanzaError:
                pass
        if view.reply_to is not None and not view.reply_to.is_composite:
            return str(jid_of(view.reply_to, self._output.jid.domain))
        return str(self.address)
