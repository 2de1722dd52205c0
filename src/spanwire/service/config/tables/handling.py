"""What becomes of a word of ``activemq.xml``; which words there are stands in tables of such rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HONOURED: Final = "honoured"
ONLY: Final = "only"  # accepted with the given values; any other is not yet supported
NO_EFFECT: Final = "no effect"  # accepted with a warning that says why
LATER: Final = "later"  # not yet supported


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of one word.

    ``values`` are lower case. ``note`` says why a word has no effect, or names the feature that a word of a later
    version belongs to; ``advice`` is what to do until then. A word that ``guards`` access is never skipped.
    A ``holder`` that is empty asks for nothing.
    """

    kind: str
    values: tuple[str, ...] = ()
    note: str = ""
    advice: str = "remove it"
    guards: bool = False
    holder: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """The settings and inner elements of one element; all of it guards access if ``guards``."""

    settings: dict[str, Rule]
    children: dict[str, Rule]
    guards: bool = False


YES: Final = Rule(HONOURED)
JAVA: Final = Rule(NO_EFFECT, note="it tunes the Java implementation")


def later(feature: str, advice: str = "remove it", guards: bool = False) -> Rule:
    """A word that a later version brings with ``feature``."""
    return Rule(LATER, note=feature, advice=advice, guards=guards)


def list_of(feature: str) -> Rule:
    """An element that holds others of that feature, and asks for nothing while it is empty."""
    return Rule(LATER, note=feature, holder=True)


def only(value: str, feature: str, advice: str = "remove it", guards: bool = False) -> Rule:
    """A word that can only have ``value`` (or one of these, with blanks between them) yet."""
    return Rule(ONLY, tuple(value.split()), feature, advice, guards)


def all_of(rule: Rule, names: str) -> dict[str, Rule]:
    """The same rule for each of ``names``, which have blanks between them."""
    return dict.fromkeys(names.split(), rule)
