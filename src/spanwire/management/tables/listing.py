"""Filter, order and page of a list, from the query of a request or of a command.

    ?page=2&size=50&sort=-pending&destination=queue://ORDERS.*&pending=>10&paused=true

Texts are patterns with ``*`` and ``?``; numbers may begin with ``>`` or ``<``. Pure, without the broker.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from operator import itemgetter
from typing import Final

from spanwire.documents.spelling import suggestion
from spanwire.management.tables.attributes import BOOLEAN, INTEGER, NUMBER, Attribute, ViewTable
from spanwire.model.errors import SpanwireError

DEFAULT_SIZE: Final = 100  # rows of a page
MAX_SIZE: Final = 1_000  # rows of a page; about 400 KB of JSON
MAX_PAGE: Final = 999_999_999  # number of a page; a thousand times the rows of the largest view
MAX_PATTERN: Final = 200  # characters of a pattern
MAX_WILDCARDS: Final = 5  # stars of a pattern; the time of a comparison grows with each one
PAGING: Final = ("page", "size", "sort")
PAGE_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
COMPARISON: Final = re.compile(r"([<>]?)(-?[0-9]{1,18}(?:\.[0-9]{1,9})?)", re.ASCII)

Row = Mapping[str, object]
Test = Callable[[object], bool]


class QueryError(SpanwireError):
    """Raised for an unknown word of a query, or a value of the wrong type for the attribute."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A checked query for one view.

    The listing ``is_total`` if each row has a value for each attribute of the order.
    """

    page: int
    size: int
    sort: tuple[str, ...]
    descending: bool
    tests: tuple[tuple[str, Test], ...]
    is_total: bool = False

    def select(self, rows: Sequence[Row]) -> dict[str, object]:
        """Return the page, and the number of all rows chosen by the filters."""
        chosen = list(rows)
        if self.tests:
            chosen = [row for row in rows if all(test(row.get(name)) for name, test in self.tests)]
        self._sort(chosen)
        start = (self.page - 1) * self.size
        return {
            "items": chosen[start : start + self.size],
            "total": len(chosen),
            "page": self.page,
            "size": self.size,
        }

    def _sort(self, rows: list[Row]) -> None:
        """Sort rows; if each row has a value, a direct comparison takes a fifth of the time."""
        if self.is_total:
            with contextlib.suppress(KeyError):  # a row of an older broker
                rows.sort(key=itemgetter(*self.sort), reverse=self.descending)
                return
        rows.sort(key=self._order, reverse=self.descending)

    def _order(self, row: Row) -> tuple[tuple[bool, object], ...]:
        """Return the key of a row; rows without a value come first."""
        return tuple((row.get(name) is not None, row.get(name)) for name in self.sort)


def read_listing(view: ViewTable, query: Iterable[tuple[str, str]]) -> Listing:
    """Return the listing for a query. Raises `QueryError` for an unknown word or invalid value."""
    attributes = {attribute.name: attribute for attribute in view.attributes if not attribute.detail}
    page, size, sort = 1, DEFAULT_SIZE, ""
    tests: list[tuple[str, Test]] = []
    for name, value in query:
        if name == "page":
            page = _number(name, value, 1, MAX_PAGE)
        elif name == "size":
            size = _number(name, value, 1, MAX_SIZE)
        elif name == "sort":
            sort = value
            if value.removeprefix("-") not in attributes:
                raise _unknown(value.removeprefix("-"), attributes)
        elif name in attributes:
            tests.append((name, _test(attributes[name], value)))
        else:
            raise _unknown(name, {**attributes, **dict.fromkeys(PAGING)})
    key = sort.removeprefix("-")
    order = tuple(dict.fromkeys([key, *view.keys] if key else view.keys))
    is_total = not any(attributes[name].nullable for name in order)
    return Listing(page, size, order, sort.startswith("-"), tuple(tests), is_total)


def _number(name: str, value: str, least: int, most: int) -> int:
    if PAGE_NUMBER.fullmatch(value) is None or not least <= int(value) <= most:
        raise QueryError(f"{name} is a whole number from {least} to {most}")
    return int(value)


def _unknown(name: str, known: Iterable[str]) -> QueryError:
    names = list(known)
    return QueryError(f"there is no attribute {name[:60]!r}{suggestion(name[:60], names, ', ', 0)}")


def _test(attribute: Attribute, value: str) -> Test:
    """Return the test of an attribute's values."""
    if attribute.type == BOOLEAN:
        if value not in ("true", "false"):
            raise QueryError(f"{attribute.name} is true or false")
        return lambda found: found is (value == "true")
    if attribute.type in (INTEGER, NUMBER):
        match = COMPARISON.fullmatch(value)
        if match is None:
            raise QueryError(f"{attribute.name} is compared with a number, which may begin with < or >")
        return _comparison(match.group(1), float(match.group(2)))
    if len(value) > MAX_PATTERN or value.count("*") > MAX_WILDCARDS:
        raise QueryError(
            f"a pattern has at most {MAX_PATTERN} characters and {MAX_WILDCARDS} stars",
        )
    pattern = re.compile(translate(value.replace("[", "[[]")))  # only * and ? are special
    return lambda found: pattern.match(str(found)) is not None


def _comparison(sign: str, bound: float) -> Test:
    if sign == ">":
        return lambda found: isinstance(found, (int, float)) and found > bound
    if sign == "<":
        return lambda found: isinstance(found, (int, float)) and found < bound
    return lambda found: found == bound
