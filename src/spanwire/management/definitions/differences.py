"""Differences between two documents of definitions."""

from __future__ import annotations

from dataclasses import dataclass

from spanwire.management.definitions.document import Document
from spanwire.management.definitions.kinds import KINDS, LEFT_OUT, LIMITS, LOGGER, SETTINGS, Key, Kind, Value, Values


@dataclass(frozen=True, slots=True)
class Difference:
    """One different object. ``before`` or ``after`` is None for an object of one document alone."""

    kind: Kind
    key: Key
    before: Values | None
    after: Values | None

    @property
    def changed(self) -> list[str]:
        """The names of the different fields of an object in both documents."""
        if self.before is None or self.after is None:
            return []
        return _changed(self.kind, self.before, self.after)

    def lines(self) -> list[str]:
        """Return lines for people: ``+`` and ``-`` for objects of one document, ``~`` for a different field."""
        title = self.kind.title(self.key)
        if self.before is None or self.after is None:
            return [f"{'+' if self.before is None else '-'} {title}"]
        return [f"~ {title}: {name}: {self.before[name]} -> {self.after[name]}" for name in self.changed]


def differences(before: Document, after: Document) -> list[Difference]:
    """Return the differences of two documents, in the order in which objects are made.

    Secrets are never compared; limits are compared where both documents have them.
    """
    found = []
    for kind in KINDS.values():
        first, second = dict(before.of(kind)), dict(after.of(kind))
        for key in sorted({*first, *second}):
            old, new = first.get(key), second.get(key)
            if kind is LIMITS and (old is None or new is None):
                continue
            difference = Difference(kind, key, old, new)
            if old is None or new is None or difference.changed:
                found.append(difference)
    return found


def compared(before: Document, after: Document) -> tuple[list[Difference], list[str]]:
    """Return the differences for people, and a line for each changed logger that is not compared.

    Loggers are not compared where one document has none, as configurations have.
    """
    loggers = [*before.of(LOGGER), *after.of(LOGGER)]
    found = differences(before, after)
    if before.of(LOGGER) and after.of(LOGGER):
        return found, []
    changed = [f"{LOGGER.title(key)}: {values['level']}" for key, values in loggers if values != LOGGER.defaults]
    return [one for one in found if one.kind is not LOGGER], changed


def public_settings(values: Values) -> dict[str, str]:
    """Return the settings without secrets, because a user may have filled them in."""
    settings = values.get(SETTINGS, {})
    assert isinstance(settings, dict)
    return {name: value for name, value in settings.items() if "password" not in name.lower()}


def _changed(kind: Kind, before: Values, after: Values) -> list[str]:
    names = []
    for name in kind.defaults:
        if name == LEFT_OUT or name not in before or name not in after:
            continue
        old: Value = before[name] if name != SETTINGS else public_settings(before)
        new: Value = after[name] if name != SETTINGS else public_settings(after)
        if old != new:
            names.append(name)
    return names
