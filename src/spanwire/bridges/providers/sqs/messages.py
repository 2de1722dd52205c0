"""Messages of SQS as messages of a bridge, and back.

JMS headers and properties are attributes, as texts. SQS takes ten; the others go into the attribute `TEXTS`, as JSON.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from hashlib import blake2b
from typing import Any, Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.steps import DUPLICATE_ID
from spanwire.bridges.providers.bodies import KIND, foreign_type, incoming_body, outgoing_body
from spanwire.bridges.providers.text_headers import (
    GROUP_ID,
    MESSAGE_ID,
    apply_texts,
    content_type_of,
    incoming_properties,
    number,
    outgoing_texts,
)
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import TEXT, PropertyValue

CONTENT_TYPE: Final = "content-type"
ENCODING: Final = "JMSEncoding"  # attribute of a body that is no text of SQS: `BASE64` or `EMPTY`
BASE64: Final = "base64"
EMPTY: Final = "empty"
TEXTS: Final = "JMSTexts"  # attribute with a JSON object of texts beyond the limits of SQS
MAX_ATTRIBUTES: Final = 10
MAX_BYTES: Final = 262_144  # bytes of a message, its attributes included
NAME: Final = re.compile(r"(?!(?i:aws\.|amazon\.|\.))(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)")
UNFIT: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that SQS refuses
TYPE: Final = "String"
TOKEN: Final = re.compile(r"[!-~]{1,128}")  # an id of a group or for the detection of duplicates
DIGEST: Final = 16  # bytes of a digest in such an id
DEFAULT_GROUP: Final = "spanwire"  # of messages without JMSXGroupID in a FIFO queue, which keeps their order

Attributes = dict[str, dict[str, str]]


class SqsContent:
    """Body and attributes of a message; the kind is known when it arrives."""

    __slots__ = ("body", "texts")

    def __init__(self, body: bytes | None, texts: dict[str, str]) -> None:
        self.body: Final[bytes | None] = body
        self.texts: Final[dict[str, str]] = texts

    def neutral_body(self) -> bytes | None:
        """Return the body in its neutral encoding."""
        return self.body

    def property_values(self) -> dict[str, PropertyValue]:
        """Return the attributes that are no JMS headers, as strings."""
        texts = {name: text for name, text in self.texts.items() if name not in (CONTENT_TYPE, ENCODING)}
        return incoming_properties(texts, foreign_type(self.texts.get(CONTENT_TYPE)))


def bridge_message(received: dict[str, Any]) -> BridgeMessage:
    """Return a received message; binary attributes arrive with replacement characters."""
    texts = texts_of(received.get("MessageAttributes") or {})
    own = received.get("Attributes") or {}
    octets, is_text = _octets(received.get("Body", ""), texts.get(ENCODING))
    content_type = texts.get(CONTENT_TYPE) or ("text/plain" if is_text else None)
    kind, body = incoming_body(octets, content_type, texts.get(KIND))
    message_id = texts.get(MESSAGE_ID) or str(received.get("MessageId", ""))
    message = BridgeMessage(message_id, kind, SqsContent(body, texts), len(octets))
    message.timestamp_ms = number(own.get("SentTimestamp"), 0)
    message.group_id = own.get("MessageGroupId")
    message.is_redelivered = number(own.get("ApproximateReceiveCount"), 1) > 1
    apply_texts(message, texts)
    return message


def texts_of(attributes: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the attributes with the texts of `TEXTS`; a damaged one stays an attribute like others."""
    texts: dict[str, str] = {}
    for name, value in attributes.items():
        text = value.get("StringValue")
        texts[name] = text if text is not None else bytes(value.get("BinaryValue") or b"").decode("utf-8", "replace")
    try:
        others = json.loads(texts.get(TEXTS, "null"))
    except (ValueError, RecursionError):
        return texts
    if isinstance(others, dict) and all(isinstance(text, str) for text in others.values()):
        del texts[TEXTS]
        texts |= others
    return texts


def outgoing_message(message: BridgeMessage, is_fifo: bool, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return an entry of a batch without its id. ``max_bytes`` is the largest message of the queue.

    Raises:
        MessageFormatError: body or properties have no form in SQS, or the message is too large.
    """
    octets, own_type, kind = outgoing_body(message.kind, message.content.neutral_body())
    texts = outgoing_texts(message, kind)
    group = texts.get(GROUP_ID)
    if is_fifo and group is not None and TOKEN.fullmatch(group):
        del texts[GROUP_ID]
    content_type = content_type_of(message, own_type)
    if content_type is not None and not (message.kind == TEXT and content_type == own_type):
        texts[CONTENT_TYPE] = content_type
    body, encoding = _body(octets, message.kind == TEXT)
    if encoding is not None:
        texts[ENCODING] = encoding
    entry: dict[str, Any] = {"MessageBody": body, "MessageAttributes": attributes_of(texts)}
    if is_fifo:
        entry["MessageGroupId"] = _token(group or DEFAULT_GROUP)
        entry["MessageDeduplicationId"] = _duplicate_id(message, texts, octets)
    size = size_of(entry)
    if size > max_bytes:
        raise MessageFormatError(f"the message has {size} bytes, and the queue of SQS takes {max_bytes}")
    return entry


def attributes_of(texts: dict[str, str]) -> Attributes:
    """Return attributes within the limits of SQS: those without room are in `TEXTS`."""
    fit = [name for name, text in texts.items() if NAME.fullmatch(name) and text and not UNFIT.search(text)]
    fit = [name for name in fit if name != TEXTS]
    if len(fit) > MAX_ATTRIBUTES or len(fit) < len(texts):
        fit = fit[: MAX_ATTRIBUTES - 1]
    chosen = {name: texts[name] for name in fit}
    others = {name: text for name, text in texts.items() if name not in chosen}
    if others:
        chosen[TEXTS] = json.dumps(others, separators=(",", ":"))
    return {name: {"DataType": TYPE, "StringValue": text} for name, text in chosen.items()}


def size_of(entry: dict[str, Any]) -> int:
    """Return the bytes of a message that count for the limit of SQS."""
    attributes: Attributes = entry["MessageAttributes"]
    texts = (f"{name}{TYPE}{value['StringValue']}" for name, value in attributes.items())
    return len(entry["MessageBody"].encode()) + sum(len(text.encode()) for text in texts)


def _body(octets: bytes, is_text: bool) -> tuple[str, str | None]:
    if not octets:
        return "-", EMPTY
    if is_text:
        text = octets.decode("utf-8")
        if not UNFIT.search(text):
            return text, None
    return base64.b64encode(octets).decode(), BASE64


def _octets(body: str, encoding: str | None) -> tuple[bytes, bool]:
    """Return the octets of a body, and whether they are a text by their form."""
    if encoding == EMPTY:
        return b"", False
    if encoding == BASE64:
        try:
            return base64.b64decode(body, validate=True), False
        except ValueError:
            pass  # a false claim
    return body.encode("utf-8", "replace"), True


def _duplicate_id(message: BridgeMessage, texts: dict[str, str], octets: bytes) -> str:
    own = texts.get(DUPLICATE_ID)
    if own is not None:
        return _token(own)
    if not message.message_id:
        return secrets.token_hex(DIGEST)
    return _token(f"{message.message_id}/{blake2b(octets, digest_size=DIGEST).hexdigest()}")


def _token(text: str) -> str:
    return text if TOKEN.fullmatch(text) else blake2b(text.encode(), digest_size=DIGEST).hexdigest()
