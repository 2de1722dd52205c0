"""Rules for the handling of each word of ``activemq.xml``; tables of rules list the words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.service.config.tables.attributes import AttributeTable

HONOURED: Final = "honoured"
ONLY: Final = "only"  # accepted with the listed values; other values are not yet supported
NO_EFFECT: Final = "no effect"  # accepted with a warning and its reason
LATER: Final = "later"  # not supported; the feature is of a later version, or left out on purpose


@dataclass(frozen=True, slots=True)
class Rule:
    """The handling of a word.

    ``values`` are in lower case. ``note`` is the reason why a word has no effect, or the feature that a word asks for.
    ``advice`` is the way round. A word with ``guards`` protects access and is never skipped. An empty element
    with ``holder`` has no effect.
    """

    kind: str
    values: tuple[str, ...] = ()
    note: str = ""
    advice: str = "remove it"
    guards: bool = False
    holder: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """The settings and inner elements of an element; with ``guards`` all of them protect access.

    ``tables`` have the honoured settings that set one field each.
    """

    settings: dict[str, Rule]
    children: dict[str, Rule]
    guards: bool = False
    tables: tuple[AttributeTable, ...] = ()


YES: Final = Rule(HONOURED)
JAVA: Final = Rule(NO_EFFECT, note="it tunes the Java implementation")
WIRED: Final = Rule(NO_EFFECT, note="the parts of the broker are connected already")
# Words of every element. An `id` is Spring's name of an object.
COMMON: Final = {
    "id": YES,
    **dict.fromkeys("adminConnectionContext brokerService next scheduledThreadPoolExecutor".split(), WIRED),
}


def honoured(*tables: AttributeTable) -> dict[str, Rule]:
    """Return the rule for each attribute of some tables."""
    return {row.name: YES for table in tables for row in table.rows}


def later(feature: str, advice: str = "remove it", guards: bool = False) -> Rule:
    """Return the rule for an unsupported word that asks for ``feature``."""
    return Rule(LATER, note=feature, advice=advice, guards=guards)


def list_of(feature: str) -> Rule:
    """Return the rule for an element with elements of an unsupported feature alone."""
    return Rule(LATER, note=feature, holder=True)


def only(value: str, feature: str, advice: str = "remove it", guards: bool = False) -> Rule:
    """Return the rule for a word with only ``value`` supported (or several values, separated by blanks)."""
    return Rule(ONLY, tuple(value.split()), feature, advice, guards)


def all_of(rule: Rule, names: str) -> dict[str, Rule]:
    """Return ``rule`` for each of the blank-separated ``names``."""
    return dict.fromkeys(names.split(), rule)
