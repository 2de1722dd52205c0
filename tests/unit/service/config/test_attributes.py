"""Rows of the attribute tables: each sets its field, and the reference shows its value and default."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from spanwire.broker.policy.policy_entry import BUCKET_GROUPS, GroupMap
from spanwire.documents.element import Attribute as Written
from spanwire.documents.element import Element
from spanwire.service.config.interpretation import network, plugins
from spanwire.service.config.tables import attribute_table, broker_attributes, policy_attributes
from spanwire.service.config.tables.attributes import FLAG, Attribute, AttributeTable
from spanwire.service.config.tables.handling import HONOURED, Words
from spanwire.service.config.values.diagnostics import Findings, RefusedConfigurationError
from spanwire.service.config.values.values import Settings

CANDIDATES = (*vars(attribute_table).values(), *vars(plugins).values(), network.CONNECTOR)
WORDS = [table for table in CANDIDATES if isinstance(table, Words)]
TABLES = {id(table): table for words in WORDS for table in words.tables}
ROWS = [(table, row) for table in TABLES.values() for row in table.rows]
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


@pytest.mark.parametrize("words", [words for words in WORDS if words.tables])
def test_an_attribute_with_a_row_is_honoured(words: Words) -> None:
    for table in words.tables:
        assert {words.settings[row.name].kind for row in table.rows} == {HONOURED}
