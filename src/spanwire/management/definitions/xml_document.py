"""A document of definitions as ``activemq.xml``, as far as XML can say them.

A broker has the objects of the XML from the start on. Durable subscriptions, paused queues, levels of loggers, message
statistics and stopped connectors are states outside of a configuration: their names are returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import quoteattr

from spanwire.management.definitions.document import Document
from spanwire.management.definitions.kinds import (
    BRIDGE,
    CONNECTOR,
    LEFT_OUT,
    LIMITS,
    LISTS,
    LOGGER,
    NETWORK_CONNECTOR,
    QUEUE,
    SETTINGS,
    STARTED,
    STRATEGY,
    SUBSCRIPTION,
    TOPIC,
    Kind,
    Values,
)

POLICY_WORDS: Final = {
    "memory_limit_bytes": "memoryLimit",
    "producer_flow_control": "producerFlowControl",
    "blocked_warning_ms": "blockedProducerWarningInterval",
    "audits_copies": "enableAudit",
}
LIMIT_WORDS: Final = (
    ("memory_limit_bytes", "memoryUsage"),
    ("store_limit_bytes", "storeUsage"),
    ("temporary_limit_bytes", "tempUsage"),
)
UNWRITABLE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # XML 1.0, section 2.2
NOT_SAID: Final = (SUBSCRIPTION, STRATEGY, BRIDGE, LOGGER)


def to_xml(document: Document) -> tuple[str, list[str]]:
    """Return the document as a ``<broker>``, and a line for each object or value unknown to XML."""
    limits = document.items.get((LIMITS.name, ()), {})
    uncommitted = limits.get("maximum_uncommitted")
    count = "" if uncommitted is None else f" maxUncommittedCount={_quoted(uncommitted)}"
    lines = [f"<broker brokerName={_quoted(document.broker)}{count}>"]
    lines += _destinations(document)
    lines += _policies(document)
    lines += _limits(limits)
    lines += _connectors(document, CONNECTOR, "transportConnector")
    lines += _connectors(document, NETWORK_CONNECTOR, "networkConnector")
    return "\n".join([*lines, "</broker>"]) + "\n", [*_unwritable(document), *_unsaid(document)]


def _destinations(document: Document) -> Iterator[str]:
    named = [(kind.name, key[0]) for kind in (QUEUE, TOPIC) for key, _ in document.of(kind)]
    if named:
        yield "  <destinations>"
        for kind, name in named:
            yield f"    <{kind} physicalName={_quoted(name)}/>"
        yield "  </destinations>"


def _policies(document: Document) -> Iterator[str]:
    entries = []
    for kind in (QUEUE, TOPIC):
        for key, values in document.of(kind):
            words = [
                f"{word}={_quoted(values[field])}"
                for field, word in POLICY_WORDS.items()
                if field in values and values[field] != kind.defaults[field]
            ]
            if words:
                entries.append(f"      <policyEntry {kind.name}={_quoted(key[0])} {' '.join(words)}/>")
    if entries:
        yield "  <destinationPolicy><policyMap>"
        yield "    <policyEntries>"
        yield from entries
        yield "    </policyEntries>"
        yield "  </policyMap></destinationPolicy>"


def _limits(limits: Values) -> Iterator[str]:
    said = [(word, limits[name]) for name, word in LIMIT_WORDS if limits.get(name)]
    if said:
        yield "  <systemUsage><systemUsage>"
        for word, value in said:
            yield f"    <{word}><{word} limit={_quoted(value)}/></{word}>"
        yield "  </systemUsage></systemUsage>"


def _connectors(document: Document, kind: Kind, word: str) -> Iterator[str]:
    found = document.of(kind)
    if not found:
        return
    yield f"  <{word}s>"
    for key, values in found:
        settings = values[SETTINGS]
        assert isinstance(settings, dict)
        attributes = {"name": key[0], "uri": values["uri"], **settings}
        head = " ".join(f"{name}={_quoted(value)}" for name, value in attributes.items())
        inner = [line for name in LISTS for line in _list(name, values.get(name))]
        yield f"    <{word} {head}{'>' if inner else '/>'}"
        if inner:
            yield from inner
            yield f"    </{word}>"
    yield f"  </{word}s>"


def _list(name: str, destinations: object) -> Iterator[str]:
    if isinstance(destinations, list) and destinations:
        yield f"      <{name}>"
        for destination in destinations:
            kind, _, physical = destination.partition("://")
            yield f"        <{kind} physicalName={_quoted(physical)}/>"
        yield f"      </{name}>"


def _unwritable(document: Document) -> Iterator[str]:
    """Yield a line for each object with another name in the XML."""
    for kind in (QUEUE, TOPIC, CONNECTOR, NETWORK_CONNECTOR):
        for key, _ in document.of(kind):
            if UNWRITABLE.search(key[0]):
                yield f"{kind.title(key)}: XML cannot carry the name"


def _unsaid(document: Document) -> Iterator[str]:
    """Yield a line for each object or value missing from the XML."""
    for kind in NOT_SAID:
        count = len(document.of(kind))
        if count:
            yield f"{count} {kind.plural if count > 1 else kind.name}"
    for kind in (QUEUE, TOPIC):
        for key, values in document.of(kind):
            states = [
                word for field, word in (("paused", "paused"), ("statistics_enabled", "measured")) if values.get(field)
            ]
            if states:
                yield f"{kind.title(key)}: {', '.join(states)}"
    for kind in (CONNECTOR, NETWORK_CONNECTOR):
        for key, values in document.of(kind):
            left_out = values[LEFT_OUT]
            assert isinstance(left_out, list)
            if left_out:
                yield f"{kind.title(key)}: {', '.join(left_out)}"
            settings = values[SETTINGS]
            assert isinstance(settings, dict)
            if values[STARTED] != (settings.get("autoStart", "true") == "true"):
                yield f"{kind.title(key)}: {'started' if values[STARTED] else 'stopped'}"


def _quoted(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quoteattr(UNWRITABLE.sub("\ufffd", text))
