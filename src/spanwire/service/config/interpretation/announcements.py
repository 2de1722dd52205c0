"""Interprets the ``discoveryUri`` of a ``transportConnector``: the agent for announcing the connector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from spanwire import registry
from spanwire.discovery.groups.agent_names import AGENTS
from spanwire.documents.element import Element
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.values.diagnostics import Findings

WORD: Final = "discoveryUri"
LISTS: Final = ("static", "simple", "masterslave")  # lists of brokers, which are not announced by an agent


def announcement(connector: Element, findings: Findings) -> str:
    """Return the URI of the agent; "" for a connector without announcement, with findings for faults."""
    attribute = connector.attributes.get(WORD)
    if attribute is None:
        return ""
    line, text = attribute.line, attribute.value.strip()
    scheme = text.partition(":")[0].lower()
    if scheme in LISTS:
        findings.warn(line, f"{WORD}={scheme}: has no effect: a list of brokers is for clients and not announced")
        return ""
    if scheme not in AGENTS:
        findings.unknown(line, f"agent of {WORD}", scheme, [*AGENTS, *LISTS], spelt=True)
        return ""
    parse_agent = cast(Callable[[str], object], registry.load(registry.PARSE_AGENT))
    try:
        parse_agent(text)
    except ConfigurationError as error:
        findings.error(line, str(error))
        return ""
    return text
