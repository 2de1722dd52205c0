"""Message stanzas as messages of the broker, and back.

    body         a TextMessage
    thread       JMSCorrelationID
    type         JMSType
    headers      string properties (XEP-0131); JMSXGroupID is the group
    no-store     a non-persistent message (XEP-0334)

The broker sets the properties XMPPFrom, XMPPTo, XMPPID, XMPPLang, as ActiveMQ did, and XMPPSubject and XMPPNick. A body
without a form in XML arrives as JSON, as ``readable.py`` writes it, and the header `MESSAGE_KIND` names its kind.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Final

from spanwire.model.destination import MAX_UTF8_BYTES, Destination
from spanwire.model.errors import MessageFormatError
from spanwire.model.ids import MessageId
from spanwire.model.message import FORMAT_OPENWIRE_10
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTES,
    BYTES_VALUE,
    LIST_VALUE,
    MAP_VALUE,
    NULL_VALUE,
    PLAIN,
    STRING_VALUE,
    TEXT,
    MessageView,
)
from spanwire.protocols.readable import BASE64, KIND_NAMES, readable_message
from spanwire.protocols.xmpp.codec.addresses import Jid
from spanwire.protocols.xmpp.codec.elements import CLIENT, LANGUAGE, Element, is_writable
from spanwire.protocols.xmpp.codec.errors import StanzaError

FORMAT: Final = FORMAT_OPENWIRE_10  # in which messages of clients are kept: the TextMessage of every JMS client
MAX_BODY: Final = 1024 * 1024  # characters of a body for a client, and of all else; a longer one is a dead letter
NUMBER_LENGTH: Final = 24  # characters of a property that is a number; those of the longest double
DELAY_MS: Final = 10_000  # milliseconds after which a message says when it was sent

HEADERS: Final = "http://jabber.org/protocol/shim"
HINTS: Final = "urn:xmpp:hints"
DELAY: Final = "urn:xmpp:delay"
RECEIPTS: Final = "urn:xmpp:receipts"

FROM: Final = "XMPPFrom"
TO: Final = "XMPPTo"
ID: Final = "XMPPID"
LANG: Final = "XMPPLang"
SUBJECT: Final = "XMPPSubject"
NICK: Final = "XMPPNick"
OWN_PROPERTIES: Final = frozenset({FROM, TO, ID, LANG, SUBJECT, NICK})
GROUP: Final = "JMSXGroupID"
DESTINATION: Final = "JMSDestination"
DELIVERIES: Final = "JMSXDeliveryCount"
MESSAGE_KIND: Final = "JMSMessageKind"
RESERVED: Final = ("JMS", "XMPP")  # beginnings of headers that only the broker sets

CHAT_TYPES: Final = ("chat", "headline", "normal")
GROUP_CHAT: Final = "groupchat"
_NO_TEXT: Final = (NULL_VALUE, BYTES_VALUE, MAP_VALUE, LIST_VALUE)  # types of properties without a text
_LAST_MS: Final = 253_402_300_799_000  # the end of the year 9999


def message_view(
    stanza: Element, message_id: MessageId, destination: Destination, sender: Jid, nick: str, timestamp_ms: int
) -> MessageView:
    """Return the message of a stanza; ``nick`` is the sender's name in the room, "" outside of rooms.

    Raises:
        StanzaError: a header has no name, or the name of a property set by the broker.
    """
    view = MessageView(TEXT, destination, message_id)
    view.timestamp_ms = timestamp_ms
    view.persistent = stanza.child(HINTS, "no-store") is None and stanza.child(HINTS, "no-permanent-store") is None
    view.type = stanza.attributes.get("type", "normal")
    body = stanza.child(CLIENT, "body")
    view.body = b"" if body is None else body.text.encode()
    thread = stanza.child(CLIENT, "thread")
    if thread is not None and thread.text:
        view.correlation_id = thread.text
    subject = stanza.child(CLIENT, "subject")
    texts = {
        FROM: str(sender),
        TO: stanza.attributes.get("to", ""),
        ID: stanza.attributes.get("id", ""),
        LANG: stanza.attributes.get(LANGUAGE, ""),
        SUBJECT: "" if subject is None else subject.text,
        NICK: nick,
    }
    for name, text in texts.items():
        if text:
            view.properties[name] = (STRING_VALUE, text)
    headers = stanza.child(HEADERS, "headers")
    if headers is not None:
        _read_headers(headers, view)
    return view


def _read_headers(headers: Element, view: MessageView) -> None:
    for header in headers.children:
        name = header.attributes.get("name", "")
        if header.name != "header" or header.namespace != HEADERS:
            continue
        if name == GROUP:
            view.group_id = header.text
        elif not name or name.startswith(RESERVED):
            raise StanzaError("modify", "not-acceptable", f"the header {name[:80]!r} is set by the broker alone")
        else:
            view.properties[name] = (STRING_VALUE, header.text)


def message_stanza(view: MessageView, sender: str, receiver: str, kind: str, now_ms: int) -> Element:
    """Return the stanza of a message; ``kind`` is the type of the stanza.

    Raises:
        MessageFormatError: the body is malformed or longer than `MAX_BODY`, or so are its properties together.
    """
    text, described = body_text(view)
    if len(text) > MAX_BODY:
        raise MessageFormatError(f"a body of {len(text)} characters is more than XMPP clients get, {MAX_BODY}")
    others = 0
    for name, value in view.properties.items():
        others += len(name) + (len(str(value[1])) if value[0] == STRING_VALUE else NUMBER_LENGTH)
    if others > MAX_BODY:
        raise MessageFormatError(f"properties of {others} characters are more than XMPP clients get, {MAX_BODY}")
    attributes = {"type": kind, "from": sender, "to": receiver, "id": property_text(view, ID) or str(view.message_id)}
    language = property_text(view, LANG)
    if language:
        attributes[LANGUAGE] = language
    stanza = Element(CLIENT, "message", attributes)
    subject = property_text(view, SUBJECT)
    if subject:
        stanza.add(Element(CLIENT, "subject", text=subject))
    if view.kind != PLAIN:
        stanza.add(Element(CLIENT, "body", text=text))
    if view.correlation_id:
        stanza.add(Element(CLIENT, "thread", text=view.correlation_id))
    stanza.children.append(_headers(view, described))
    if DELAY_MS < now_ms - view.timestamp_ms and 0 < view.timestamp_ms < _LAST_MS:
        sent = datetime.fromtimestamp(view.timestamp_ms // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        stanza.add(Element(DELAY, "delay", {"stamp": sent}))
    return stanza


def _headers(view: MessageView, described: str) -> Element:
    headers = Element(HEADERS, "headers")
    texts: dict[str, str] = {DESTINATION: view.destination.qualified_name}
    if described:
        texts[MESSAGE_KIND] = described
    if view.redelivery_count > 0:
        texts[DELIVERIES] = str(view.redelivery_count + 1)
    if view.group_id is not None:
        texts[GROUP] = view.group_id
    for name, value in view.properties.items():
        if name in OWN_PROPERTIES or name in texts or value[0] in _NO_TEXT:
            continue
        texts[name] = str(value[1]).lower() if value[0] == BOOLEAN_VALUE else str(value[1])
    for name, text in texts.items():
        headers.add(Element(HEADERS, "header", {"name": name}, text))
    return headers


def body_text(view: MessageView) -> tuple[str, str]:
    """Return the body as text, and the kind of the message if the text is JSON, else "".

    Such JSON describes the body.

    Raises:
        MessageFormatError: the body cannot be decoded, or is far longer than `MAX_BODY`.
    """
    body = view.body
    if view.kind == PLAIN or body is None:
        return "", ""
    if len(body) > MAX_BODY * MAX_UTF8_BYTES:
        raise MessageFormatError(f"a body of {len(body)} bytes is more than XMPP clients get, {MAX_BODY} characters")
    if view.kind == TEXT or view.kind == BYTES:
        try:
            text = body.decode()
        except UnicodeDecodeError:
            text = "\0"
        if is_writable(text):
            return text, ""
        return json.dumps({BASE64: base64.b64encode(body).decode("ascii")}), KIND_NAMES[view.kind]
    return json.dumps(readable_message(view).get("body")), KIND_NAMES[view.kind]


def property_text(view: MessageView, name: str) -> str:
    """Return a string property; "" for any other value or none."""
    value = view.properties.get(name)
    if value is None or value[0] != STRING_VALUE:
        return ""
    return str(value[1])
