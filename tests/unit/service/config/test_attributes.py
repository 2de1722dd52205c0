"""Rows of the attribute tables: each sets its field, and the reference shows its value and default."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from spanwire.broker.policy.policy_entry import BUCKET_GROUPS, GroupMap
from spanwire.documents.element import Attribute as Written
from spanwire.documents.element import Element
from spanwire.service.config.elements import ELEMENTS
from spanwire.service.config.tables import (
    broker_attributes,
    persistence_attributes,
    policy_attributes,
    security_attributes,
    usage_attributes,
    virtual_attributes,
)
from spanwire.service.config.tables.attributes import FLAG, Attribute, AttributeTable
from spanwire.service.config.tables.handling import HONOURED, Words
from spanwire.service.config.values.diagnostics import Findings, RefusedConfigurationError
from spanwire.service.config.values.values import Settings

TABLES = {id(table): table for words in ELEMENTS.values() for table in words.tables}
ROWS = [(table, row) for table in TABLES.values() for row in table.rows]
# Honoured attributes without a row: the names of elements and destinations, passwords, and values that an interpreter
# makes from several attributes. The list only gets shorter.
BRIDGE_CONNECTOR = (
    "id inboundMessageConvertor localClientId localConnectionFactoryName localPassword localUsername name "
    "outboundClientId outboundMessageConvertor outboundPassword {}ConnectionFactoryName outboundUsername "
    "preferJndiDestinationLookup replyToDestinationCacheSize"
)
BRIDGE_FACTORY = "brokerURL id keyStore keyStorePassword password trustStore trustStorePassword userName"
WITHOUT_A_ROW = {
    "authenticationUser": "password",
    "authorizationEntry": "queue topic",
    "cachedLDAPAuthorizationMap": "connectionPassword",
    "broker": "brokerName maxSchedulerRepeatAllowed name networkConnectorURIs schedulerSupport "
    "transportConnectorURIs vmConnectorURI",
    "compositeQueue, compositeTopic": "name",
    "destinationPathSeparatorPlugin": "pathSeparator",
    "discardingDLQBrokerPlugin": "dropOnly",
    "filteredDestination": "queue topic",
    "inboundQueueBridge": "doHandleReplyTo id inboundQueueName localQueueName selector",
    "inboundTopicBridge": "consumerName doHandleReplyTo id inboundTopicName localTopicName selector",
    "jmsQueueConnector": BRIDGE_CONNECTOR.format("outboundQueue"),
    "jmsTopicConnector": BRIDGE_CONNECTOR.format("outboundTopic"),
    "localQueueConnectionFactory, localTopicConnectionFactory": BRIDGE_FACTORY,
    "networkConnector": "autoStart password remotePassword sendLoginToDiscovered uri",
    "outboundQueueBridge": "doHandleReplyTo id localQueueName outboundQueueName selector",
    "outboundQueueConnectionFactory, outboundTopicConnectionFactory": BRIDGE_FACTORY,
    "outboundTopicBridge": "consumerName doHandleReplyTo id localTopicName outboundTopicName selector",
    "jndiLocalTemplate, jndiOutboundTemplate": "file",
    "java": "class jars",
    "prop": "key value",
    "policyEntry": "queue tempQueue tempTopic topic",
    "prefetchRatePendingMessageLimitStrategy": "multiplier",
    "queue, topic": "name physicalName",
    "entry": "key value",
    "publishedAddressPolicy": "hostMapping portMapping",
    "reconnectionPolicy": "backOffMultiplier id initialReconnectDelay maxReconnectAttempts maximumReconnectDelay "
    "useExponentialBackOff",
    "redeliveryPolicy": "backOffMultiplier queue tempQueue tempTopic topic",
    "sharedDeadLetterStrategy": "deadLetterQueue",
    "sslContext": "keyStore keyStoreKey keyStoreKeyPassword keyStorePassword trustStore trustStorePassword",
    "transportConnector": "discoveryUri name updateClusterFilter uri",
    "web": "mounts realm",
}
REFERENCE = (Path(__file__).resolve().parents[4] / "docs/reference/activemq-xml.md").read_text("utf-8")


def values(table: AttributeTable, **written: str) -> tuple[dict[str, object], Findings]:
    findings = Findings("activemq.xml")
    element = Element("e", 1, attributes={name: Written(value, 7) for name, value in written.items()})
    return table.values(Settings(element, findings)), findings


@pytest.mark.parametrize(("table", "row"), ROWS, ids=[row.name for _, row in ROWS])
def test_a_row_sets_fields_of_its_model_alone(table: AttributeTable, row: Attribute) -> None:
    assert set(row.field.split()) <= {field.name for field in fields(table.model)}


@pytest.mark.parametrize(("table", "row"), ROWS, ids=[row.name for _, row in ROWS])
def test_the_reference_shows_the_value_and_the_default_of_a_row(table: AttributeTable, row: Attribute) -> None:
    lines = [line for line in REFERENCE.splitlines() if line.startswith(f"| `{row.name}` | ")]
    assert any(line.endswith(f" | {row.kind.shown} | {table.default_of(row)} |") for line in lines)


FLAGS = [(table, row) for table, row in ROWS if row.kind is FLAG]


@pytest.mark.parametrize(("table", "row"), FLAGS, ids=[row.name for _, row in FLAGS])
def test_a_flag_replaces_its_default(table: AttributeTable, row: Attribute) -> None:
    for text, expected in (("true", True), (" False ", False)):
        assert values(table, **{row.name: text})[0] == {row.field: expected}
    found, findings = values(table, **{row.name: "perhaps"})
    assert list(found) == [row.field]
    with pytest.raises(RefusedConfigurationError, match=f"^activemq.xml:7: {row.name} of <e> is 'perhaps'"):
        findings.raise_if_any()


def test_a_missing_attribute_sets_nothing() -> None:
    assert values(policy_attributes.ENTRY)[0] == {}


def test_one_row_may_set_two_fields_and_a_later_row_one_of_them() -> None:
    table = broker_attributes.NETWORK_CONNECTOR
    assert values(table, networkTTL="4")[0] == {"message_ttl": 4, "consumer_ttl": 4}
    assert values(table, networkTTL="4", consumerTTL="2")[0] == {"message_ttl": 4, "consumer_ttl": 2}
    assert len(values(table, networkTTL="1000")[1].warnings) == 1


def test_the_right_spelling_comes_before_the_misspelt_one() -> None:
    both = {"inactiveTimoutBeforeGC": "1", "inactiveTimeoutBeforeGC": "2"}
    assert values(policy_attributes.ENTRY, **both)[0] == {"inactive_timeout_ms": 2}


def test_a_number_outside_its_bounds_leaves_the_default() -> None:
    found, findings = values(policy_attributes.ENTRY, cursorMemoryHighWaterMark="101")
    assert found == {"cursor_memory_high_water_mark": 70}
    with pytest.raises(RefusedConfigurationError, match="a whole number from 1 to 100"):
        findings.raise_if_any()


def test_message_groups_have_a_kind_of_their_own() -> None:
    assert values(policy_attributes.QUEUE, messageGroupMapFactoryType="bucket?bucketCount=8")[0] == {
        "groups": GroupMap(BUCKET_GROUPS, 8)
    }


@pytest.mark.parametrize("words", [words for words in ELEMENTS.values() if words.tables])
def test_an_attribute_with_a_row_is_honoured(words: Words) -> None:
    for table in words.tables:
        assert {words.settings[row.name].kind for row in table.rows} == {HONOURED}


def test_every_honoured_attribute_has_a_row_but_for_a_list() -> None:
    without = {}
    for name, words in ELEMENTS.items():
        rows = {row.name for table in words.tables for row in table.rows}
        missing = {word for word, rule in words.settings.items() if rule.kind == HONOURED} - rows
        if missing:
            without[name] = " ".join(sorted(missing))
    assert without == WITHOUT_A_ROW


def test_a_directory_is_a_path_without_its_scheme() -> None:
    table = persistence_attributes.KAHA_DB
    assert values(table, directory=" file:a/b ")[0] == {"directory": Path("a/b")}
    found, findings = values(table, directory="file:")
    assert found == {"directory": None}
    with pytest.raises(RefusedConfigurationError, match="directory of <e> is no directory name"):
        findings.raise_if_any()


@pytest.mark.parametrize(
    ("written", "sync", "interval_ms"),
    [
        ({}, True, 0),
        ({"enableJournalDiskSyncs": "false"}, False, 0),
        ({"enableJournalDiskSyncs": "false", "journalDiskSyncStrategy": " "}, False, 0),
        ({"enableJournalDiskSyncs": "false", "journalDiskSyncStrategy": "ALWAYS"}, True, 0),
        ({"journalDiskSyncStrategy": "never", "journalDiskSyncInterval": "5"}, False, 0),
        ({"journalDiskSyncStrategy": "periodic"}, False, 1000),
        ({"journalDiskSyncStrategy": "periodic", "journalDiskSyncInterval": "5"}, False, 5),
    ],
)
def test_the_strategy_of_syncs_comes_before_the_older_flag(
    written: dict[str, str], sync: bool, interval_ms: int
) -> None:
    syncs = persistence_attributes.JournalSyncs(**values(persistence_attributes.SYNCS, **written)[0])  # type: ignore[arg-type]
    assert (syncs.sync, syncs.sync_interval_ms) == (sync, interval_ms)


def test_names_of_groups_are_separated_by_commas() -> None:
    assert values(security_attributes.ACCESS, read=" a, ,b ")[0] == {"read": frozenset({"a", "b"})}


def test_an_affix_may_be_empty_and_is_part_of_a_name() -> None:
    assert values(virtual_attributes.MIRRORED, prefix="", postfix=".copy")[0] == {"prefix": "", "postfix": ".copy"}
    with pytest.raises(RefusedConfigurationError, match="prefix of <e> must name one destination"):
        values(virtual_attributes.MIRRORED, prefix="a.*")[1].raise_if_any()


def test_a_default_size_is_shown_in_the_largest_unit_without_a_fraction() -> None:
    row = usage_attributes.MEMORY.rows[0]
    assert usage_attributes.MEMORY.default_of(row) == "`1 gb`"
    assert [row.kind.written(size) for size in (0, 1023, 64 * 1024**2, 1025 * 1024**2)] == [
        "0", "1023", "64 mb", "1025 mb"
    ]  # fmt: skip
