"""The rows of one view found changed, new or gone by a round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spanwire.management.tables.attributes import ViewTable

AGES: Final = frozenset({"uptime_s", "since_s", "away_s"})  # they grow by themselves, which is no change

Row = Mapping[str, object]
Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """Changed and new rows, and the keys of vanished rows."""

    changed: Sequence[Row]
    removed: Sequence[Row]


class Differences:
    """Compares each reading of a view with the one before."""

    def __init__(self, view: ViewTable) -> None:
        self._keys: Final = view.keys
        self._rows: dict[Key, Row] | None = None

    @property
    def has_base(self) -> bool:
        """True after the first reading."""
        return self._rows is not None

    def update(self, rows: Iterable[Row]) -> Change:
        """Take a reading. Returns the difference to the reading before, empty for the first."""
        former, now = self._rows, {tuple(row.get(key) for key in self._keys): row for row in rows}
        self._rows = now
        if former is None:
            return Change([], [])
        changed = [row for key, row in now.items() if not _is_same(row, former.get(key))]
        removed = [dict(zip(self._keys, key, strict=True)) for key in former if key not in now]
        return Change(changed, removed)


def _is_same(row: Row, former: Row | None) -> bool:
    if former is None:
        return False
    return row == former or _without_ages(row) == _without_ages(former)


def _without_ages(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in AGES}
