"""Feeds of the messages of a queue: RSS 1.0 and 2.0, Atom 0.3 and 1.0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, register_namespace, tostring

from spanwire.client.messages.message import Message
from spanwire.model.destination import Destination
from spanwire.web.rest.message_xml import UNWRITABLE
from spanwire.web.rest.requests import BadRequestError

RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RSS_1: Final = "http://purl.org/rss/1.0/"
ATOM_0_3: Final = "http://purl.org/atom/ns#"
ATOM_1_0: Final = "http://www.w3.org/2005/Atom"
DEFAULT: Final = "rss_2.0"
LAST_MS: Final = 253_402_300_799_000  # milliseconds; the last time that a feed can name, in the year 9999

Feed = Callable[[Destination, str, Sequence[Message]], bytes]


def feed_of(feed_type: str | None) -> Feed:
    """Return the maker of a feed: of a queue, the address of the view without a query, and some messages.

    Raises:
        BadRequestError: there is no such type.
    """
    maker = FEEDS.get(feed_type or DEFAULT)
    if maker is None:
        raise BadRequestError(f"feedType is {str(feed_type)[:40]!r}; it is one of {', '.join(FEEDS)}")
    return maker


def rss_2_0(queue: Destination, uri: str, messages: Sequence[Message]) -> bytes:
    """Return a feed in RSS 2.0."""
    root = Element("rss", version="2.0")
    channel = SubElement(root, "channel")
    _add(channel, title=_title(queue), link=uri, description=_title(queue))
    for message in messages:
        item = SubElement(channel, "item")
        _add(item, title=message.message_id, link=_link(uri, message), description=_summary(message))
        SubElement(item, "guid", isPermaLink="false").text = _clean(message.message_id)
        _add(item, pubDate=format_datetime(_time(message), usegmt=True))
    return _written(root)


def rss_1_0(queue: Destination, uri: str, messages: Sequence[Message]) -> bytes:
    """Return a feed in RSS 1.0."""
    register_namespace("rdf", RDF)
    root = Element(f"{{{RDF}}}RDF", xmlns=RSS_1)
    channel = SubElement(root, "channel", {f"{{{RDF}}}about": uri})
    _add(channel, title=_title(queue), link=uri, description=_title(queue))
    listed = SubElement(SubElement(channel, "items"), f"{{{RDF}}}Seq")
    for message in messages:
        SubElement(listed, f"{{{RDF}}}li", resource=_link(uri, message))
    for message in messages:
        item = SubElement(root, "item", {f"{{{RDF}}}about": _link(uri, message)})
        _add(item, title=message.message_id, link=_link(uri, message), description=_summary(message))
    return _written(root)


def atom(queue: Destination, uri: str, messages: Sequence[Message], *, version: str) -> bytes:
    """Return a feed in Atom ``1.0`` or ``0.3``."""
    is_old = version == "0.3"
    root = Element("feed", xmlns=ATOM_0_3 if is_old else ATOM_1_0)
    if is_old:
        root.set("version", version)
    time_name = "modified" if is_old else "updated"
    latest = max((_time(message) for message in messages), default=datetime.fromtimestamp(0, UTC))
    _add(root, title=_title(queue), id=uri, **{time_name: _rfc3339(latest)})
    SubElement(root, "link", rel="alternate", type="text/xml", href=uri)
    SubElement(SubElement(root, "author"), "name").text = "Spanwire"
    for message in messages:
        entry = SubElement(root, "entry")
        _add(entry, title=message.message_id, id=_link(uri, message), **{time_name: _rfc3339(_time(message))})
        SubElement(entry, "link", rel="alternate", type="text/xml", href=_link(uri, message))
        if is_old:
            _add(entry, issued=_rfc3339(_time(message)))
        _add(entry, summary=_summary(message))
    return _written(root)


def atom_0_3(queue: Destination, uri: str, messages: Sequence[Message]) -> bytes:
    """Return a feed in Atom 0.3."""
    return atom(queue, uri, messages, version="0.3")


def atom_1_0(queue: Destination, uri: str, messages: Sequence[Message]) -> bytes:
    """Return a feed in Atom 1.0 (RFC 4287)."""
    return atom(queue, uri, messages, version="1.0")


FEEDS: Final[dict[str, Feed]] = {
    "rss_1.0": rss_1_0,
    "rss_2.0": rss_2_0,
    "atom_0.3": atom_0_3,
    "atom_1.0": atom_1_0,
}


def _add(parent: Element, **texts: str) -> None:
    for name, text in texts.items():
        SubElement(parent, name).text = _clean(text)


def _clean(text: str) -> str:
    return UNWRITABLE.sub("\ufffd", text)


def _written(root: Element) -> bytes:
    return bytes(tostring(root, encoding="utf-8", xml_declaration=True))


def _title(queue: Destination) -> str:
    return f"messages of {queue}"


def _link(uri: str, message: Message) -> str:
    return f"{uri}?msgId={quote(message.message_id, safe=':')}"


def _summary(message: Message) -> str:
    return f"{message.kind} message of priority {message.priority}"


def _time(message: Message) -> datetime:
    return datetime.fromtimestamp(min(max(message.timestamp, 0), LAST_MS) / 1000, UTC)


def _rfc3339(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
