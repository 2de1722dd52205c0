"""Whatever a discovery URI looks like, it is read or refused in one line, and leads to nothing but sockets."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spanwire.client.addressing.address import (
    IN_PROCESS_SCHEMES,
    PLAIN_SCHEMES,
    TLS_SCHEMES,
    discovered_address,
    parse_url,
)
from spanwire.discovery.addresses.address import SCHEMES
from spanwire.documents.element import Attribute, Element
from spanwire.model.errors import ConfigurationError
from spanwire.network.connector.link import NetworkConnectorSettings
from spanwire.service.config.interpretation.network import TRANSPORTS, NetworkInterpreter
from spanwire.service.config.security.tls import NO_STORES
from spanwire.service.config.tables.handling import Words
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import Findings

COMPOSITES = "static simple masterslave discovery failover multicast fanout peer zeroconf".split()
OPTIONS = st.just("") | st.sampled_from(
    ["?x=y", "?initialReconnectDelay=1", "?randomize=false", "?group=a", "?brokerConfig=xbean:http://h/", "?=&&"]
)
ADDRESSES = st.sampled_from(["tcp://h:1", "ssl://[::1]:2", "multicast://default"]) | st.builds(
    lambda scheme, rest, options: f"{scheme}:{rest}{options}",
    st.sampled_from(["tcp", "ssl", "vm", "xbean", "file", "http", "stomp", "broker", "multicast", "auto+nio+ssl", ""]),
    st.sampled_from(["//h:1", "//[::1]:2", "//default", "(x)", "//u:p@h:3", "///etc/passwd", "//h", "", "//h:0"]),
    OPTIONS,
)


def composed(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda scheme, form, listed, options: scheme + ":" + form.replace("*", ",".join(listed)) + options,
        st.sampled_from(COMPOSITES),
        st.just("(*)") | st.sampled_from(["//(*)", "*", "//*", "((*))", "(*", "*)", "(*))"]),
        st.lists(parts, min_size=1, max_size=3),
        OPTIONS,
    )


GOOD = st.sampled_from(["tcp://h:1", "ssl://[::1]:2", "nio://h:3?wireFormat.maxInactivityDuration=5"])
PLAUSIBLE = st.builds(
    lambda form, listed, options: form.replace("*", ",".join(listed)) + options,
    st.sampled_from(
        ["static:(*)", "simple://(*)", "masterslave:(*)", "discovery:(static:(*))", "static:(failover:(*))"]
    ),
    st.lists(GOOD, min_size=1, max_size=3),
    st.sampled_from(["", "?initialReconnectDelay=1", "?maxReconnectAttempts=0&backOffMultiplier=1.5"]),
)
URIS = PLAUSIBLE | st.recursive(ADDRESSES | PLAUSIBLE, composed, max_leaves=25)
DEEP = "static:(" * 20 + "vm://x?brokerConfig=xbean:http://h/" + ")" * 20


def inside(element: Element, name: str, known: Words) -> list[Element]:
    return [child for child in element.children if child.name == name]


def read(uri: str) -> tuple[NetworkConnectorSettings, ...]:
    """The connectors of a broker that has one of this URI; none where something is wrong."""
    connector = Element("networkConnector", 1, attributes={"uri": Attribute(uri, 1)})
    broker = Element("broker", 1, children=[Element("networkConnectors", 1, children=[connector])])
    findings = Findings("activemq.xml")
    found = NetworkInterpreter(findings, inside, Decryption({}), lambda contexts: NO_STORES).connectors(
        broker, NO_STORES
    )
    obstacles = ""
    try:
        findings.raise_if_any()
    except ConfigurationError as error:
        obstacles = str(error)
    assert all(line.startswith("activemq.xml:1: ") for line in obstacles.splitlines())
    return () if obstacles else found


@given(URIS)
@example(DEEP)
@example(DEEP.replace("static:(", "discovery:(multicast:("))
@example("static:(tcp://a:1,failover:(tcp://b:2,ssl://c:3))")
@example("discovery:(masterslave:(tcp://a:1,nio://b:2))")
@example("discovery:(multicast://default)?group=a")
@example("masterslave:(" + "failover:(" * 20 + "tcp://h:1" + ")" * 21)
def test_s20_a_network_connector_leads_to_sockets_of_brokers_alone(uri: str) -> None:
    for connector in read(uri):
        for remote in connector.remotes:
            for one in (remote, *remote.others):
                assert one.uri.partition(":")[0] in TRANSPORTS and 0 < one.port < 65536 and one.host
                assert (one.tls is not None) == ("ssl" in one.uri.partition(":")[0])
        assert bool(connector.remotes) != (connector.discovery is not None)


@given(URIS)
@example(DEEP)
@example(DEEP.replace("static:(", "discovery:("))
def test_a_client_connects_to_what_its_caller_has_named(uri: str) -> None:
    refusal = ""
    try:
        parsed = parse_url(uri)
    except ConfigurationError as error:
        refusal = str(error)
    assert "\n" not in refusal
    if refusal:
        return
    for address in parsed.addresses:
        assert address.scheme in (*PLAIN_SCHEMES, *TLS_SCHEMES, *IN_PROCESS_SCHEMES)
    assert bool(parsed.addresses) != (parsed.group is not None)


@pytest.mark.large
@given(URIS | st.text(max_size=50))
def test_s20_what_is_announced_leads_to_a_socket_or_nowhere(uri: str) -> None:
    address = discovered_address(uri, parse_url("discovery:(multicast://default)"))
    assert address is None or (address.scheme in SCHEMES and address.host and 0 < address.port < 65536)
