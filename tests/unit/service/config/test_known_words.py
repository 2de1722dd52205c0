"""Words of ActiveMQ's schema that are not supported are refused by name, and left out where that is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration

PATH = Path("/etc/spanwire/conf/activemq.xml")
NAME = 'brokerName="b"'


def read(inside: str, skips: bool, beside: str = "") -> BrokerConfiguration:
    text = f"<beans>{beside}<broker {NAME}>{inside}</broker></beans>"
    return read_configuration(text.encode(), PATH, {}, {}, skip_unsupported=skips)


def link(attribute: str = "", uri: str = "static:(tcp://h:1)", inside: str = "") -> str:
    return (
        f'<networkConnectors><networkConnector uri="{uri}" {attribute}>{inside}</networkConnector></networkConnectors>'
    )


def connector(uri: str) -> str:
    return f'<transportConnectors><transportConnector uri="{uri}"/></transportConnectors>'


@pytest.mark.parametrize(
    ("inside", "word"),
    [
        (link('brokerName="x"'), "brokerName of <networkConnector>"),
        (link('brokerURL="vm://b"'), "brokerURL of <networkConnector>"),
        (link('discoveryURI="static:(tcp://h:1)"'), "discoveryURI of <networkConnector>"),
        (link('localUri="vm://b"'), "localUri of <networkConnector>"),
        (link('messageLoadBalancing="STRICT"'), "messageLoadBalancing of <networkConnector>"),
        (link('redistributionDelay="0"'), "redistributionDelay of <networkConnector>"),
        (link(inside="<bridgeFactory><bean/></bridgeFactory>"), "<bridgeFactory>"),
        (link(inside="<connectionFilter><bean/></connectionFilter>"), "<connectionFilter>"),
        (connector("udp://127.0.0.1:1"), "the transport udp:// of udp://127.0.0.1:1"),
        (connector("multicast://239.1.2.3:1"), "the transport multicast:// of multicast://239.1.2.3:1"),
        (link(uri="static:(udp://h:1)"), "the transport udp:// of a network connector"),
        (link(uri="static:(mqtt://h:1)"), "the transport mqtt:// of a network connector"),
        (link(uri="static:(amqp://h:1,tcp://h:2)"), "the transport amqp:// of a network connector"),
        ("<networkConnectors><ldapNetworkConnector/></networkConnectors>", "<ldapNetworkConnector>"),
        ("<networkConnectors><multicastNetworkConnector/></networkConnectors>", "<multicastNetworkConnector>"),
        ("<plugins><partitionBrokerPlugin/></plugins>", "<partitionBrokerPlugin>"),
        ('<plugins><camelRoutesBrokerPlugin routesFile="routes.xml"/></plugins>', "<camelRoutesBrokerPlugin>"),
        ('<persistenceAdapter><kahaDB stopOnError="true"/></persistenceAdapter>', "stopOnError of <kahaDB>"),
        (connector("ws://127.0.0.1:1?jetty.config=x.xml"), "the option jetty.config"),
    ],
)
def test_a_word_of_the_schema_is_named_and_can_be_left_out(inside: str, word: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(inside, skips=False)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{PATH}:1: {word} is not ") and line.endswith("--skip-unsupported")
    assert [one.split(": ", 2)[2].partition(" (")[0] for one in read(inside, skips=True).skipped] == [word]


def test_an_element_for_java_programs_beside_the_broker_can_be_left_out() -> None:
    beside = '<connectionFactory xmlns="http://activemq.apache.org/schema/core" id="f" brokerURL="vm://b"/>'
    with pytest.raises(ConfigurationError, match="<connectionFactory> beside the broker is not supported"):
        read("", skips=False, beside=beside)
    assert len(read("", skips=True, beside=beside).skipped) == 1


@pytest.mark.parametrize(
    ("inside", "told"),
    [
        (
            '<destinationInterceptors><bean xmlns="http://www.springframework.org/schema/beans" class="my.Guard"/>'
            "</destinationInterceptors>",
            "<bean> is not supported (it asks for custom interceptors; Spanwire runs no Java classes)",
        ),
        (
            "<plugins><authorizationPlugin><map><simpleAuthorizationMap/></map></authorizationPlugin></plugins>",
            "<simpleAuthorizationMap> is not supported",
        ),
    ],
)
def test_what_may_guard_access_is_never_left_out(inside: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(inside, skips=True)
    assert told in str(caught.value) and "it is never skipped" in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other", "is_told"),
    [
        ("tcp://127.0.0.1:61616", "stomp://127.0.0.1:61616", True),
        ("tcp://127.0.0.1:61616", "nio://0.0.0.0:61616", True),
        ("tcp://127.0.0.1:61616", "stomp://127.0.0.2:61616", False),
        ("tcp://127.0.0.1:61616", "tcp://[::1]:61616", False),
        ("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", False),
        ("tcp://127.0.0.1:61616", 'tcp://127.0.0.1:61616" autoStart="false', False),
    ],
)
def test_two_connectors_need_two_ports(one: str, other: str, is_told: bool) -> None:
    inside = connector(one) + "\n" + connector(other)
    if not is_told:
        assert len(read(inside, skips=False).connectors) == 2
        return
    with pytest.raises(ConfigurationError) as caught:
        read(inside, skips=False)
    assert str(caught.value) == f"{PATH}:2: port 61616 is that of {one} in line 1 already; give each its own"


def test_the_filter_that_holds_anyway_asks_for_nothing() -> None:
    entry = "<policyEntry queue='>'><networkBridgeFilterFactory><defaultNetworkBridgeFilterFactory/>"
    entries = f"<policyEntries>{entry}</networkBridgeFilterFactory></policyEntry></policyEntries>"
    found = read(f"<destinationPolicy><policyMap>{entries}</policyMap></destinationPolicy>", skips=False)
    assert found.warnings == ()


def test_a_connector_for_clients_in_the_process_is_served_by_what_exists() -> None:
    found = read(connector("vm://b?broker.persistent=false") + "", skips=False)
    assert (found.connectors, found.warnings) == ((), ())
    (warning,) = read(connector("vm://other"), skips=False).warnings
    assert warning.endswith(
        "<transportConnector> at vm://other has no effect: clients in this process find it as vm://b"
    )
