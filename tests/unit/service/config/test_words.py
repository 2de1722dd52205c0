"""The tables of words are sound: nothing stands in them twice, and every default asks for nothing new."""

from __future__ import annotations

import pytest

from spanwire.registry import TRANSPORT_SCHEMES
from spanwire.service.config.elements import ELEMENTS
from spanwire.service.config.interpretation.addresses.uri import LATER_SCHEMES
from spanwire.service.config.tables.handling import HONOURED, LATER, NO_EFFECT, ONLY
from spanwire.service.config.tables.uri_options import SOCKET, STOMP, WIRE_FORMAT, XMPP
from spanwire.service.config.toml import KNOWN
from spanwire.service.config.values.diagnostics import snake_case


@pytest.mark.parametrize("name", ELEMENTS)
def test_a_rule_that_limits_names_the_values_and_one_without_effect_says_why(name: str) -> None:
    for rules in (ELEMENTS[name].settings, ELEMENTS[name].children):
        for word, rule in rules.items():
            assert word.replace("-", "").isalnum()
            assert bool(rule.values) == (rule.kind == ONLY) or rule.kind == NO_EFFECT
            assert rule.note or rule.kind in (HONOURED, ONLY)
            assert rule.note or rule.kind != ONLY or set(rule.values) == {"true", "false"}
            assert all(value == value.lower() for value in rule.values)


def test_a_transport_is_either_built_or_later() -> None:
    assert not TRANSPORT_SCHEMES.keys() & LATER_SCHEMES.keys()


def test_of_words_that_toml_spells_alike_one_alone_is_supported() -> None:
    words_of: dict[str, set[str]] = {}
    for table in ELEMENTS.values():
        for word, rule in (*table.settings.items(), *table.children.items()):
            if rule.kind != LATER:
                words_of.setdefault(snake_case(word), set()).add(word)
    assert {name: found for name, found in words_of.items() if len(found) > 1} == {}
    assert all(KNOWN[name] in found for name, found in words_of.items())
    assert KNOWN["discovery_uri"] == "discoveryUri"


def test_an_option_belongs_to_one_table() -> None:
    tables = [set(SOCKET), set(WIRE_FORMAT), set(STOMP), set(XMPP)]
    assert len(set.union(*tables)) == sum(map(len, tables))
