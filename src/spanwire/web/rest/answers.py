"""Answers of the message servlet: a message as the body and headers of an HTTP response."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from spanwire.client.messages.message import Message
from spanwire.model.errors import MessageFormatError

TEXT: Final = "text/plain; charset=utf-8"
XML: Final = "application/xml; charset=utf-8"
JSON: Final = "application/json"
BINARY: Final = "application/octet-stream"
IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,127}", re.ASCII)  # JMS 1.1 §3.5.1, so never a hyphen
DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]{0,256}\?>")
# Header names without a hyphen that a browser, a cache or a proxy acts on, and the names of this servlet.
RESERVED: Final = frozenset(
    "accept age allow authorization connection cookie date destination dnt etag expect expires forwarded from host id "
    "link location nel origin p3p pragma priority range referer refresh server sourcemap te tk trailer upgrade vary "
    "via warning".split()
)
OMITTED: Final = "omitted-properties"  # names of the properties that make no header
MAX_HEADERS_BYTES: Final = 8 * 1024  # bytes of names and values in all; proxies refuse heads above 8 to 16 KiB
MAX_OMITTED_BYTES: Final = 1_024  # of the header that names the others
VISIBLE: Final = re.compile(r"[\x20-\x7e\xa0-\xff]*")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    body: bytes
    content_type: str
    headers: dict[str, str]


def answer_of(message: Message, *, as_json: bool = False, as_xml: bool = False) -> Answer:
    """Return the response for a message.

    A text that begins with ``<`` is XML. A map or a stream is JSON. ``as_json`` and ``as_xml`` set the type of a text
    to JSON or XML.

    Raises:
        MessageFormatError: the body or the properties cannot be decoded.
    """
    headers = {
        "destination": quote(str(message.destination), safe="/:.>*-_~"),
        "id": quote(message.message_id, safe="/:.>*-_~"),  # foreign clients choose it freely
    }
    for name, value in (
        ("JMSCorrelationID", message.correlation_id),
        ("JMSType", message.message_type),
        ("JMSReplyTo", None if message.reply_to is None else str(message.reply_to)),
    ):
        if value is not None and _fits(value):
            headers[name] = value
    body, content_type = _body(message, as_json, as_xml)
    return Answer(body, content_type, headers | _property_headers(message))


def json_value(value: object) -> object:
    """Return a value of a map or stream in the form of JSON; octets in base64."""
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(name): json_value(one) for name, one in value.items()}
    if isinstance(value, list):
        return [json_value(one) for one in value]
    return value


def _body(message: Message, as_json: bool, as_xml: bool) -> tuple[bytes, str]:
    kind = message.kind
    body = message.body
    if kind in ("map", "stream"):
        return json.dumps(json_value(body)).encode(), JSON
    if isinstance(body, bytes):
        return body, BINARY
    text = "" if body is None else str(body)
    if as_json:
        return text.encode("utf-8", "replace"), JSON
    if as_xml or text.startswith("<"):
        return DECLARATION.sub("", text).encode("utf-8", "replace"), XML
    return text.encode("utf-8", "replace"), TEXT


def _property_headers(message: Message) -> dict[str, str]:
    """Return the properties as headers, and one header with the names of the unfit properties."""
    headers: dict[str, str] = {}
    omitted: list[str] = []
    size = 0
    for name, value in message.properties.items():
        text = _text(value)
        size += len(name) + len(text)
        is_fit = IDENTIFIER.fullmatch(name) is not None and name.lower() not in RESERVED and _fits(text)
        if is_fit and size <= MAX_HEADERS_BYTES and name.lower() not in {one.lower() for one in headers}:
            headers[name] = text
        else:
            omitted.append(quote(name[:128], safe=""))
    if omitted:
        listed = ", ".join(omitted)
        headers[OMITTED] = listed if len(listed) <= MAX_OMITTED_BYTES else f"{len(omitted)} properties"
    return headers


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    return json.dumps(json_value(value)) if isinstance(value, (bytes, dict, list)) else str(value)


def _fits(text: str) -> bool:
    """Return True for a text fit for a header."""
    return len(text) <= MAX_HEADERS_BYTES and VISIBLE.fullmatch(text) is not None and text == text.strip()


__all__ = ["Answer", "MessageFormatError", "answer_of", "json_value"]
