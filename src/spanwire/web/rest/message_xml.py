"""A message as an XML element with the class name of ActiveMQ's message types."""

from __future__ import annotations

import base64
import json
import re
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from spanwire.client.messages.message import Message
from spanwire.model.errors import MessageFormatError
from spanwire.web.rest.answers import json_value

CLASSES: Final = {
    "message": "ActiveMQMessage",
    "text": "ActiveMQTextMessage",
    "bytes": "ActiveMQBytesMessage",
    "map": "ActiveMQMapMessage",
    "stream": "ActiveMQStreamMessage",
    "object": "ActiveMQObjectMessage",
    "blob": "ActiveMQBlobMessage",
}
PACKAGE: Final = "org.apache.activemq.command"
# Characters that XML 1.0 has no way to write (§2.2); U+FFFD stands for them.
UNWRITABLE: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text_node(text: str) -> str:
    """Return a text for the content of an element."""
    return escape(UNWRITABLE.sub("\ufffd", text), {"\r": "&#13;"})


def attribute(text: str) -> str:
    """Return a text as a quoted attribute."""
    return quoteattr(UNWRITABLE.sub("\ufffd", text))


def message_xml(message: Message) -> str:
    """Return a message with headers, properties and body. Octets are in base64, maps and streams in JSON."""
    name = f"{PACKAGE}.{CLASSES[message.kind]}"
    lines = [f"<{name}>"]
    for tag, value in _headers(message):
        if value is not None:
            lines.append(f"  <{tag}>{text_node(value)}</{tag}>")
    lines += _properties(message)
    lines += _body(message)
    lines.append(f"</{name}>")
    return "\n".join(lines) + "\n"


def _headers(message: Message) -> list[tuple[str, str | None]]:
    reply_to, original = message.reply_to, message.original_destination
    return [
        ("messageId", message.message_id),
        ("destination", str(message.destination)),
        ("originalDestination", None if original is None else str(original)),
        ("timestamp", str(message.timestamp)),
        ("expiration", str(message.expiration)),
        ("priority", str(message.priority)),
        ("persistent", _word(message.persistent)),
        ("redeliveryCounter", str(message.redelivery_count)),
        ("correlationId", message.correlation_id),
        ("replyTo", None if reply_to is None else str(reply_to)),
        ("type", message.message_type),
        ("groupID", message.group_id),
        ("userID", message.user_id),
    ]


def _properties(message: Message) -> list[str]:
    try:
        properties = message.typed_properties
    except MessageFormatError as error:
        return [f"  <properties error={attribute(str(error))}/>"]
    if not properties:
        return []
    lines = ["  <properties>"]
    for name, (kind, value) in properties.items():
        text = _word(value) if isinstance(value, bool) else str(value)
        lines.append(f"    <property name={attribute(name)} type={attribute(kind)}>{text_node(text)}</property>")
    return [*lines, "  </properties>"]


def _body(message: Message) -> list[str]:
    try:
        body = message.body
    except MessageFormatError as error:
        return [f"  <content error={attribute(str(error))}/>"]
    if body is None:
        return []
    if isinstance(body, str):
        return [f"  <text>{text_node(body)}</text>"]
    if isinstance(body, bytes):
        return [f'  <content encoding="base64">{base64.b64encode(body).decode("ascii")}</content>']
    return [f'  <content encoding="json">{text_node(json.dumps(json_value(body)))}</content>']


def _word(value: bool) -> str:
    return "true" if value else "false"
