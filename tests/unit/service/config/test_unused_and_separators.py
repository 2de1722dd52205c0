"""What a configuration says about unused destinations, durable subscriptions that stay away, link stealing, lists
of brokers for clients, path separators.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration


def read(inside: str = "", attributes: str = "") -> BrokerConfiguration:
    text = f'<broker xmlns="http://activemq.apache.org/schema/core" {attributes}>{inside}</broker>'
    return read_configuration(text.encode(), Path("a.xml"), {}, {})


def policy(attributes: str) -> str:
    return (
        "<destinationPolicy><policyMap><policyEntries>"
        f'<policyEntry queue=">" {attributes}/></policyEntries></policyMap></destinationPolicy>'
    )


def test_by_default_nothing_is_removed() -> None:
    assert read().upkeep == UpkeepSettings(0, 0, -1, 300_000, False)
    (entry,) = read(policy("")).policies
    assert (entry.gc_inactive, entry.inactive_timeout_ms, entry.gc_with_network_consumers) == (False, 60_000, False)


def test_the_attributes_of_the_broker_are_read() -> None:
    found = read(
        attributes='schedulePeriodForDestinationPurge="1000" maxPurgedDestinationsPerSweep="5" '
        'offlineDurableSubscriberTimeout="86400000" offlineDurableSubscriberTaskSchedule="60000" '
        'enableMessageExpirationOnActiveDurableSubs="true" keepDurableSubsActive="false"'
    )
    assert found.upkeep == UpkeepSettings(1_000, 5, 86_400_000, 60_000, True)
    assert found.warnings == ()


@pytest.mark.parametrize("name", ["inactiveTimeoutBeforeGC", "inactiveTimoutBeforeGC"])
def test_a_policy_says_when_its_destinations_go(name: str) -> None:
    (entry,) = read(policy(f'gcInactiveDestinations="true" {name}="30000" gcWithNetworkConsumers="true"')).policies
    assert (entry.gc_inactive, entry.inactive_timeout_ms, entry.gc_with_network_consumers) == (True, 30_000, True)


@pytest.mark.parametrize(
    "attributes",
    [
        'schedulePeriodForDestinationPurge="-1"',
        'offlineDurableSubscriberTimeout="-2"',
        'maxPurgedDestinationsPerSweep="x"',
    ],
)
def test_numbers_that_mean_nothing_are_refused(attributes: str) -> None:
    with pytest.raises(ConfigurationError, match="must be a whole number"):
        read(attributes=attributes)


def test_a_connector_may_let_client_ids_move() -> None:
    found = read(
        "<transportConnectors>"
        '<transportConnector name="a" uri="tcp://127.0.0.1:0" allowLinkStealing="true"/>'
        '<transportConnector name="b" uri="tcp://127.0.0.1:0"/>'
        '<transportConnector name="c" uri="stomp://127.0.0.1:0?allowLinkStealing=true"/>'
        "</transportConnectors>"
    )
    assert [connector.steals_links for connector in found.connectors] == [True, False, True]


def test_a_connector_says_of_which_brokers_its_clients_hear() -> None:
    connector = '<transportConnector uri="tcp://127.0.0.1:0" updateClusterClients="true" updateClusterFilter="{}"/>'
    found = read(f"<transportConnectors>{connector.format('east.*, west[12],')}</transportConnectors>")
    assert [one.cluster_filter for one in found.connectors] == [("east.*", "west[12]")]
    with pytest.raises(ConfigurationError, match=r"updateClusterFilter: '\[a' is no regular expression"):
        read(f"<transportConnectors>{connector.format('b,[a')}</transportConnectors>")


def test_the_separator_is_a_slash_or_another_character() -> None:
    assert read().plugins.path_separator == ""
    assert read("<plugins><destinationPathSeparatorPlugin/></plugins>").plugins.path_separator == "/"
    other = read('<plugins><destinationPathSeparatorPlugin pathSeparator="|"/></plugins>')
    assert other.plugins.path_separator == "|"


@pytest.mark.parametrize("separator", ["", "::", ".", ",", "*", "&gt;", "?", ":", " "])
def test_a_separator_that_means_something_else_is_refused(separator: str) -> None:
    with pytest.raises(ConfigurationError, match="it must be one character"):
        read(f'<plugins><destinationPathSeparatorPlugin pathSeparator="{separator}"/></plugins>')
