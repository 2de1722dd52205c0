"""The actions ``list`` and ``show``: rows of a view, as a table or with all attributes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client
from spanwire.documents.spelling import suggestion
from spanwire.management.control_client import ControlClient
from spanwire.management.tables.attributes import INTEGER, NUMBER, ViewTable
from spanwire.management.tables.listing import QueryError, read_listing
from spanwire.management.tables.view_table import ADVISORY_TOPICS, QUEUES, TOPICS, rows_of
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped

Row = dict[str, object]
CONDITION: Final = re.compile(r"([a-zA-Z_]+)([=<>])(.*)", re.ASCII | re.DOTALL)
NOT_THERE: Final = "-"  # the cell of a value that there is not


def list_rows(word: str, view: ViewTable, columns: Sequence[str], arguments: Sequence[str]) -> int:
    """Run ``spanwire NOUN list``: print the chosen rows as a table, and the number of rows."""
    parser = Parser(prog=f"spanwire {word} list", description=f"List {view.meaning}.")
    parser.add_argument(
        "pattern", nargs="?", metavar="PATTERN", help="only names that this matches; * and ? stand for any text"
    )
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="only rows with this attribute, such as 'pending>100' or 'user_name=app*'; all of several must hold",
    )
    parser.option("sort", "order by this attribute", metavar="ATTRIBUTE")
    parser.flag("descending", "the greatest first")
    parser.whole_number("limit", "at most so many rows; 0 for all", 0)
    parser.option("view", "show these attributes, separated by commas", metavar="NAMES")
    parser.add_argument("--json", action="store_true", help="print all attributes as JSON")
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    query = [_condition(text) for text in options.where]
    if options.pattern is not None:
        query.append((view.keys[0], _name_pattern(view, str(options.pattern))))
    if options.sort:
        query.append(("sort", f"{'-' if options.descending else ''}{options.sort}"))
    listing = read_listing(view, query)
    shown = [name.strip() for name in str(options.view).split(",")] if options.view else list(columns)
    _check_attributes(view, shown)
    rows = fetch(control_client(options), view)
    hidden = 0
    if view is TOPICS and options.pattern is None:
        every, rows = rows, [row for row in rows if not str(row["destination"]).startswith(ADVISORY_TOPICS)]
        hidden = len(every) - len(rows)
    answer = replace(listing, size=options.limit or max(len(rows), 1)).select(rows)
    items = answer["items"]
    assert isinstance(items, list)
    if options.json:
        sys.stdout.write(json.dumps(items, indent=2) + "\n")
        return 0
    if items:
        sys.stdout.write(table(view, shown, items))
    if rows and not answer["total"]:
        sys.stdout.write(f"none of {counted(len(rows), view)} matches\n")
    else:
        sys.stdout.write(_summary(view, len(items), answer["total"], hidden))
    return 0


def show_row(word: str, view: ViewTable, arguments: Sequence[str]) -> int:
    """Run ``spanwire NOUN show NAME``: print all attributes of one row."""
    parser = Parser(prog=f"spanwire {word} show", description=f"Show all attributes of one of {view.meaning}.")
    for key in view.keys:
        parser.add_argument(key, metavar="NAME" if key == "destination" else key.upper(), help=_meaning(view, key))
    parser.add_argument("--json", action="store_true", help="print the attributes as JSON")
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    client = control_client(options)
    wanted = [_key(view, key, str(getattr(options, key))) for key in view.keys]
    row = next((row for row in fetch(client, view) if [str(row.get(key)) for key in view.keys] == wanted), None)
    if row is None:
        raise ConfigurationError(
            f"there is no {word} {escaped(' '.join(wanted))[:200]}; spanwire {word} list shows all"
        )
    if view in (QUEUES, TOPICS):
        row = rows_of(view, [client.ask("destination", destination=row["destination"])])[0]
    if options.json:
        sys.stdout.write(json.dumps(row, indent=2) + "\n")
        return 0
    width = max(len(name) for name in row)
    sys.stdout.write("".join(f"{name:<{width}}  {_cell(value)}\n" for name, value in row.items()))
    return 0


def fetch(client: ControlClient, view: ViewTable) -> list[Row]:
    """Return all rows of a view of a running broker. Raises `ControlError`."""
    return rows_of(view, client.ask(view.command))


def qualified(view: ViewTable, name: str) -> str:
    """Return the name of a queue or topic with the scheme."""
    scheme = "queue" if view is QUEUES else "topic"
    return name if "://" in name else f"{scheme}://{name}"


def counted(count: int, view: ViewTable) -> str:
    """Return a number of rows in words, such as ``2 queues``."""
    name = view.name.replace("_", " ")
    return f"{count} {name.removesuffix('s') if count == 1 else name}"


def table(view: ViewTable, columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return rows under headings, one line each; numbers are right-aligned in a column."""
    numbers = {attribute.name for attribute in view.attributes if attribute.type in (INTEGER, NUMBER)}
    lines = [list(columns), *([_cell(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "".join(
        "  ".join(
            cell.rjust(width) if name in numbers else cell.ljust(width)
            for name, cell, width in zip(columns, line, widths, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )


def _summary(view: ViewTable, shown: int, total: object, hidden: int) -> str:
    assert isinstance(total, int)
    count = "" if shown == total else f"{shown} of "
    return (
        count
        + counted(total, view)
        + (f"; {hidden} advisory topics are left out: a pattern shows them" if hidden else "")
        + "\n"
    )


def _condition(text: str) -> tuple[str, str]:
    match = CONDITION.fullmatch(text)
    if match is None:
        raise QueryError(f"--where {text[:60]}: write ATTRIBUTE=VALUE, ATTRIBUTE>NUMBER or ATTRIBUTE<NUMBER")
    name, sign, value = match.groups()
    return name, value if sign == "=" else sign + value


def _name_pattern(view: ViewTable, pattern: str) -> str:
    """Return the key pattern for a pattern of names: the key of a queue is the name behind ``queue://``."""
    return pattern if view not in (QUEUES, TOPICS) or "://" in pattern else f"*://{pattern}"


def _key(view: ViewTable, key: str, text: str) -> str:
    return qualified(view, text) if key == "destination" else text


def _meaning(view: ViewTable, name: str) -> str:
    return next(attribute.meaning for attribute in view.attributes if attribute.name == name)


def _check_attributes(view: ViewTable, names: Sequence[str]) -> None:
    known = [attribute.name for attribute in view.attributes if not attribute.detail]
    for name in names:
        if name not in known:
            raise QueryError(f"--view: there is no attribute {name[:60]!r}{suggestion(name[:60], known, ', ', 0)}")


def _cell(value: object) -> str:
    if value is None or value == "":
        return NOT_THERE
    if isinstance(value, (dict, list, bool)):
        return escaped(json.dumps(value))
    return escaped(str(value))
