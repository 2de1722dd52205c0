"""List pages: the rows of a view as a table with search, filters, order and paging, all on the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from spanwire.management.tables.attributes import (
    BOOLEAN,
    BYTES,
    INTEGER,
    MILLISECONDS,
    NUMBER,
    SECONDS,
    Attribute,
    ViewTable,
)
from spanwire.management.tables.listing import PAGING, read_listing
from spanwire.management.tables.operation_table import Role
from spanwire.web.api import listed as rows_listed
from spanwire.web.calls import Call
from spanwire.web.console import formats
from spanwire.web.console.forms import read_words
from spanwire.web.console.rendering import page

STATE: Final = "state"
SEARCH: Final = "q"
NOTICE_WORDS: Final = ("did", "count")  # of a page to which an operation leads
SIZES: Final = (50, 100, 500)
DO_PATH: Final = "/admin/do"
MAX_WORD: Final = 25  # characters of a text that is not broken within a cell, such as an address with its port
UNITS: Final = ("_ms", "_s", "_bytes")  # ends of attributes' names; the value has the unit
CONVERTS: Final = "convert_string_expressions:"  # begins a selector of STOMP, which compares texts as numbers
MAX_SEARCH: Final = 100  # characters of a search

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Filter:
    """A named filter of a list: one parameter of the query with its value."""

    label: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Column:
    """One column: an attribute of the view, a heading, and the path of a page with ``name`` in the query.

    A column with ``terms``, pairs of an attribute and a word, shows their sum, and below the terms other than 0. A
    column with ``words`` shows the returned text for the row, as a state unless it ``is_plain``. A column with
    ``leads`` has the returned link for the row.
    """

    name: str
    heading: str
    path: str = ""
    terms: tuple[tuple[str, str], ...] = ()
    words: Callable[[Row], str] | None = None
    is_plain: bool = False
    leads: Callable[[Row], str] | None = None


@dataclass(frozen=True, slots=True)
class RowAction:
    """An operation on one row: label, path and role, and pairs of a word of the form and an attribute.

    ``folder`` is the begin of the path, different for pages without an operation. ``fixed`` are words for all rows.
    """

    label: str
    path: str
    role: Role
    words: tuple[tuple[str, str], ...]
    is_offered: Callable[[Row], bool] = lambda row: True
    folder: str = DO_PATH
    fixed: tuple[tuple[str, str], ...] = ()

    def target(self, row: Row, back: str) -> str:
        """Return the link to the form of the operation."""
        words = {**dict(self.fixed), **{word: row.get(name) for word, name in self.words}}
        return formats.link(f"{self.folder}{self.path}", **words, back=back if self.folder == DO_PATH else "")


@dataclass(frozen=True, slots=True)
class ListPage:
    """One list. ``searched`` is the searched attribute; ``hidden`` rows are shown on request.

    ``also`` has labels and paths of related lists, and ``create`` the label and path of the operation for a new row.
    ``bulk`` has labels and paths of operations on chosen rows.
    """

    view: ViewTable
    title: str
    path: str
    columns: tuple[Column, ...]
    searched: str
    order: str
    empty: str
    filters: tuple[Filter, ...] = ()
    hidden: Callable[[Row], bool] | None = None
    hidden_label: str = ""
    actions: tuple[RowAction, ...] = ()
    create: tuple[str, str] | None = None
    bulk: tuple[tuple[str, str], ...] = ()
    also: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a column; ``target`` is the link to the list in its order, empty for a sum."""

    label: str
    target: str
    direction: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of a row, as text.

    ``style`` is the class of its width and side, ``note`` the terms of a sum.
    """

    text: str
    target: str
    style: str
    is_state: bool
    label: str
    note: str = ""


async def show_list(listed: ListPage, call: Call) -> Response:
    """Show a page of a list. Raises `ProblemError` for a wrong query."""
    query = [pair for pair in read_words(call).fields if pair[1] != "" and pair[0] not in NOTICE_WORDS]
    search = next((value for name, value in query if name == SEARCH), "")[:MAX_SEARCH]
    shows_hidden = any(name == "all" for name, _ in query)
    words = [(name, value) for name, value in query if name not in (SEARCH, "all")]
    asked = dict(words)
    pairs = [*words]
    if search:
        pairs.append((listed.searched, search if set(search) & set("*?") else f"*{search}*"))
    asked.setdefault("sort", listed.order)
    asked.setdefault("size", str(SIZES[1]))
    listing = read_listing(listed.view, [*_without(pairs, PAGING), *((n, asked[n]) for n in PAGING if n in asked)])
    rows: Sequence[Row] = await rows_listed(listed.view, call)
    if listed.hidden is not None and not shows_hidden:
        rows = [row for row in rows if not listed.hidden(row)]
    selected = listing.select(rows)
    total, items = selected["total"], selected["items"]
    assert isinstance(total, int) and isinstance(items, list)
    pages = max(1, -(-total // listing.size))
    attributes = {attribute.name: attribute for attribute in listed.view.attributes}
    return page(
        call,
        "list.html",
        listed.title,
        listed=listed,
        views=listed.view.name,
        search=search,
        query=query,
        headings=[_heading(listed, column, attributes[column.name], query, asked["sort"]) for column in listed.columns],
        rows=[_row(listed, attributes, row, call) for row in items],
        back=_target(listed, query),
        has_actions=any(call.caller.role >= one.role for one in listed.actions),
        key=listed.view.keys[0],
        total=total,
        count=len(rows),
        page_number=listing.page,
        pages=pages,
        previous=_target(listed, query, page=listing.page - 1) if listing.page > 1 else "",
        next=_target(listed, query, page=listing.page + 1) if listing.page < pages else "",
        filters=[_filter(listed, one, query) for one in listed.filters],
        kept=[(name, value) for name, value in query if name not in (SEARCH, "page")],
        shows_hidden=shows_hidden,
        hidden_target=_target(listed, query, all="" if shows_hidden else "1"),
        sizes=[(one, _target(listed, query, size=one), one == listing.size) for one in SIZES],
    )


def _row(
    listed: ListPage, attributes: Mapping[str, Attribute], row: Row, call: Call
) -> tuple[list[Cell], Row, list[tuple[str, str]]]:
    """Return cells, row, and label and link of each permitted operation on the row."""
    cells = [_cell(column, attributes[column.name], row) for column in listed.columns]
    actions = [
        (one.label, one.target(row, listed.path))
        for one in listed.actions
        if call.caller.role >= one.role and one.is_offered(row)
    ]
    return cells, row, actions


def _without(query: Sequence[tuple[str, str]], names: Sequence[str]) -> list[tuple[str, str]]:
    return [pair for pair in query if pair[0] not in names]


def _target(listed: ListPage, query: Sequence[tuple[str, str]], **changed: object) -> str:
    """Return the link to the same list with other parameters; all but a new page begin at the first page."""
    pairs = _without(query, ("page", *changed))
    pairs += [(name, str(value)) for name, value in changed.items() if value not in ("", None)]
    return f"{listed.path}?{urlencode(pairs, errors='surrogatepass')}" if pairs else listed.path


def _heading(
    listed: ListPage, column: Column, attribute: Attribute, query: Sequence[tuple[str, str]], sort: str
) -> Heading:
    is_number = _is_number(attribute) and (column.words is None or column.is_plain)
    if column.terms:
        return Heading(column.heading, "", "", is_number)
    is_sorted, is_descending = sort.removeprefix("-") == column.name, sort.startswith("-")
    descends = not is_descending if is_sorted else is_number
    direction = ("descending" if is_descending else "ascending") if is_sorted else ""
    return Heading(
        column.heading, _target(listed, query, sort=f"{'-' if descends else ''}{column.name}"), direction, is_number
    )


def _filter(listed: ListPage, one: Filter, query: Sequence[tuple[str, str]]) -> tuple[str, str, bool]:
    """Return label, link and state of a filter; the link of an active filter removes the filter."""
    is_active = (one.name, one.value) in query
    rest = [pair for pair in query if pair != (one.name, one.value) and pair[0] != one.name]
    return one.label, _target(listed, rest, **{} if is_active else {one.name: one.value}), is_active


def _cell(column: Column, attribute: Attribute, row: Row) -> Cell:
    value = row.get(column.name)
    if column.terms:
        found = [(row.get(name), word) for name, word in column.terms]
        counts = [(count, word) for count, word in found if isinstance(count, (int, float)) and count]
        note = ", ".join(f"{formats.number(count)} {word}" for count, word in counts)
        return Cell(formats.number(sum(count for count, _ in counts)), "", "number sum", False, column.heading, note)
    if column.words is not None:
        text = column.words(row)
        style = "number" if column.is_plain and _is_number(attribute) else "word"
        return Cell(text, "", style, not column.is_plain, column.heading)
    target = formats.link(column.path, name=value) if column.path and value is not None else ""
    text = shown(attribute, value)
    style = "number" if _is_number(attribute) else style_of(text)
    if column.leads is not None:
        target = column.leads(row)
    elif target:
        text = text.removeprefix("queue://").removeprefix("topic://")
    return Cell(text, target, style, column.name == STATE, column.heading)


def style_of(text: str) -> str:
    """Return the class of a cell: short words stay on one line, and long texts get room."""
    if len(text) > MAX_WORD and "<" not in text:
        return "wide"
    return "short" if " " in text or "<" in text else "word"


def _is_number(attribute: Attribute) -> bool:
    return attribute.type in (INTEGER, NUMBER) and not _is_moment(attribute)


def _is_moment(attribute: Attribute) -> bool:
    return attribute.unit == MILLISECONDS and "since 1970" in attribute.meaning


def label_of(name: str) -> str:
    """Return the name of an attribute for people, without its unit."""
    for unit in UNITS:
        name = name.removesuffix(unit)
    return name.replace("_", " ").capitalize().replace("Uri", "Address")


def shown(attribute: Attribute, value: object) -> str:
    """Return the value of an attribute as text, by its type and unit."""
    if value is None:
        return formats.NONE
    if attribute.type == BOOLEAN:
        return formats.yes_or_no(value)
    if attribute.unit == BYTES:
        return formats.size(value)
    if attribute.unit == SECONDS:
        return formats.duration(value)
    if _is_moment(attribute):
        return formats.moment(value)
    if attribute.name == "selector":
        return str(value).removeprefix(CONVERTS) or formats.NONE
    return formats.number(value) or formats.NONE
