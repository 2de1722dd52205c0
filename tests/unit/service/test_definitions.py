"""A connector made from its definition has the settings of the first one, and no definition has a secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spanwire.management.definitions.document import from_rows
from spanwire.management.definitions.kinds import LISTS
from spanwire.management.definitions.xml_document import to_xml
from spanwire.model.errors import ConfigurationError
from spanwire.service.administration.connector_definitions import (
    connector_definition,
    network_definition,
    without_secrets,
)
from spanwire.service.administration.definitions import configured_rows
from spanwire.service.config.interpretation.runtime_connector import read_connector, read_listener
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration

FILE = """<broker brokerName="b" maxUncommittedCount="7">
<destinations><queue physicalName="Q"/><topic physicalName="T &amp; U"/></destinations>
<destinationPolicy><policyMap><policyEntries>
  <policyEntry queue="Q" memoryLimit="5 mb" producerFlowControl="false"/>
</policyEntries></policyMap></destinationPolicy>
<systemUsage><systemUsage><memoryUsage><memoryUsage limit="64 mb"/></memoryUsage>
  <storeUsage><storeUsage limit="1 gb"/></storeUsage></systemUsage></systemUsage>
<transportConnectors>
  <transportConnector name="o" uri="tcp://127.0.0.1:61616?maximumConnections=7&amp;wireFormat.maxFrameSize=99999"
    updateClusterClients="true" updateClusterFilter="a.*,b" allowLinkStealing="true"/>
  <transportConnector name="closed" uri="stomp+nio://127.0.0.1:0" autoStart="false"
    maximumConsumersAllowedPerConnection="3"/>
</transportConnectors>
<networkConnectors>
  <networkConnector name="one" uri="static:(failover:(tcp://b:1,tcp://c:2?keepAlive=true)?randomize=true,tcp://d:3)?maxReconnectDelay=9"
    duplex="true" networkTTL="3" prefetchSize="1" userName="u" conduitSubscriptions="false" autoStart="false">
    <excludedDestinations><queue physicalName="X.&gt;"/><topic physicalName="Y"/></excludedDestinations>
    <dynamicallyIncludedDestinations><topic physicalName="Z?forceDurable=true"/></dynamicallyIncludedDestinations>
    <staticallyIncludedDestinations><queue physicalName="S"/></staticallyIncludedDestinations>
  </networkConnector>
  <networkConnector name="two" uri="multicast://default?group=g" messageTTL="2" sendLoginToDiscovered="true"/>
  <networkConnector name="three" uri="masterslave:(tcp://b:1,tcp://c:2)" clientIdToken="-"/>
</networkConnectors>
</broker>"""


def read(text: str = FILE) -> BrokerConfiguration:
    return read_configuration(text.encode(), Path("/srv/activemq.xml"), {}, {})


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_network_connector_made_from_its_definition_is_the_same(number: int) -> None:
    settings = read().network_connectors[number]
    row = network_definition(settings, is_started=True, stores=None)
    assert row["left_out"] == []
    values = row["settings"]
    assert isinstance(values, dict)
    lists = {name: names for name in LISTS if (names := row[name])}
    again = read_connector({**values, **lists, "name": str(row["name"]), "uri": str(row["uri"])}, None)  # type: ignore[dict-item]
    assert again == settings
    assert network_definition(again, is_started=True, stores=None) == row


@pytest.mark.parametrize("number", [0, 1])
def test_a_transport_connector_made_from_its_definition_is_the_same(number: int) -> None:
    settings = read().connectors[number]
    row = connector_definition(settings, is_started=True)
    values = row["settings"]
    assert isinstance(values, dict)
    again = read_listener({**values, "name": str(row["name"]), "uri": str(row["uri"])}, None)
    assert again == settings


def test_the_xml_of_a_configuration_is_read_as_the_same_definitions() -> None:
    rows = list(configured_rows(read(), Path("/")))
    text, unsaid = to_xml(from_rows("b", rows))
    again = list(configured_rows(read(text), Path("/")))
    assert from_rows("b", again) == from_rows("b", rows)
    assert unsaid == []


def test_secrets_are_left_out_and_named() -> None:
    uri = "static:(tcp://u:geheim@b:1?x.password=geheim&keepAlive=true,tcp://c:2?authToken=geheim)?maxReconnectDelay=9"
    shown, left_out = without_secrets(uri)
    assert shown == "static:(tcp://b:1?keepAlive=true,tcp://c:2)?maxReconnectDelay=9"
    assert left_out == ["login in uri", "x.password in uri", "authToken in uri"]
    with_login = read(FILE.replace('userName="u"', 'userName="u" password="geheim" remotePassword="geheim"'))
    row = network_definition(with_login.network_connectors[0], is_started=True, stores=None)
    assert row["left_out"] == ["password", "remotePassword"] and "geheim" not in str(row)


@pytest.mark.parametrize(
    "uri",
    ["tcp://u:geh@eim@b:1", "static:(tcp://c:1,tcp://u:geh@eim@b:1)", "ssl://b:1?keyStorePassword=geh,eim&x=1"],
)
def test_no_rest_of_a_secret_stays(uri: str) -> None:
    shown, _ = without_secrets(uri)
    assert "geh" not in shown and "eim" not in shown


def test_an_address_without_secrets_stays_as_it_is() -> None:
    uri = "static:(failover:(tcp://b:1,tcp://c:2?keepAlive=true)?randomize=true)?maxReconnectDelay=9"
    assert without_secrets(uri) == (uri, [])


def test_an_unknown_list_and_a_name_without_its_kind_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="forbidden is no list of destinations"):
        read_connector({"uri": "static:(tcp://b:1)", "forbidden": ["queue://X"]}, None)
    with pytest.raises(ConfigurationError, match="write queue://NAME"):
        read_connector({"uri": "static:(tcp://b:1)", "excludedDestinations": ["X"]}, None)


def test_a_published_address_is_named_as_left_out() -> None:
    settings = read().connectors[0]
    published = replace(settings, published=object())  # type: ignore[arg-type]
    assert connector_definition(published, is_started=True)["left_out"] == ["publishedAddressPolicy"]
