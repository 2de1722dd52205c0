"""Each word of ActiveMQ's schema is honoured, warned about or refused by name, and none is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from spanwire.service.config.reading import read_configuration
from spanwire.service.config.values.diagnostics import RefusedConfigurationError

SCHEMA_FILE: Final = Path(__file__).parents[3] / "vectors" / "activemq-schema.txt"
VALUES: Final = {"boolean": "true", "ID": "x", "string": "x"}  # of a type; numbers have 5
NONE: Final = "-"
PASS_THROUGH: Final = "simpleJmsMessageConvertor"  # asks for what holds anyway, so nothing in it has an effect
BEAN: Final = '<bean xmlns="http://www.springframework.org/schema/beans" class="my.Part"/>'
# What an element that stands alone lacks, so that its other words are reached.
COMPLETED: Final = {
    "networkConnector": 'uri="static:(tcp://h:1)"',
    "transportConnector": 'uri="tcp://127.0.0.1:1"',
    "compositeQueue": 'name="Q"',
    "compositeTopic": 'name="T"',
    "policyEntry": 'topic="T"',
    "authorizationEntry": 'topic="T"',
    "redeliveryPolicy": 'topic="T"',
    "filteredDestination": 'topic="T"',
}
BRIDGE: Final = "<outboundQueueBridges><outboundQueueBridge outboundQueueName='Q'/></outboundQueueBridges>"
# What stands inside of an element that would have no effect without.
FILLED: Final = {
    "jmsQueueConnector": {
        "outboundQueueConnectionFactory": "<outboundQueueConnectionFactory brokerURL='tcp://h:1'/>",
        "outboundQueueBridges": BRIDGE,
    },
    "jmsTopicConnector": {
        "outboundTopicConnectionFactory": "<outboundTopicConnectionFactory brokerURL='tcp://h:1'/>",
        "outboundTopicBridges": BRIDGE.replace("Queue", "Topic"),
    },
}
# Attributes with texts of a form of their own, and those whose value may begin with the sign of a bean.
TEXTS: Final = {"discoveryUri": "multicast://default"}
NAMES: Final = ("inboundMessageConvertor", "outboundMessageConvertor")
# Lists in which the schema allows everything, with the elements that have a meaning there.
ITEMS: Final = {
    "authorizationEntries": ["authorizationEntry"],
    "dynamicallyIncludedDestinations": ["queue", "topic"],
    "excludedDestinations": ["queue", "topic"],
    "forwardTo": ["filteredDestination", "queue", "topic"],
    "policyEntries": ["policyEntry"],
    "redeliveryPolicyEntries": ["redeliveryPolicy"],
    "staticallyIncludedDestinations": ["queue", "topic"],
    "users": ["authenticationUser"],
}


@dataclass
class SchemaElement:
    attributes: dict[str, str] = field(default_factory=dict)
    properties: dict[str, list[str]] = field(default_factory=dict)


def read_schema() -> dict[str, SchemaElement]:
    elements: dict[str, SchemaElement] = {}
    current = SchemaElement()
    for line in SCHEMA_FILE.read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        first, *rest = line.split()
        if first.startswith("@"):
            current.attributes[first[1:]] = rest[0]
        elif first.startswith("<"):
            listed = [] if rest[0] == NONE else rest[0].split(",")
            current.properties[first[1:]] = [*listed, *ITEMS.get(first[1:], ())]
        else:
            current = elements[first] = SchemaElement()
    return elements


SCHEMA: Final = read_schema()


def told(text: str) -> list[str]:
    """Return what the reader tells about a document."""
    document = f"<beans>{text}</beans>".encode()
    try:
        return list(read_configuration(document, Path("a.xml"), {}, {}).warnings)
    except RefusedConfigurationError as error:
        return [*str(error).splitlines(), *error.warnings]


def document(path: tuple[str, ...], attributes: str = "", inside: str = "") -> str:
    """Return a document with the element at the end of ``path``, which has alternately elements and properties."""
    text = _element(path[-1], attributes, inside, inside)
    for place in range(len(path) - 2, -1, -1):
        text = _element(path[place], "", text, "".join(f"<{name}>" for name in path[place:]))
    return text


def _element(name: str, attributes: str, inside: str, present: str) -> str:
    """Return an element with what it needs, but for what is ``present``."""
    needed = COMPLETED.get(name, "")
    if needed.partition("=")[0] + "=" in attributes:
        needed = ""
    filled = [text for inner, text in FILLED.get(name, {}).items() if f"<{inner}>" not in present]
    return f"<{name} {needed} {attributes}>{inside}{''.join(filled)}</{name}>"


def reached() -> Iterator[tuple[str, ...]]:
    """Yield the path of each element that the reader looks into, from the broker on."""
    seen: set[tuple[str, ...]] = set()
    pending: list[tuple[str, ...]] = [("broker",)]
    while pending:
        path = pending.pop()
        yield path
        for name, elements in SCHEMA[path[-1]].properties.items():
            for element in elements:
                key = (name, element)
                if element != PASS_THROUGH and key not in seen and _is_read(path, name, element):
                    seen.add(key)
                    pending.append((*path, name, element))


def _is_read(path: tuple[str, ...], name: str, element: str) -> bool:
    lines = told(document((*path, name, element)))
    stops = re.compile(rf"<(?:{name}|{element})>(?: in <[\w-]+>)? (?:is not (?:yet )?supported|has no effect)")
    return not any(stops.search(line) for line in lines)


PATHS: Final = sorted(set(reached()))


def test_the_walk_reaches_what_the_reader_has_tables_for() -> None:
    assert {path[-1] for path in PATHS} > {
        "transportConnector", "networkConnector", "policyEntry", "kahaDB", "systemUsage", "authorizationEntry",
        "virtualTopic", "redeliveryPolicy", "jmsQueueConnector", "inboundTopicBridge", "publishedAddressPolicy",
    }  # fmt: skip
    assert len(PATHS) > 80


@pytest.mark.parametrize("path", PATHS, ids=lambda path: "-".join(path[-3:]))
def test_no_word_of_the_schema_is_unknown(path: tuple[str, ...]) -> None:
    element = SCHEMA[path[-1]]
    unknown: list[str] = []
    for name, kind in element.attributes.items():
        if COMPLETED.get(path[-1], "").startswith(f"{name}="):
            continue
        value = TEXTS.get(name) or VALUES.get(kind, "5")
        unknown += [line for line in told(document(path, f'{name}="{value}"')) if "unknown" in line]
    for name, choices in element.properties.items():
        for inside in (BEAN, *(f"<{choice}/>" for choice in choices)):
            lines = told(document(path, inside=f"<{name}>{inside}</{name}>"))
            unknown += [line for line in lines if "unknown" in line]
    assert unknown == []


@pytest.mark.parametrize("path", PATHS, ids=lambda path: "-".join(path[-3:]))
def test_an_attribute_with_a_bean_as_its_value_is_refused_or_warned_of(path: tuple[str, ...]) -> None:
    """No object is built, so none may be referred to without a word."""
    silent: list[str] = []
    for name in SCHEMA[path[-1]].properties:
        if name in SCHEMA[path[-1]].attributes and name not in NAMES:
            before = told(document(path))
            if told(document(path, f'{name}="#bean"')) == before:
                silent.append(name)
    assert silent == []


@pytest.mark.parametrize("name", sorted(SCHEMA))
def test_an_element_of_the_schema_beside_the_broker_is_refused_by_name(name: str) -> None:
    if name == "broker":
        return
    lines = told(f"<broker/><{name}/>")
    assert lines and not any("unknown" in line for line in lines)
    assert any(f"<{name}>" in line for line in lines)
