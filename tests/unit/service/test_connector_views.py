"""Every setting of a network connector, as an attribute, in its uri and in TOML, is what an operator sees."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.administration.connector_views import connector_view
from spanwire.service.config.interpretation.network import CONNECTOR
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.reading import read_configuration
from spanwire.service.config.tables.handling import YES
from spanwire.service.config.values.diagnostics import snake_case

URI = "static:(tcp://b:61616)"
LISTS = ("excludedDestinations", "dynamicallyIncludedDestinations", "staticallyIncludedDestinations")
HIDDEN = "********"
PROPERTIES: list[tuple[str, object, str, object]] = [  # name, default, a value, as it is seen
    ("name", "NC", "toB", "toB"),
    ("networkTTL", 1, "3", 3),
    ("networkTTL", 1, "-1", -1),
    ("messageTTL", 1, "4", 4),
    ("consumerTTL", 1, "5", 5),
    ("conduitSubscriptions", True, "false", False),
    ("conduitNetworkQueueSubscriptions", False, "true", True),
    ("decreaseNetworkConsumerPriority", True, "false", False),
    ("consumerPriorityBase", -5, "-20", -20),
    ("prefetchSize", 1000, "7", 7),
    ("alwaysSyncSend", True, "false", False),
    ("bridgeTempDestinations", True, "false", False),
    ("userName", None, "u", "u"),
    ("password", None, "s3cret", HIDDEN),
    ("remoteUserName", None, "r", "r"),
    ("remotePassword", None, "s3cret", HIDDEN),
    ("excludedDestinations", [], "queue://A.>,topic://B", ["queue://A.>", "topic://B"]),
    ("dynamicallyIncludedDestinations", [], "topic://T?forceDurable=true", ["topic://T?forceDurable=true"]),
    ("staticallyIncludedDestinations", [], "queue://S.*", ["queue://S.*"]),
    ("staticBridge", False, "true", True),
    ("destinationFilter", None, "NO_DESTINATION", "NO_DESTINATION"),
    ("dynamicOnly", False, "true", True),
    ("syncDurableSubs", False, "true", True),
    ("useVirtualDestSubs", False, "true", True),
    ("duplex", False, "true", True),
    ("suppressDuplicateQueueSubscriptions", False, "true", True),
    ("suppressDuplicateTopicSubscriptions", True, "false", False),
    ("checkDuplicateMessagesOnDuplex", False, "true", True),
    ("advisoryForFailedForward", False, "true", True),
    ("useCompression", False, "true", True),
    ("clientIdToken", "_", "-", "-"),
    ("autoStart", True, "false", False),
]


def view(content: str, name: str = "a.xml") -> dict[str, object]:
    configuration = read_configuration(content.encode(), Path(name), {}, {})
    return connector_view(configuration.network_connectors[0])


def as_attribute(name: str, value: str) -> dict[str, object]:
    if name not in LISTS:
        return view(xml(URI, f'{name}="{value}"'))
    inside = ""
    for part in value.split(","):
        kind, _, named = part.partition("://")
        inside += f'<{kind} physicalName="{html.escape(named)}"/>'
    return view(xml(URI, "", f"<{name}>{inside}</{name}>"))


def in_the_uri(name: str, value: str) -> dict[str, object]:
    return view(xml(f"{URI}?maxReconnectDelay=5000&{name}={quote(value, safe='')}"))


def in_toml(name: str, value: str) -> dict[str, object]:
    lines = [f'[[network_connectors]]\nuri = "{URI}"']
    if name in LISTS:
        for part in value.split(","):
            kind, _, named = part.partition("://")
            lines.append(f'[[network_connectors.{snake_case(name)}]]\n{kind} = "{named}"')
    else:
        lines.append(f'{snake_case(name)} = "{value}"')
    return view("\n".join(lines), "a.toml")


def xml(uri: str, more: str = "", inside: str = "") -> str:
    connector = f'<networkConnector uri="{html.escape(uri)}" {more}>{inside}</networkConnector>'
    return f'<broker brokerName="a"><networkConnectors>{connector}</networkConnectors></broker>'


@pytest.mark.parametrize("spelling", [as_attribute, in_the_uri, in_toml])
@pytest.mark.parametrize(("name", "default", "value", "seen"), PROPERTIES)
def test_a_property_is_seen_however_it_is_spelt(
    name: str, default: object, value: str, seen: object, spelling: Callable[[str, str], dict[str, object]]
) -> None:
    plain = view(xml(URI))
    assert plain[name] == default
    found = spelling(name, value)
    assert found[name] == seen
    assert "s3cret" not in str(found)
    others = {"networkTTL", "messageTTL", "consumerTTL", "advisoryTopics", "maxReconnectDelay", name}
    assert {key: one for key, one in found.items() if key not in others} == {
        key: one for key, one in plain.items() if key not in others
    }
    assert found["uri"] == URI


def test_no_honoured_property_is_left_out() -> None:
    honoured = {name for name, rule in CONNECTOR.settings.items() if rule == YES} - {"id", "uri"}
    honoured |= {name for name, rule in CONNECTOR.children.items() if rule == YES}
    assert honoured - {name for name, *_ in PROPERTIES} == {"sendLoginToDiscovered", "sslContext"}  # see below
    assert honoured <= set(view(xml(URI)))


def test_the_hops_of_messages_and_subscriptions_are_those_of_both_unless_they_are_set() -> None:
    found = view(xml(URI, 'networkTTL="3" consumerTTL="1"'))
    assert (found["messageTTL"], found["consumerTTL"]) == (3, 1)


def test_a_login_that_is_sent_to_whoever_is_found_is_seen() -> None:
    assert view(xml("multicast://default", 'sendLoginToDiscovered="true"'))["sendLoginToDiscovered"] is True
    assert view(xml("multicast://default?sendLoginToDiscovered=true"))["sendLoginToDiscovered"] is True


def test_a_connector_has_stores_of_its_own() -> None:
    own = '<sslContext><sslContext trustStore="/own.pem" keyStore="/key.pem"/></sslContext>'
    text = xml("static:(ssl://b:1)", "", own).replace(
        "<networkConnectors>", '<sslContext><sslContext trustStore="/all.pem"/></sslContext><networkConnectors>'
    )
    assert view(text)["sslContext"] == {"trustStore": "/own.pem", "keyStore": "/key.pem", "verifyHostName": True}
    assert view(text.replace(own, ""))["sslContext"] == {
        "trustStore": "/all.pem",
        "keyStore": None,
        "verifyHostName": True,
    }
    toml = (
        '[[network_connectors]]\nuri = "static:(ssl://b:1)"\n[network_connectors.ssl_context]\ntrust_store = "/own.pem"'
    )
    assert view(toml, "a.toml")["sslContext"] == {"trustStore": "/own.pem", "keyStore": None, "verifyHostName": True}


def test_addresses_of_which_one_is_taken_are_seen_together() -> None:
    found = view(xml("masterslave:(tcp://a:1,tcp://b:2)?duplex=true"))
    assert (found["uri"], found["duplex"]) == ("static:(failover:(tcp://a:1,tcp://b:2))", True)


@pytest.mark.parametrize(
    ("uri", "more", "told"),
    [
        (
            URI + "?duplex=true",
            'duplex="false"',
            "duplex is in the uri of <networkConnector> and beside it; keep one",
        ),
        (URI + "?networkTTL=x", "", "networkTTL of <networkConnector> is 'x', it must be a whole number from -1 to 64"),
        (URI + "?networkTLL=3", "", "unknown option of static: 'networkTLL'"),
        (URI + "?excludedDestinations=temp-queue://x", "", "temp-queue://x is temporary"),
    ],
)
def test_a_setting_in_a_uri_is_refused_as_anywhere(uri: str, more: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told.replace("?", r"\?")):
        view(xml(uri, more))


def test_a_connector_of_a_broker_uri_has_its_settings_in_its_own() -> None:
    found = load_configuration("broker:(tcp://localhost:6000,network:static:(tcp://b:61616)?networkTTL=3&duplex=true)")
    seen = connector_view(found.network_connectors[0])
    assert (seen["networkTTL"], seen["duplex"], seen["uri"]) == (3, True, URI)
    found = load_configuration(f"broker:(network:{URI}?name=b&prefetchSize=7,network:{URI}?name=c)")
    assert [connector.bridge.name for connector in found.network_connectors] == ["b", "c"]
