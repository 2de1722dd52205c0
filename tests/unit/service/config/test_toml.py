"""TOML says the same as ``activemq.xml``, in snake_case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spanwire.broker.plugins.redelivery_plugin import RedeliveryPolicy, RedeliverySettings
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration
from spanwire.service.config.toml import KNOWN, camel_case

PATH = Path("/etc/spanwire/spanwire.toml")

XML = """
<broker brokerName="orders" dataDirectory="/var/orders" advisorySupport="false">
  <transportConnectors>
    <transportConnector name="openwire" uri="tcp://127.0.0.1:61616?maximumConnections=5"/>
    <transportConnector name="stomp" uri="stomp://127.0.0.1:61613"/>
  </transportConnectors>
  <persistenceAdapter><kahaDB directory="/var/orders/k" journalMaxFileLength="8 mb"/></persistenceAdapter>
  <destinations><queue physicalName="ORDERS"/><topic physicalName="PRICES"/></destinations>
  <destinationPolicy><policyMap><policyEntries>
    <policyEntry queue=">" memoryLimit="64mb" queuePrefetch="10"/>
    <policyEntry topic="PRICES.>" topicPrefetch="7"/>
  </policyEntries></policyMap></destinationPolicy>
  <systemUsage><systemUsage><memoryUsage><memoryUsage limit="256 mb"/></memoryUsage></systemUsage></systemUsage>
</broker>
"""

TOML = """
broker_name = "orders"
data_directory = "/var/orders"
advisory_support = false

[[transport_connectors]]
name = "openwire"
uri = "tcp://127.0.0.1:61616?maximumConnections=5"

[[transport_connectors]]
name = "stomp"
uri = "stomp://127.0.0.1:61613"

[persistence_adapter.kaha_db]
directory = "/var/orders/k"
journal_max_file_length = "8 mb"

[[destinations]]
queue = "ORDERS"
[[destinations]]
topic = "PRICES"

[[destination_policy.policy_entries]]
queue = ">"
memory_limit = "64mb"
queue_prefetch = 10

[[destination_policy.policy_entries]]
topic = "PRICES.>"
topic_prefetch = 7

[system_usage.memory_usage]
limit = "256 mb"
"""


def read(text: str, path: Path = PATH) -> BrokerConfiguration:
    return read_configuration(text.encode("utf-8"), path, {}, {})


def obstacles(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        read(text)
    return [line.removeprefix(f"{PATH}:") for line in str(raised.value).splitlines()]


def test_the_same_broker_in_both_languages_is_the_same_configuration() -> None:
    assert replace(read(TOML), source="") == replace(read(XML, PATH.with_suffix(".xml")), source="")


def test_elements_that_may_be_repeated_are_lists() -> None:
    virtual = "destination_interceptors.virtual_destination_interceptor.virtual_destinations"
    found = read(
        f'[[{virtual}.composite_queue]]\nname = "A"\nforward_to = [{{queue = "B"}}, {{topic = "C"}}]\n'
        f'[[{virtual}.composite_queue]]\nname = "D"\n'
        f'[[{virtual}.composite_queue.forward_to]]\nfiltered_destination = {{queue = "E", selector = "n > 1"}}\n'
        f'[[{virtual}.virtual_topic]]\nname = "V.>"\n[[{virtual}.virtual_topic]]\nname = "W.>"\n'
    ).virtual
    assert [(str(entry.destination), len(entry.forward_to)) for entry in found.composites] == [
        ("queue://A", 2),
        ("queue://D", 1),
    ]
    assert found.composites[1].forward_to[0].selector == "n > 1"
    assert [str(entry.destination) for entry in found.topics] == ["topic://V.>", "topic://W.>"]


def test_there_may_be_several_redelivery_policies() -> None:
    table = "plugins.redelivery_plugin.redelivery_policy_map"
    found = read(
        f"scheduler_support = true\n[{table}.default_entry.redelivery_policy]\nmaximum_redeliveries = 2\n"
        f'[[{table}.redelivery_policy_entries]]\nqueue = "A"\n[[{table}.redelivery_policy_entries]]\ntopic = "B"\n'
    ).plugins
    (settings,) = found.dead_letters
    assert isinstance(settings, RedeliverySettings)
    assert [str(entry.destination) for entry in settings.entries] == ["queue://A", "topic://B"]
    assert settings.default == RedeliveryPolicy(2)


def test_everything_may_stand_in_a_broker_table() -> None:
    text = '[broker]\nbroker_name = "x"\n[[broker.destinations]]\nqueue = "A"\n'
    assert read(text).broker_name == "x"
    assert [destination.name for destination in read(text).destinations] == ["A"]


def test_faults_are_named_with_line_word_and_the_closest_known_word() -> None:
    lines = obstacles(
        'broker_nam = "x"\n\n[[transport_connectors]]\nname = "a"\nuri = "tcp://127.0.0.1:1"\n\n'
        '[[transport_connectors]]\nuri = "tcp://127.0.0.1:2?maxConnections=1"\nbackup = 1\n\n'
        "[proxy_connectors]\nx = 1\n"
    )
    assert lines == [
        "1: unknown attribute of <broker> 'broker_nam'; did you mean broker_name?",
        "8: unknown option of tcp:// 'maxConnections'; did you mean maximumConnections?",
        "9: unknown attribute of <transportConnector> 'backup'",
        "11: <proxyConnectors> is not supported (it asks for proxies); remove it or start with --skip-unsupported",
    ]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("broker_name = ", "1: the TOML is broken"),
        ("a = 1\na = 2", "2: the TOML is broken"),
        ("broker_name = [1, 2]", "1: broker_name must be a list of tables"),
        ("broker_name = 2001-01-01", "1: broker_name must be text"),
        ("x = 1\n[broker]\n", "'x' stands outside the [broker] table"),
        ("a = " + "[" * 2000, "nested too deep"),
        ("a = " + "[" * 200_000 + "]" * 200_000, "nested too deep"),
    ],
)
def test_what_is_no_configuration_is_told_in_one_line(text: str, part: str) -> None:
    lines = obstacles(text)
    assert len(lines) == 1
    assert part in lines[0]


def test_bytes_that_are_no_utf_8_are_told_in_one_line() -> None:
    with pytest.raises(ConfigurationError, match="UTF-8"):
        read_configuration(b"a = '\xff'", PATH, {}, {})


def test_every_word_has_one_spelling_in_toml_that_reads_well() -> None:
    assert camel_case("network_ttl") == "networkTTL"
    assert camel_case("populate_jmsx_user_id") == "populateJMSXUserID"
    assert camel_case("kaha_db") == "kahaDB"
    assert camel_case("send_duplicate_from_store_to_dlq") == "sendDuplicateFromStoreToDLQ"
    assert camel_case("no_such_word") == "noSuchWord"
    assert all(name == name.lower() and camel_case(name) == word for name, word in KNOWN.items())


def test_a_closest_word_is_told_as_toml_spells_it() -> None:
    assert obstacles("[persistence_adapter.kaha_dbx]") == [
        "1: unknown element in <persistenceAdapter> 'kaha_dbx'; did you mean kaha_db?"
    ]
