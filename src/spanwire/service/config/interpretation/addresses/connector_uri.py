"""Interprets settings of a network connector in the URI, after the options of the agent.

static:(tcp://b:61616)?maxReconnectDelay=5000&networkTTL=3&excludedDestinations=queue://A,topic://B
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from spanwire.documents.element import Attribute, Element
from spanwire.model.destination import QUEUE, parse_destination
from spanwire.model.errors import InvalidDestinationError
from spanwire.service.config.tables.handling import YES, Words
from spanwire.service.config.values.diagnostics import Findings

NOT_IN_A_URI: Final = ("id", "uri")
LISTS: Final = ("excludedDestinations", "dynamicallyIncludedDestinations", "staticallyIncludedDestinations")


def take_settings(element: Element, known: Words, findings: Findings) -> None:
    """Move known options from the URI to attributes and inner elements of ``element``.

    The URI keeps the others.
    """
    uri = element.attributes.get("uri")
    if uri is None:
        return
    start, question, query = _outer_query(uri.value)
    if not question:
        return
    other_options: list[str] = []
    for pair in query.split("&"):
        name, equals, value = pair.partition("=")
        if not equals or name in NOT_IN_A_URI or not (known.settings.get(name) == YES or name in LISTS):
            other_options.append(pair)
        elif name in element.attributes or element.child(name) is not None:
            findings.error(uri.line, f"{name} is in the uri of <{element.name}> and beside it; keep one")
        elif name in LISTS:
            element.children.append(_list(name, unquote(value), uri.line, findings))
        else:
            element.attributes[name] = Attribute(unquote(value), uri.line)
    uri.value = f"{start}?{'&'.join(other_options)}" if other_options else start


def _outer_query(text: str) -> tuple[str, str, str]:
    """Split a URI into address, question mark and options.

    Options inside of parentheses belong to inner URIs.
    """
    closing = text.rfind(")") + 1
    start, question, query = text[closing:].partition("?")
    return text[:closing] + start, question, query


def _list(name: str, text: str, line: int, findings: Findings) -> Element:
    holder = Element(name, line)
    for part in text.split(","):
        named, question, options = part.strip().partition("?")
        try:
            destination = parse_destination(named)
        except InvalidDestinationError as error:
            findings.error(line, f"{name} in the uri of a network connector: {error}")
            continue
        if destination.is_temporary:
            findings.error(line, f"{name} in the uri of a network connector: {named} is temporary")
            continue
        value = Attribute(destination.name + question + options, line)
        kind = "queue" if destination.kind == QUEUE else "topic"
        holder.children.append(Element(kind, line, attributes={"physicalName": value}))
    return holder
